/** A shared log in memory: what the interface promises, without a server. Several clients may share one. */
import { randomUUID } from 'node:crypto';
import { decodeBody, encodeBody } from '../../src/relay/shared-log/batch-body.ts';
import {
  type Appended,
  type Candidate,
  type EncodedBatch,
  Fenced,
  type FollowedBatch,
  type LogServer,
  type LogState,
  type OpenedLog,
  type Renewal,
  type SharedLog,
  type Tenure,
} from '../../src/relay/shared-log/shared-log.ts';

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
  readonly stored: StoredBatch[] = [];
  readonly wire = new Map<string, Buffer>();

  client(): SharedLog {
    return new MemoryLog(this);
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

  async batches(_logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]> {
    const through = tenure ? Infinity : (this.#at.row?.ackedNo ?? 0);
    return this.#at.stored
      .slice(afterNo, Math.min(through, afterNo + 64))
      .map((batch, at) => followed(afterNo + 1 + at, batch));
  }

  async batch(_logId: string, no: number): Promise<Pick<FollowedBatch, 'term' | 'effects' | 'lastLsn'> | undefined> {
    return this.#at.stored[no - 1];
  }

  async payloads(_logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return places.map((place) => this.#at.wire.get(place.toString('hex')));
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

  async close(): Promise<void> {
    // It holds nothing of its own.
  }
}

function followed(no: number, { body, ...batch }: StoredBatch): FollowedBatch {
  return { no, ...batch, ...decodeBody(body) };
}
