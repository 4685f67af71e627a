/**
 * A decision is made from facts. It yields events with an outcome, or a refusal, which changes nothing.
 *
 * The facts are the rows that one command needs, read through a `RowReader` that shows every command admitted before
 * it, durable or not. Synchronous: whatever needs a range was loaded before (see queue-index.ts and directory.ts). Here
 * is what several decisions read; what one alone needs it reads itself.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import type { RelayEvent } from './event.ts';
import {
  type AuthorityName,
  EMPTY_TARGET,
  type LineageMember,
  NO_USAGE,
  type QueueRow,
  type RelayRow,
  type RowReader,
  type SendersRow,
  type TargetRow,
  type UsageRow,
  rowKey,
} from './rows.ts';
import type { Limits } from '../../protocol/limits.ts';
import type { Admissions, Directory } from './directory.ts';

/** A refusal says why a whole request is refused. `members` go into the problem document beside the code. */
export interface Refusal {
  type: 'Refusal';
  code: ProblemCode;
  detail: string;
  members: Readonly<Record<string, unknown>>;
}

export function refusal(code: ProblemCode, detail: string, members: Readonly<Record<string, unknown>> = {}): Refusal {
  return { type: 'Refusal', code, detail, members };
}

/** Refuses to admit a key, for a reason that its host is told. */
export function notAdmitted(reason: string): Refusal {
  return refusal('ENROL_REFUSED', reason, { reason });
}

export function issuedAhead(): Refusal {
  return refusal('IAT_IN_FUTURE', 'issued more than 5 minutes ahead of the clock of this relay');
}

/** One target of an item that is stored, now or before. */
export interface StoredTarget {
  /** The key this request used. */
  hostPubkey: PublicKey;
  seq: number;
  wireHash: Sha256Hex;
}

export type PushOutcome =
  | { type: 'ItemStored'; status: 'accepted' | 'duplicate'; targets: StoredTarget[]; atMs: number }
  | { type: 'ItemRejected'; rejection: ItemRejection };

export interface EnrolOutcome {
  type: 'Enrolled';
  hostPubkey: PublicKey;
  host: string;
  enrolledAtMs: number;
  authorizedBy: AuthorityName;
  account: string | null;
  crowded: boolean;
}

export interface AckOutcome {
  type: 'Acked';
  ackedThrough: number;
  deleted: number;
  headSeq: number;
}

export interface SendersOutcome {
  type: 'SendersListed';
  senders: number;
  iatMs: number;
}

export interface EncKeyOutcome {
  type: 'EncKeyShown';
  atMs: number;
}

export interface RotateOutcome {
  type: 'KeyRotated';
  hostPubkey: PublicKey;
  movedItems: number;
  headSeq: number;
}

export interface RevokeOutcome {
  type: 'Revoked';
  /** False when the key was revoked before. */
  isNew: boolean;
}

export interface InviteOutcome {
  type: 'Invited';
  expiresAtMs: number;
}

export interface EpochOutcome {
  type: 'EpochBegun';
  epoch: Epoch;
}

export interface Done {
  type: 'Done';
}

/** The outcome of any command but `ExpireItems`. */
export type Outcome =
  | PushOutcome
  | EnrolOutcome
  | AckOutcome
  | SendersOutcome
  | EncKeyOutcome
  | RotateOutcome
  | RevokeOutcome
  | InviteOutcome
  | EpochOutcome
  | Done;

export interface Decided<O> {
  type: 'Decided';
  events: RelayEvent[];
  outcome: O;
}

export function decisionOf<O>(outcome: O, ...events: RelayEvent[]): Decided<O> {
  return { type: 'Decided', events, outcome };
}

/**
 * Thrown where the rows of one queue contradict what is to happen to it, as when more would be released than is
 * charged. Nothing of such an event may be kept; the queues of others are as they were.
 */
export class BrokenQueue extends Error {
  readonly targetPubkey: PublicKey;

  constructor(targetPubkey: PublicKey, message: string, options?: ErrorOptions) {
    super(message, options);
    this.targetPubkey = targetPubkey;
  }
}

