/**
 * A log that several relay processes share, as the relay sees it: batches in order, payloads beside them, and one row
 * that says who may append. It holds no row of the relay and no key of LevelDB: each process keeps its own LevelDB, a
 * view of the log.
 *
 * Invariants of every implementation:
 *   - batches are numbered from 1 without a gap, and so are their records;
 *   - a batch is appended by the tenure that leads, or not at all;
 *   - `append` resolves when every copy that the durability asks for has the batch. When it rejects with `NotWritten`,
 *     nothing of it was written; with `Fenced`, neither; with `OutcomeUnknown`, nobody knows;
 *   - nobody is shown a batch that was not acknowledged except the tenure that leads.
 */
import { phaseOf, whyNotServed } from './log-phase.ts';

/** A node that was seen within this time must read a format before the log gets it. */
export const NODE_COUNTS_MS = 24 * 3_600_000;

/** Bytes of the batches that are read at once, beside the first. */
export const BATCH_BYTES_AT_ONCE = 4 << 20;

/** A batch as the log stores it. */
export interface EncodedBatch {
  /** From 1, without a gap. A batch may hold no record. */
  no: number;
  /** The ends of its records; `firstLsn - 1 === lastLsn` when it holds no record. */
  firstLsn: number;
  lastLsn: number;
  /** The stored bytes of the records: the leaves of the hash tree. */
  records: readonly Buffer[];
  payloads: readonly StoredPayload[];
  /** Places whose wire bytes go. */
  dropped: readonly Buffer[];
  /** The rest of what the batch does to the keys of the log (batch-body.ts). */
  shared: Buffer;
  /** SHA-256 of what the batch does to the keys of the log in a view (store/durable-log.ts). */
  effects: Buffer;
}

export interface StoredPayload {
  /** Target key 32, seq u64. */
  place: Buffer;
  wire: Buffer;
}

/** A batch that is read back: its payloads are asked for by their places. */
export type FollowedBatch = Omit<EncodedBatch, 'payloads' | 'dropped'> & { term: number };

/** The server that holds the log. A promoted standby has another timeline, a restored server may have both anew. */
export interface LogServer {
  systemId: string;
  timeline: number;
}

/**
 * A tenure says who may append: one process, for one run. A term may come again after a restore of the server; a tenure
 * never.
 */
export interface Tenure {
  logId: string;
  term: number;
  /** A random UUID. */
  tenure: string;
}

/** The part of a stored batch that one that was seen is compared with. */
export type FoundBatch = Pick<FollowedBatch, 'term' | 'effects' | 'lastLsn'>;

/** The row of the log, and its end. */
export interface LogState {
  logId: string;
  /** `serving`; any other text says why nobody may lead (log-phase.ts). */
  state: string;
  /** The format of what is written to it (core/log-format.ts). */
  format: number;
  term: number;
  /** The tenure of the node that leads or led last; `undefined` before the first. */
  tenure: string | undefined;
  /** Nobody leads: the node that led gave the lead back, or there was none. */
  isFree: boolean;
  /** The name of the node that leads or led last. */
  holder: string;
  /** Rises with each renewal. */
  beat: number;
  /** When a node last led or renewed, by the server's clock: the heartbeat of the log. */
  beatMs: number;
  /** The last batch that is stored, and its last record. */
  lastNo: number;
  lastLsn: number;
  /** Everything up to here was acknowledged. */
  ackedNo: number;
  /** The server on which the last tenure began. */
  ledOn: LogServer;
  /** The settings that this node decides by. */
  settings: Buffer;
  /** Says why a new epoch must begin (doubt.ts). */
  doubt: string | undefined;
  /** The node that asked for the lead. */
  wantedBy: string | undefined;
  /** Batches up to here are gone: the snapshot of `snapshotNo` stands for them. */
  prunedNo: number;
  snapshotNo: number;
}

export interface OpenedLog {
  server: LogServer;
  /** The server's clock, milliseconds since the Unix epoch. */
  nowMs: number;
  /**
   * Says why a batch may have no second copy on this server now, as a sentence for the operator; `undefined` when it
   * has what the durability asks for. Nothing is begun, led or appended meanwhile.
   */
  copyFault: string | undefined;
  /** `undefined`: nobody has begun a log here. */
  state: LogState | undefined;
}

export interface Renewal {
  /** True when the log holds the batch that was named. */
  holds: boolean;
  doubt: string | undefined;
  wantedBy: string | undefined;
  /** The server's clock. */
  nowMs: number;
  /** The one that answered. */
  server: LogServer;
  /** The same as that of `OpenedLog`. */
  copyFault: string | undefined;
}

