/**
 * The shared log in PostgreSQL.
 *
 * A statement that takes the lead is never sent twice, because one that was given up may still run in the server later:
 * it compares what was seen, and then changes nothing.
 */
import { randomUUID } from 'node:crypto';
import { decodeBody, encodeBody } from './batch-body.ts';
import type { Durability } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { ANSWER_WITHIN_MS } from './pg-link.ts';
import { PgSession } from './pg-session.ts';
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
  LogUnreachable,
  NODE_COUNTS_MS,
  type OpenedLog,
  type Renewal,
  type SeenNode,
  type SharedLog,
  type StoredPayload,
  type Tenure,
  refuseNewer,
} from './shared-log.ts';
import { LOG_FORMAT } from '../core/log-format.ts';
import * as sql from './pg-statements.ts';

/** Batches that are read at once. */
const BATCHES_AT_ONCE = 64;
/** Rows that one statement deletes. */
const PARTS_DROPPED_AT_ONCE = 16;
const BATCHES_PRUNED_AT_ONCE = 200;

/** The answer to `sql.IDENTITY`. */
export type IdentityRow = LogServer & Pick<OpenedLog, 'nowMs'> & { hasTables: boolean; names: string };
/** The answer to `sql.STATE`. */
type StateRow = LogServer & Omit<LogState, 'ledOn'>;

interface PostgresLogOptions {
  endpoints: readonly LogEndpoint[];
  /** The same with the password that counts now; asked with each new connection. */
  currentEndpoints?: () => Promise<readonly LogEndpoint[]>;
  durability: Durability;
  /** The time that an answer may take that does not wait for a standby. */
  answerWithinMs?: number;
  /** Milliseconds that never go back. */
  monotonicMs?: () => number;
  /** The newest format that it reads and writes. */
  format?: number;
}

export class PostgresLog implements SharedLog {
  readonly place: string;
  readonly #session: PgSession;
  readonly format: number;
  /** When the batch under way was sent. */
  #appendingSinceMs: number | undefined;
  readonly #answerWithinMs: number;
  readonly #monotonicMs: () => number;
  #server: LogServer | undefined;

  constructor({
    endpoints,
    currentEndpoints = async () => endpoints,
    durability,
    answerWithinMs = ANSWER_WITHIN_MS,
    monotonicMs = () => performance.now(),
    format = LOG_FORMAT,
  }: PostgresLogOptions) {
    this.place = endpoints.map(({ name }) => name).join(',');
    this.#answerWithinMs = answerWithinMs;
    this.#monotonicMs = monotonicMs;
    this.format = format;
    this.#session = new PgSession({ endpoints: currentEndpoints, durability, answerWithinMs });
  }

  async open(): Promise<OpenedLog> {
    const { rows } = await this.#session.ask<IdentityRow>('identity', sql.IDENTITY);
    const [row] = rows;
    if (!row) throw new LogUnreachable('the server says nothing of itself');
    const { systemId, timeline, nowMs, names, hasTables } = row;
    const server = { systemId, timeline };
    this.#server = server;
    const copyFault = await this.#session.namesAre(names);
    const state = hasTables ? await this.#state() : undefined;
    if (state) await this.#session.prove();
    return { server, nowMs, copyFault, state };
  }