/** The key whose queue or charges an event is about; of an `ItemAccepted`, which may have many targets, none. */
export function queueOf(event: RelayEvent): PublicKey | undefined {
  if ('targetPubkey' in event) return event.targetPubkey;
  if ('oldPubkey' in event) return event.oldPubkey;
  return 'hostPubkey' in event ? event.hostPubkey : undefined;
}

/** The operator's settings. */
export interface RelaySettings {
  limits: Limits;
  /** The hosts that may enrol: all that the authority admits, or of those only hosts with an invite. */
  admission: 'open' | 'invite';
  enrolmentsMax: number;
  dedupRowsMax: number;
  /** Bytes of the disk for all mail, of which strangers have a part (mail-use.ts); absent: as the disk allows. */
  mailBudgetBytes?: number;
}

/** The facts of decisions about the hosts of a relay. */
export interface HostFacts {
  rows: RowReader;
  directory: Directory;
  admissions: Admissions;
  settings: RelaySettings;
}

/** The source of facts: the rows, and whether a queued row's payload is there (checked for duplicates only). */
export interface FactSource extends RowReader {
  hasPayload(row: QueueRow): boolean;
}

export function relayRow(rows: RowReader): RelayRow {
  const row = rows.get('relay', rowKey.relay);
  if (!row) throw new Error('invariant: the store is not initialised');
  return row;
}

export function targetRow(rows: RowReader, target: PublicKey): TargetRow {
  return rows.get('target', target) ?? EMPTY_TARGET;
}

/** The list that a host published, with the time at which it did so last. */
export function sendersRow(rows: RowReader, key: PublicKey): SendersRow | undefined {
  const row = rows.get('senders', key);
  const iatMs = Math.max(row?.iatMs ?? 0, rows.get('enrolment', key)?.sendersDatedMs ?? 0);
  return row && { ...row, iatMs };
}

/** The key that the host of this key has now. */
export function presentKey(rows: RowReader, key: PublicKey): PublicKey {
  let present = key;
  for (;;) {
    const next = rows.get('enrolment', present)?.rotatedTo;
    if (!next) return present;
    present = next;
  }
}

/**
 * The keys that rotations joined with this one and under which something may be known; the key alone when it never
 * rotated. The present one comes last. `Directory.keysOf` has those of before as well.
 */
export function lineageOf(rows: RowReader, key: PublicKey): readonly PublicKey[] {
  const present = presentKey(rows, key);
  return rows.get('lineage', present)?.members.map(({ hostPubkey }) => hostPubkey) ?? [present];
}

export function lineageMembers(rows: RowReader, key: PublicKey): readonly LineageMember[] {
  const present = presentKey(rows, key);
  return rows.get('lineage', present)?.members ?? [{ hostPubkey: present, retiredAtMs: null }];
}

/**
 * Returns what the account of a host is charged for: its queue, and what was counted under a key that it gave up when
 * the row was lost (a rotation moves what is there).
 */
export function chargedFor(rows: RowReader, directory: Directory, key: PublicKey): UsageRow {
  const charged: UsageRow = { ...NO_USAGE };
  for (const member of directory.keysOf(key)) {
    const { queueItems, queueBytes } = targetRow(rows, member);
    charged.items += queueItems;
    charged.bytes += queueBytes;
  }
  return charged;
}

/** Fingerprints of every key of the host. */
export function fingerprints(directory: Directory, ...keys: readonly PublicKey[]): Set<Sha256Hex> {
  return new Set(keys.flatMap((key) => Array.from(directory.keysOf(key), hostFingerprint)));
}

/** The account that is charged for what the target has queued. */
export function accountOf(rows: RowReader, target: PublicKey): string | null {
  return rows.get('enrolment', target)?.account ?? null;
}

/** The row of an item that still waits. */
export function waitingRow(rows: RowReader, target: PublicKey, seq: number): QueueRow | undefined {
  return seq > targetRow(rows, target).ackedThrough ? rows.get('queue', rowKey.queue(target, seq)) : undefined;
}