/** A node that takes the lead. */
export interface Candidate {
  /** The name of its node. */
  holder: string;
  /** A digest of what it decides by. */
  settings: Buffer;
  /**
   * Says why it must begin a new epoch, if it must. It is added to the doubt of the log with the lead, so that the next
   * leader knows it when this one ends before the new epoch is durable.
   */
  doubt?: string | undefined;
}

/** A node of the log: a process that leads or follows. */
export interface LogNode {
  name: string;
  /** The version of its software. */
  version: string;
}

export interface SeenNode extends LogNode {
  /** The newest format that it reads. */
  format: number;
  /** When it noted itself last, by the server's clock. */
  seenMs: number;
}

/** The change that an operator's command makes in the row. Nobody leads afterwards, and no tenure before goes on. */
export interface LogChange {
  state: string;
  /** A new one, by which the row shows that this change was made. */
  tenure: string;
  /**
   * The log that takes the place of the one in the row, in the format of this software, and the batch that its snapshot
   * stands for.
   */
  replacedBy?: { logId: string; no: number } | undefined;
}

export interface SharedLog {
  /** The address as an operator names it, without a password. */
  readonly place: string;
  /** The newest format that it reads and writes. */
  readonly format: number;
  /** Throws `LogUnreachable`, and `LogRefused` for a newer format, or a server that may forget what it stored. */
  open(): Promise<OpenedLog>;
  /** Begins a log where there is none; otherwise adds what a newer software needs, and changes nothing. */
  initialise(logId: string): Promise<void>;
  /**
   * Takes the lead if nothing has changed since `seen`, the doubt included, nor the server since the last `open`; else
   * `'held'`.
   */
  lead(seen: LogState, candidate: Candidate): Promise<Tenure | 'held'>;
  /** The heartbeat of the tenure, which names the last batch that was acknowledged. Throws `Fenced`. */
  renew(tenure: Tenure, acked: Pick<EncodedBatch, 'no' | 'effects'>): Promise<Renewal>;
  /** The first batch of a tenure follows `lastNo` and `lastLsn` of the state that it was taken from. */
  append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended>;
  /**
   * Finds out what became of a batch of which nobody knew it: every copy has it, or nobody has, and it may be appended
   * again.
   * Throws `Fenced`, also where the log lies on another server than the one on which the lead was taken;
   * `OutcomeUnknown`, `LogUnreachable` and `NotWritten` while it is not known.
   */
  settle(tenure: Tenure, batch: Pick<EncodedBatch, 'no' | 'effects'>): Promise<'stored' | 'absent'>;
  /** The batches after `afterNo`, at most those that were acknowledged unless `tenure` leads; a run of them. */
  batches(logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]>;
  /** The batch of that number; `undefined` when the log does not hold it. */
  batch(logId: string, no: number): Promise<FoundBatch | 'pruned' | undefined>;
  /** By their places; `undefined` where there is none. */
  payloads(logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]>;
  /** Adds to the doubt why the next leader, or this one, must begin a new epoch. */
  doubt(logId: string, reason: string): Promise<void>;
  /** Takes `doubt` away, after the new epoch is durable; what was added to it meanwhile stays. Throws `Fenced`. */
  clearDoubt(tenure: Tenure, doubt: string): Promise<void>;
  /** Notes that the node of that name is to lead: the leader is told with its next renewal. */
  want(logId: string, holder: string): Promise<void>;
  /** Notes that this node lives; a crash of the server may lose it. */
  noteNode(logId: string, node: LogNode): Promise<void>;
  /** The nodes that were seen in the last days, by name. */
  nodes(logId: string): Promise<SeenNode[]>;
  /**
   * Gives the log the newest format that this software writes, if every node that counts reads it. Returns the format
   * that the log has then. Throws `Fenced`.
   */
  raise(tenure: Tenure): Promise<number>;
  /**
   * Gives the lead back, for anybody to take at once. On another server than the one on which it was taken it changes
   * nothing: no other node could prove that this server has everything (takeover-rules.ts).
   */
  resign(tenure: Tenure, ackedNo: number): Promise<void>;
  /**
   * Changes the row if nothing in it has changed since `seen`, nor the server since the last `open`; returns whether it
   * did. When it resolves, every copy has the change, and all that was stored before it.
   */
  change(seen: LogState, change: LogChange): Promise<boolean>;
  /** Adds wire bytes to a log that is being loaded. `hold` is what the row says since it began. Throws `Fenced`. */
  loadPayloads(hold: Tenure, logId: string, payloads: readonly StoredPayload[]): Promise<void>;
  /** Adds the batch with which a log that is being loaded begins. Throws `Fenced`. */
  loadBatch(hold: Tenure, logId: string, batch: EncodedBatch): Promise<void>;
  /** Adds a part of its snapshot. Throws `Fenced`. */
  loadPart(hold: Tenure, logId: string, throughNo: number, part: number, body: Buffer): Promise<void>;
  /** Deletes some of what is of logs that the row does not name; returns how many rows. */
  sweep(): Promise<number>;
  /*
   * Snapshots of what views hold, each as it is after one batch. At most one is valid, `snapshotNo` of the state: it
   * stands for the batches up to it. Its parts are numbered from 0 (snapshot.ts). A tenure that does not lead any more
   * writes and deletes nothing. None of this waits for a standby: what is stored later has it only after this.
   */