  async initialise(logId: string): Promise<void> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    await this.#session.createTables();
    await this.#session.store('initialise', sql.INITIALISE, [logId, systemId, timeline, this.format]);
  }

  async lead(seen: LogState, { holder, settings, doubt }: Candidate): Promise<Tenure | 'held'> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    const tenure = randomUUID();
    const { logId, term, beat, tenure: before = null, doubt: standing = null } = seen;
    const values = [logId, term, beat, before, tenure, holder, settings, systemId, timeline, doubt ?? null, standing];
    const { rows } = await this.#session.change<Pick<Tenure, 'term'>>('lead', sql.LEAD, values);
    return rows[0] ? { logId, tenure, ...rows[0] } : 'held';
  }

  async change(seen: LogState, { state, tenure, replacedBy }: LogChange): Promise<boolean> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    const { logId, term, beat, tenure: before = null } = seen;
    const values = [logId, term, beat, before, seen.state, systemId, timeline, state, tenure];
    const { rowCount } = replacedBy
      ? await this.#session.change('replace', sql.REPLACE, [...values, replacedBy.logId, replacedBy.no, this.format])
      : await this.#session.change('change', sql.CHANGE, values);
    return rowCount > 0;
  }

  async loadPayloads(hold: Tenure, logId: string, payloads: readonly StoredPayload[]): Promise<void> {
    await this.#load('load payloads', sql.LOAD_PAYLOADS, [...named(hold), logId, ...putOf(payloads)]);
  }

  async loadBatch(hold: Tenure, logId: string, batch: EncodedBatch): Promise<void> {
    const { no, firstLsn, lastLsn, effects, records, shared } = batch;
    const values = [...named(hold), logId, no, firstLsn, lastLsn, effects, encodeBody(records, shared)];
    await this.#load('load batch', sql.LOAD_BATCH, values);
  }

  async loadPart(hold: Tenure, logId: string, throughNo: number, part: number, body: Buffer): Promise<void> {
    await this.#load('load part', sql.LOAD_PART, [...named(hold), logId, throughNo, part, body]);
  }

  async sweep(): Promise<number> {
    let rows = 0;
    for (const [name, text] of sql.SWEEPS) rows += (await this.#session.ask(name, text)).rowCount;
    return rows;
  }

  async renew(tenure: Tenure, { no, effects }: Parameters<SharedLog['renew']>[1]): Promise<Renewal> {
    const sentMs = this.#monotonicMs();
    type Row = LogServer & Omit<Renewal, 'server' | 'copyFault'> & { names: string };
    const { rows } = await this.#session.store<Row>('renew', sql.RENEW, [...named(tenure), no, effects]);
    if (!rows[0]) throw new Fenced();
    // A batch that is under way in the server holds the row against this statement: the answer to it is lost.
    if (this.#appendingSinceMs !== undefined && sentMs - this.#appendingSinceMs >= this.#answerWithinMs)
      this.#session.closeAppends();
    const { systemId, timeline, names, ...renewal } = rows[0];
    return { ...renewal, server: { systemId, timeline }, copyFault: this.#session.copyFault(names) };
  }

  async append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended> {
    const { no, firstLsn, lastLsn, effects, records, shared, payloads, dropped } = batch;
    const values = [...named(tenure), no, firstLsn, lastLsn, ackedNo, effects, encodeBody(records, shared)];
    this.#appendingSinceMs = this.#monotonicMs();
    try {
      const places = [...putOf(payloads), keysOf(dropped), seqsOf(dropped)];
      const row = await this.#session.append<AppendRow>(sql.APPEND, [...values, ...places], isStored);
      if (!isStored(row)) throw new Fenced();
      return { doubt: row?.doubt };
    } finally {
      this.#appendingSinceMs = undefined;
    }
  }

  async settle(tenure: Tenure, { no, effects }: Parameters<SharedLog['settle']>[1]): Promise<'stored' | 'absent'> {
    const holds = async (): Promise<boolean> => {
      const found = await this.batch(tenure.logId, no);
      if (found === undefined) return false;
      if (found === 'pruned' || !found.effects.equals(effects)) throw new Fenced();
      return true;
    };
    for (;;) {
      // Seen before a write that waits for the standbys, it is on them after it.
      const isStored = await holds();
      const { rowCount } = await this.#session.change('settle', sql.SETTLE, named(tenure));
      if (rowCount === 0) throw new Fenced();
      if (isStored) return 'stored';
      if (!(await holds())) return 'absent';
    }
  }

  async batches(logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]> {
    const values = [logId, afterNo, BATCHES_AT_ONCE, tenure !== undefined, BATCH_BYTES_AT_ONCE];
    type Row = Omit<FollowedBatch, 'records' | 'shared'> & { body: Buffer };
    const { rows } = await this.#session.ask<Row>('batches', sql.BATCHES, values);
    return rows.map(({ body, ...batch }) => Object.assign(batch, decodeBody(body)));
  }

  async batch(logId: string, no: number): Promise<FoundBatch | 'pruned' | undefined> {
    type Row = { prunedNo: number } & (FoundBatch | { effects: undefined });
    const { rows } = await this.#session.ask<Row>('batch', sql.BATCH, [logId, no]);
    if (!rows[0]) return undefined;
    const { prunedNo, ...found } = rows[0];
    if (found.effects) return found;
    return no <= prunedNo ? 'pruned' : undefined;
  }

  async payloads(logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const found: (Buffer | undefined)[] = places.map(() => undefined);
    if (places.length === 0) return found;
    const values = [logId, keysOf(places), seqsOf(places)];
    const { rows } = await this.#session.ask<{ n: number; wire: Buffer }>('payloads', sql.PAYLOADS, values);
    for (const { n, wire } of rows) found[n - 1] = wire;
    return found;
  }

  async doubt(logId: string, reason: string): Promise<void> {
    await this.#session.store('doubt', sql.DOUBT, [logId, reason]);
  }

  async clearDoubt(tenure: Tenure, doubt: string): Promise<void> {
    const values = [...named(tenure), doubt];
    if ((await this.#session.store('clear doubt', sql.CLEAR_DOUBT, values)).rowCount === 0) throw new Fenced();
  }

  async want(logId: string, holder: string): Promise<void> {
    await this.#session.store('want', sql.WANT, [logId, holder]);
  }

  async noteNode(logId: string, { name, version }: LogNode): Promise<void> {
    await this.#session.ask('note node', sql.NOTE_NODE, [logId, name, version, this.format]);
  }

  async nodes(logId: string): Promise<SeenNode[]> {
    return (await this.#session.ask<SeenNode>('nodes', sql.NODES, [logId])).rows;
  }

  async raise(tenure: Tenure): Promise<number> {
    const values = [...named(tenure), this.format, NODE_COUNTS_MS];
    const { rows } = await this.#session.store<Pick<LogState, 'format'>>('raise', sql.RAISE, values);
    if (!rows[0]) throw new Fenced();
    return rows[0].format;
  }

  async resign(tenure: Tenure, ackedNo: number): Promise<void> {
    await this.#session.ask('resign', sql.RESIGN, [...named(tenure), ackedNo]);
  }

  async putPart(tenure: Tenure, throughNo: number, part: number, body: Buffer): Promise<void> {
    await this.#changeOwn('put part', sql.PUT_PART, [...named(tenure), throughNo, part, body]);
  }

  async part(logId: string, throughNo: number, part: number): Promise<Buffer | undefined> {
    const { rows } = await this.#session.ask<{ body: Buffer }>('part', sql.PART, [logId, throughNo, part]);
    return rows[0]?.body;
  }

  async makeValid(tenure: Tenure, throughNo: number, ackedNo: number): Promise<void> {
    await this.#changeOwn('make valid', sql.MAKE_VALID, [...named(tenure), throughNo, ackedNo]);
  }

  async dropOtherParts(tenure: Tenure): Promise<boolean> {
    const { deleted } = await this.#deleted('drop parts', sql.DROP_PARTS, tenure, PARTS_DROPPED_AT_ONCE);
    return deleted === PARTS_DROPPED_AT_ONCE;
  }

  async prune(tenure: Tenure, throughNo: number): Promise<boolean> {
    const { deleted, prunedNo } = await this.#deleted('prune', sql.DELETE_BATCHES, tenure, BATCHES_PRUNED_AT_ONCE);
    if (prunedNo >= throughNo) return deleted === BATCHES_PRUNED_AT_ONCE;
    await this.#changeOwn('mark pruned', sql.MARK_PRUNED, [...named(tenure), throughNo]);
    return true;
  }

  async close(): Promise<void> {
    this.#session.close();
  }

  async #state(): Promise<LogState | undefined> {
    const { rows } = await this.#session.ask<StateRow>('state', sql.STATE);
    if (!rows[0]) return undefined;
    refuseNewer(rows[0].format, this.format);
    return stateOf(rows[0]);
  }

  async #load(name: string, text: string, values: unknown[]): Promise<void> {
    const { rows } = await this.#session.store<{ held: number }>(name, text, values);
    if (rows[0]?.held !== 1) throw new Fenced();
  }

  /** Throws `Fenced` when the statement changed nothing, because another tenure leads. */
  async #changeOwn(name: string, text: string, values: unknown[]): Promise<void> {
    const { rowCount } = await this.#session.ask(name, text, values);
    if (rowCount === 0) throw new Fenced();
  }

  /** Deletes so little that it is over soon: an append does not wait for it, and who takes the lead waits for one. */
  async #deleted(name: string, text: string, tenure: Tenure, atMost: number): Promise<DeletedRow> {
    const { rows } = await this.#session.ask<DeletedRow>(name, text, [...named(tenure), atMost]);
    if (!rows[0] || rows[0].own === 0) throw new Fenced();
    return rows[0];
  }
}

interface AppendRow extends Appended {
  appended: number;
}

interface DeletedRow {
  own: number;
  deleted: number;
  /** The answer of the statement that deletes batches alone. */
  prunedNo: number;
}

function stateOf({ systemId, timeline, ...state }: StateRow): LogState {
  return { ...state, ledOn: { systemId, timeline } };
}

function isStored(row: AppendRow | undefined): boolean {
  return row !== undefined && row.appended > 0;
}

function named({ logId, term, tenure }: Tenure): [string, number, string] {
  return [logId, term, tenure];
}

function putOf(payloads: readonly StoredPayload[]): [keys: Buffer, seqs: Buffer, wires: Buffer] {
  const places = payloads.map(({ place }) => place);
  return [keysOf(places), seqsOf(places), byteaArray(payloads.map(({ wire }) => wire))];
}

function keysOf(places: readonly Buffer[]): Buffer {
  return byteaArray(places.map((place) => place.subarray(0, PLACE_KEY_BYTES)));
}

function seqsOf(places: readonly Buffer[]): Buffer {
  return int8Array(places.map((place) => place.readBigInt64BE(PLACE_KEY_BYTES)));
}

const PLACE_KEY_BYTES = 32;

/**
 * Arrays are sent as PostgreSQL's binary format has them: `pg` sends a Buffer parameter as it is, so the bytes of a
 * bytea[] go without hex. Layout: number of dimensions i32, 0 i32, OID of the elements i32, length i32, lower bound i32
 * (1), then each element: its length i32 and its bytes (PostgreSQL's array_send).
 */
const BYTEA = 17;
const INT8 = 20;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const INT8_BYTES = 8;

function byteaArray(values: readonly Buffer[]): Buffer {
  if (values.length === 0) return emptyArray(BYTEA);
  const bytes = values.reduce((sum, value) => sum + LENGTH_BYTES + value.length, HEADER_BYTES);
  const array = headed(bytes, BYTEA, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value.length, at);
    at += value.copy(array, at);
  }
  return array;
}

function int8Array(values: readonly (number | bigint)[]): Buffer {
  if (values.length === 0) return emptyArray(INT8);
  const array = headed(HEADER_BYTES + values.length * (LENGTH_BYTES + INT8_BYTES), INT8, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(INT8_BYTES, at);
    at = array.writeBigInt64BE(BigInt(value), at);
  }
  return array;
}

function headed(bytes: number, oid: number, length: number): Buffer {
  const array = Buffer.allocUnsafe(bytes);
  for (const [position, value] of [1, 0, oid, length, 1].entries()) array.writeInt32BE(value, position * 4);
  return array;
}

function emptyArray(oid: number): Buffer {
  const array = Buffer.alloc(12);
  array.writeInt32BE(oid, 8);
  return array;
}
