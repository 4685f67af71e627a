/** A shared log in memory: what the interface promises, without a server. Several clients may share one. */
import { randomUUID } from 'node:crypto';
import { decodeBody, encodeBody } from '../../src/relay/shared-log/batch-body.ts';
import {
  type Appended,
  type Candidate,
  type EncodedBatch,
  Fenced,
  type FollowedBatch,
  type LogChange,
  type LogServer,
  type LogState,
  type OpenedLog,
  type Renewal,
  type SharedLog,
  type StoredPayload,
  type Tenure,
} from '../../src/relay/shared-log/shared-log.ts';

/** What is stored of one log. */
interface StoredLog {
  batches: StoredBatch[];
  wire: Map<string, Buffer>;
}

interface StoredBatch {
  firstLsn: number;
  lastLsn: number;
  term: number;
  effects: Buffer;
  body: Buffer;
}

/** What the clients share. */
export class MemoryLogServer {
  server: LogServer = { systemId: '1', timeline: 1 };
  nowMs: () => number = () => Date.now();
  row: Omit<LogState, 'lastNo' | 'lastLsn'> | undefined;
  /** By log id: that of the row, others that are loaded, and those whose place they took. */
  readonly logs = new Map<string, StoredLog>();

  client(): SharedLog {
    return new MemoryLog(this);
  }

  /** Of the log in the row. */
  get stored(): StoredBatch[] {
    return this.of(this.row?.logId ?? '').batches;
  }

  get wire(): Map<string, Buffer> {
    return this.of(this.row?.logId ?? '').wire;
  }

  of(logId: string): StoredLog {
    const found = this.logs.get(logId) ?? { batches: [], wire: new Map<string, Buffer>() };
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
  readonly #at: MemoryLogServer;
  #server: LogServer | undefined;

  constructor(at: MemoryLogServer) {
    this.#at = at;
  }

  async open(): Promise<OpenedLog> {
    const { server, state } = this.#at;
    this.#server = server;
    return { server, nowMs: this.#at.nowMs(), state };
  }

  async initialise(logId: string): Promise<void> {
    this.#at.row ??= {
      logId,
      state: 'serving',
      format: 1,
      term: 0,
      tenure: undefined,
      isFree: true,
      holder: '',
      beat: 0,
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
    if (row.tenure !== seen.tenure || row.state !== 'serving' || server !== (this.#server ?? server)) return 'held';
    const tenure = randomUUID();
    Object.assign(row, {
      term: row.term + 1,
      tenure,
      isFree: false,
      holder,
      settings,
      beat: row.beat + 1,
      ledOn: server,
      doubt: row.doubt ?? doubt,
    });
    return { logId: row.logId, term: row.term, tenure };
  }

  async renew(tenure: Tenure, ackedNo: number): Promise<Renewal> {
    const row = this.#at.fence(tenure);
    row.beat++;
    row.ackedNo = Math.max(row.ackedNo, ackedNo);
    return { doubt: row.doubt, wantedBy: row.wantedBy, nowMs: this.#at.nowMs() };
  }

  async append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended> {
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

  async batches(logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]> {
    const through = tenure ? Infinity : (this.#at.row?.ackedNo ?? 0);
    return this.#at
      .of(logId)
      .batches.slice(afterNo, Math.min(through, afterNo + 64))
      .map((batch, at) => followed(afterNo + 1 + at, batch));
  }

  async batch(logId: string, no: number): Promise<Pick<FollowedBatch, 'term' | 'effects' | 'lastLsn'> | undefined> {
    return this.#at.of(logId).batches[no - 1];
  }

  async payloads(logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return places.map((place) => this.#at.of(logId).wire.get(place.toString('hex')));
  }

  async doubt(_logId: string, reason: string): Promise<void> {
    if (this.#at.row) this.#at.row.doubt ??= reason;
  }

  async clearDoubt(tenure: Tenure): Promise<void> {
    this.#at.fence(tenure).doubt = undefined;
  }

  async resign(tenure: Tenure, ackedNo: number): Promise<void> {
    const { row } = this.#at;
    if (row?.term !== tenure.term || row.tenure !== tenure.tenure || row.isFree) return;
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
    Object.assign(row, { logId, holder: '', ledOn: server, ...begins });
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

  async close(): Promise<void> {
    // It holds nothing of its own.
  }
}

function followed(no: number, { body, ...batch }: StoredBatch): FollowedBatch {
  return { no, ...batch, ...decodeBody(body) };
}