  /** Stores a part of a snapshot that is to come after the valid one. Throws `Fenced`. */
  putPart(tenure: Tenure, throughNo: number, part: number, body: Buffer): Promise<void>;
  /** A part of any snapshot, valid or not; `undefined` when there is none. */
  part(logId: string, throughNo: number, part: number): Promise<Buffer | undefined>;
  /**
   * Makes it the valid one. To be called when all of its parts were read back as they were written, and when the
   * batches up to `ackedNo`, the one that vouches for it among them, were acknowledged. Throws `Fenced`; also for one
   * that lacks its first part, that is not newer than the valid one, or that no batch follows.
   */
  makeValid(tenure: Tenure, throughNo: number, ackedNo: number): Promise<void>;
  /** Deletes some parts of snapshots that are not valid. Resolves to whether more may be left. Throws `Fenced`. */
  dropOtherParts(tenure: Tenure): Promise<boolean>;
  /**
   * Deletes some of the batches up to `throughNo`. Resolves to whether more may be left. Throws `Fenced`; also for
   * batches that the valid snapshot does not stand for.
   */
  prune(tenure: Tenure, throughNo: number): Promise<boolean>;
  /** At once: what is under way is rejected, and nothing is asked any more. */
  close(): Promise<void>;
}

export interface Appended {
  doubt: string | undefined;
}

/** Another tenure leads, or the log is not the one that was led. Nothing was written. */
export class Fenced extends Error {
  constructor(options?: ErrorOptions) {
    super('another node leads the log, or it is not the same log any more', options);
  }
}

/** Nobody knows whether the batch is stored on every copy, until `settle` finds out. */
export class OutcomeUnknown extends Error {
  constructor(why: string, options?: ErrorOptions) {
    super(`nobody knows whether the batch is stored on every copy of the log: ${why}`, options);
  }
}

/** Nothing was written, and the same batch may be appended again: the server's disk is full, or it was too busy. */
export class NotWritten extends Error {
  constructor(why: string, options?: ErrorOptions) {
    super(`the log took nothing: ${why}`, options);
  }
}

/** No server of the log answers; it may later. */
export class LogUnreachable extends Error {
  constructor(why: string, options?: ErrorOptions) {
    super(`the log cannot be reached: ${why}`, options);
  }
}

/** A batch would have no second copy on the server as it is now. Nothing was written; it may have one later. */
export class NoSecondCopy extends Error {}

/** The log must not be used like this. The message is a sentence for the operator, with the next step and no secret. */
export class LogRefused extends Error {}

/** The server, or a pooler before it, answers with an error that does not pass by itself, and may be mended there. */
export class ServerRefused extends LogRefused {}

/** True when the same may be tried again, and nothing was changed. */
export function isPassing(error: unknown): boolean {
  return error instanceof LogUnreachable || error instanceof NotWritten || error instanceof NoSecondCopy;
}

/** True for an error that says that no server of the log was reached, or that its answer was lost. */
export function isUnreached(error: unknown): boolean {
  const { cause } = error as Error;
  return [error, cause].some((one) => one instanceof LogUnreachable || one instanceof OutcomeUnknown);
}

/** `opened`, if a batch has a second copy on its server. Throws `NoSecondCopy`. */
export function copied<T extends Pick<OpenedLog, 'copyFault'>>(opened: T): T {
  if (opened.copyFault === undefined) return opened;
  throw new NoSecondCopy(opened.copyFault);
}

/** `opened`, if its log serves. Throws `LogRefused`. */
export function served<T extends { state: LogState }>(opened: T): T {
  const why = whyNotServed(phaseOf(opened.state.state));
  if (why === undefined) return opened;
  throw new LogRefused(why);
}

/** Throws `LogRefused` for a log whose format is newer than the newest that is known. */
export function refuseNewer(format: number, known: number): void {
  if (format <= known) return;
  throw new LogRefused(
    `the log has the format ${format}, and this software reads formats up to ${known}: start the newer software`,
  );
}
