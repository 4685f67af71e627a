/** A shared log in memory: what the interface promises, without a server. Several clients may share one. */
import { randomUUID } from 'node:crypto';
import { decodeBody, encodeBody } from '../../src/relay/shared-log/batch-body.ts';
import {
  type Appended,
  BATCH_BYTES_AT_ONCE,
  type Candidate,
  type EncodedBatch,
  Fenced,
  type FollowedBatch,
  type FoundBatch,
  type LogChange,
  type LogNode,
  type LogServer,
  type LogState,
  NODE_COUNTS_MS,
  NotWritten,
  type OpenedLog,
  type Renewal,
  type SeenNode,
  type SharedLog,
  type StoredPayload,
  type Tenure,
  refuseNewer,
} from '../../src/relay/shared-log/shared-log.ts';
import { LOG_FORMAT } from '../../src/relay/core/log-format.ts';
import { doubtWith } from '../../src/relay/shared-log/doubt.ts';
import { isSameServer } from '../../src/relay/shared-log/takeover-rules.ts';

/** The stored parts of one log. */
interface StoredLog {
  /** Every batch from the first on; those up to `deletedNo` are shown to nobody. */
  batches: StoredBatch[];
  deletedNo: number;
  wire: Map<string, Buffer>;
  /** The parts of snapshots, by the number of their batch, then by their own. */
  parts: Map<number, Map<number, Buffer>>;
}

interface StoredBatch {
  firstLsn: number;
  lastLsn: number;
  term: number;
  effects: Buffer;
  body: Buffer;
}

/** Holds what the clients share. */
export class MemoryLogServer {
  server: LogServer = { systemId: '1', timeline: 1 };
  place = 'memory';
  nowMs: () => number = () => Date.now();
  copyFault: string | undefined;
  row: Omit<LogState, 'lastNo' | 'lastLsn'> | undefined;
  /** By log id: that of the row, others that are loaded, and those whose place they took. */
  readonly logs = new Map<string, StoredLog>();

  /** By log id and name. */
  readonly nodes = new Map<string, SeenNode & { logId: string }>();

  /** Returns the client of a software that reads formats up to `format`. */
  client(format = LOG_FORMAT): SharedLog {
    return new MemoryLog(this, format);
  }

  /** Returns the batches of the log in the row. */
  get stored(): StoredBatch[] {
    return this.of(this.row?.logId ?? '').batches;
  }

  get wire(): Map<string, Buffer> {
    return this.of(this.row?.logId ?? '').wire;
  }

  of(logId: string): StoredLog {
    const found = this.logs.get(logId) ?? { batches: [], deletedNo: 0, wire: new Map(), parts: new Map() };
    this.logs.set(logId, found);
    return found;
  }

  get state(): LogState | undefined {
    const last = this.stored.at(-1);
    return this.row && { ...this.row, lastNo: this.stored.length, lastLsn: last?.lastLsn ?? 0 };
  }

  /** The row, if `tenure` leads. Throws `Fenced`. */
  fence({ logId, term, tenure }: Tenure): NonNullable<MemoryLogServer['row']> {
    const { row } = this;
    if (row?.logId !== logId || row.term !== term || row.tenure !== tenure || row.isFree) throw new Fenced();
    return row;
  }
}

class MemoryLog implements SharedLog {
  readonly place: string;
  readonly #at: MemoryLogServer;
  #server: LogServer | undefined;
  readonly format: number;

  constructor(at: MemoryLogServer, format: number) {
    this.#at = at;
    this.format = format;
    this.place = at.place;
  }

  async open(): Promise<OpenedLog> {
    const { server, state, copyFault } = this.#at;
    this.#server = server;
    if (state) refuseNewer(state.format, this.format);
    return { server, nowMs: this.#at.nowMs(), copyFault, state };
  }

  async initialise(logId: string): Promise<void> {
    this.#at.row ??= {
      logId,
      state: 'serving',
      format: this.format,
      term: 0,
      tenure: undefined,
      isFree: true,
      holder: '',
      beat: 0,
      beatMs: this.#at.nowMs(),
      ackedNo: 0,
      ledOn: { systemId: '0', timeline: 0 },
      settings: Buffer.alloc(0),
      doubt: undefined,
      wantedBy: undefined,
      prunedNo: 0,
      snapshotNo: 0,
    };
  }

  async lead(seen: LogState, { holder, settings, doubt }: Candidate): Promise<Tenure | 'held'> {
    const { row, server } = this.#at;
    if (!row || row.logId !== seen.logId || row.term !== seen.term || row.beat !== seen.beat) return 'held';
    if (row.tenure !== seen.tenure || row.doubt !== seen.doubt) return 'held';
    if (row.state !== 'serving' || server !== (this.#server ?? server)) return 'held';
    const tenure = randomUUID();
    Object.assign(row, {
      term: row.term + 1,
      tenure,
      isFree: false,
      holder,
      settings,
      beat: row.beat + 1,
      beatMs: this.#at.nowMs(),
      ledOn: server,
      wantedBy: undefined,
      doubt: doubtWith(row.doubt, doubt),
    });
    return { logId: row.logId, term: row.term, tenure };
  }

  async renew(tenure: Tenure, { no, effects }: Parameters<SharedLog['renew']>[1]): Promise<Renewal> {
    const row = this.#at.fence(tenure);
    row.beat++;
    row.beatMs = this.#at.nowMs();
    row.ackedNo = Math.max(row.ackedNo, no);
    const { server, copyFault, stored } = this.#at;
    const holds = no <= row.prunedNo || stored[no - 1]?.effects.equals(effects) === true;
    return { holds, doubt: row.doubt, wantedBy: row.wantedBy, nowMs: this.#at.nowMs(), server, copyFault };
  }

  async append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended> {
    if (this.#at.copyFault !== undefined) throw new NotWritten(this.#at.copyFault);
    const row = this.#at.fence(tenure);
    if (row.state !== 'serving') throw new Fenced();
    const { stored, wire } = this.#at;
    const { no, firstLsn, lastLsn, effects } = batch;
    const isNext = no === stored.length + 1 && (no === 1 || firstLsn === (stored.at(-1)?.lastLsn ?? 0) + 1);
    if (!isNext) throw new Fenced();
    stored.push({ firstLsn, lastLsn, term: row.term, effects, body: encodeBody(batch.records, batch.shared) });
    for (const payload of batch.payloads) wire.set(payload.place.toString('hex'), payload.wire);
    for (const place of batch.dropped) wire.delete(place.toString('hex'));
    row.ackedNo = Math.max(row.ackedNo, ackedNo);
    return { doubt: row.doubt };
  }

  async settle(tenure: Tenure, { no, effects }: Parameters<SharedLog['settle']>[1]): Promise<'stored' | 'absent'> {
    const { ledOn, state } = this.#at.fence(tenure);
    const found = this.#at.stored[no - 1];
    const isOther = state !== 'serving' || !isSameServer(ledOn, this.#at.server);
    if (isOther || (found && !found.effects.equals(effects))) throw new Fenced();
    return found ? 'stored' : 'absent';
  }

  async batches(logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]> {
    const through = tenure ? Infinity : (this.#at.row?.ackedNo ?? 0);
    const { batches, deletedNo } = this.#at.of(logId);
    const after = Math.max(afterNo, deletedNo);
    let bytes = 0;
    return batches
      .slice(after, Math.min(through, after + 64))
      .filter(({ body }, at) => (bytes += body.length) <= BATCH_BYTES_AT_ONCE || at === 0)
      .map((batch, at) => followed(after + 1 + at, batch));
  }

  async batch(logId: string, no: number): Promise<FoundBatch | 'pruned' | undefined> {
    const { batches, deletedNo } = this.#at.of(logId);
    const found = no > deletedNo ? batches[no - 1] : undefined;
    const { row } = this.#at;
    return found ?? (row?.logId === logId && no <= row.prunedNo ? 'pruned' : undefined);
  }

  async payloads(logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return places.map((place) => this.#at.of(logId).wire.get(place.toString('hex')));
  }

  async doubt(logId: string, reason: string): Promise<void> {
    const { row } = this.#at;
    if (row?.logId === logId) row.doubt = doubtWith(row.doubt, reason);
  }

  async clearDoubt(tenure: Tenure, doubt: string): Promise<void> {
    const row = this.#at.fence(tenure);
    if (row.doubt?.startsWith(doubt)) row.doubt = row.doubt.slice(doubt.length + 2) || undefined;
  }

  async want(logId: string, holder: string): Promise<void> {
    if (this.#at.row?.logId === logId) this.#at.row.wantedBy = holder;
  }

  async noteNode(logId: string, { name, version }: LogNode): Promise<void> {
    this.#at.nodes.set(`${logId} ${name}`, { logId, name, version, format: this.format, seenMs: this.#at.nowMs() });
  }

  async nodes(logId: string): Promise<SeenNode[]> {
    const seen = [...this.#at.nodes.values()].filter((node) => node.logId === logId);
    return seen.map(({ logId: _logId, ...node }) => node).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  async raise(tenure: Tenure): Promise<number> {
    const row = this.#at.fence(tenure);
    const since = this.#at.nowMs() - NODE_COUNTS_MS;
    const counting = (await this.nodes(row.logId)).filter(({ seenMs }) => seenMs > since);
    if (counting.every(({ format }) => format >= this.format)) row.format = Math.max(row.format, this.format);
    return row.format;
  }

  async resign(tenure: Tenure, ackedNo: number): Promise<void> {
    const { row, server } = this.#at;
    if (row?.term !== tenure.term || row.tenure !== tenure.tenure || row.isFree || !isSameServer(row.ledOn, server))
      return;
    Object.assign(row, { isFree: true, beat: row.beat + 1, ackedNo: Math.max(row.ackedNo, ackedNo) });
  }

  async change(seen: LogState, { state, tenure, replacedBy }: LogChange): Promise<boolean> {
    const { row, server } = this.#at;
    if (!row || row.logId !== seen.logId || row.term !== seen.term || row.beat !== seen.beat) return false;
    if (row.tenure !== seen.tenure || row.state !== seen.state || server !== (this.#server ?? server)) return false;
    Object.assign(row, { term: row.term + 1, beat: row.beat + 1, isFree: true, wantedBy: undefined, state, tenure });
    if (!replacedBy) return true;
    const { logId, no } = replacedBy;
    const begins = { ackedNo: no, prunedNo: no, snapshotNo: no, settings: Buffer.alloc(0), doubt: undefined };
    Object.assign(row, { logId, format: this.format, holder: '', ledOn: server, beatMs: this.#at.nowMs(), ...begins });
    return true;
  }

  async loadPayloads(hold: Tenure, logId: string, payloads: readonly StoredPayload[]): Promise<void> {
    this.#held(hold);
    for (const { place, wire } of payloads) this.#at.of(logId).wire.set(place.toString('hex'), wire);
  }

  async loadBatch(hold: Tenure, logId: string, { records, shared, ...batch }: EncodedBatch): Promise<void> {
    const { term } = this.#held(hold);
    const { firstLsn, lastLsn, effects, no } = batch;
    this.#at.of(logId).batches[no - 1] = { firstLsn, lastLsn, term, effects, body: encodeBody(records, shared) };
  }

  async loadPart(hold: Tenure, logId: string, throughNo: number, part: number, body: Buffer): Promise<void> {
    this.#held(hold);
    putPart(this.#at.of(logId), throughNo, part, body);
  }

  async sweep(): Promise<number> {
    const { row, logs } = this.#at;
    for (const [logId, { batches, wire }] of logs) {
      if (!row || row.logId === logId || row.state.includes(logId)) continue;
      logs.delete(logId);
      return batches.length + wire.size;
    }
    return 0;
  }

  /** The row, if it is still as since the load began. Throws `Fenced`. */
  #held({ logId, term, tenure }: Tenure): NonNullable<MemoryLogServer['row']> {
    const { row } = this.#at;
    if (row?.logId !== logId || row.term !== term || row.tenure !== tenure) throw new Fenced();
    return row;
  }

  async putPart(tenure: Tenure, throughNo: number, part: number, body: Buffer): Promise<void> {
    if (this.#at.fence(tenure).snapshotNo >= throughNo) throw new Fenced();
    putPart(this.#at.of(tenure.logId), throughNo, part, body);
  }

  async part(logId: string, throughNo: number, part: number): Promise<Buffer | undefined> {
    return this.#at.of(logId).parts.get(throughNo)?.get(part);
  }

  async makeValid(tenure: Tenure, throughNo: number, ackedNo: number): Promise<void> {
    const row = this.#at.fence(tenure);
    const { parts, batches } = this.#at.of(tenure.logId);
    const isWhole = parts.get(throughNo)?.has(0) === true;
    if (!isWhole || row.snapshotNo >= throughNo || batches.length <= throughNo) throw new Fenced();
    Object.assign(row, { snapshotNo: throughNo, ackedNo: Math.max(row.ackedNo, ackedNo) });
  }

  async dropOtherParts(tenure: Tenure): Promise<boolean> {
    const { snapshotNo } = this.#at.fence(tenure);
    const { parts } = this.#at.of(tenure.logId);
    const others = [...parts].filter(([throughNo]) => throughNo !== snapshotNo);
    const gone = others.flatMap(([, one]) => [...one.keys()].map((part) => () => one.delete(part)));
    for (const go of gone.slice(0, DELETED_AT_ONCE)) go();
    for (const [throughNo, one] of others) if (one.size === 0) parts.delete(throughNo);
    return gone.length >= DELETED_AT_ONCE;
  }

  async prune(tenure: Tenure, throughNo: number): Promise<boolean> {
    const row = this.#at.fence(tenure);
    const stored = this.#at.of(tenure.logId);
    if (throughNo > row.snapshotNo) throw new Fenced();
    row.prunedNo = Math.max(row.prunedNo, throughNo);
    stored.deletedNo = Math.min(row.prunedNo, stored.deletedNo + DELETED_AT_ONCE);
    return stored.deletedNo < row.prunedNo;
  }

  async close(): Promise<void> {
    // It holds nothing of its own.
  }
}

function putPart({ parts }: StoredLog, throughNo: number, part: number, body: Buffer): void {
  parts.set(throughNo, (parts.get(throughNo) ?? new Map<number, Buffer>()).set(part, Buffer.from(body)));
}

/** One call deletes this number: little, so that tests of few batches need several. */
const DELETED_AT_ONCE = 2;

function followed(no: number, { body, ...batch }: StoredBatch): FollowedBatch {
  return { no, ...batch, ...decodeBody(body) };
}
