/**
 * The shared log in PostgreSQL.
 *
 * A statement that takes the lead is never sent twice, because one that was given up may still run in the server later:
 * it compares what was seen, and then changes nothing.
 */
import { randomUUID } from 'node:crypto';
import { encodeBody } from './batch-body.ts';
import type { QueryResultRow } from 'pg';
import type { Durability } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { ANSWER_WITHIN_MS, type Answered } from './pg-link.ts';
import {
  type AppendRow,
  type BatchRow,
  type FoundRow,
  type IdentityRow,
  type NodeRow,
  type RenewalRow,
  type StateRow,
  followedBatch,
  foundBatch,
  keysOf,
  named,
  putOf,
  seqsOf,
  stateOf,
} from './pg-rows.ts';
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
  type LogSnapshots,
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
/** What one statement deletes. */
const PARTS_DROPPED_AT_ONCE = 16;
const BATCHES_PRUNED_AT_ONCE = 200;

interface PostgresLogOptions {
  endpoints: readonly LogEndpoint[];
  /** The same with the password that counts now; asked with each new connection. */
  currentEndpoints?: () => Promise<readonly LogEndpoint[]>;
  durability: Durability;
  /** How long an answer may take that does not wait for a standby. */
  answerWithinMs?: number;
  /** Milliseconds that never go back. */
  monotonicMs?: () => number;
  /** The newest format that it reads and writes. */
  format?: number;
}

export class PostgresLog implements SharedLog {
  readonly place: string;
  readonly snapshots = new PgSnapshots((name, text, values) => this.#session.ask(name, text, values));
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
    const server = { systemId: row.system_identifier, timeline: row.timeline };
    this.#server = server;
    const copyFault = await this.#session.namesAre(row.standby_names);
    const state = row.has_tables ? await this.#state() : undefined;
    if (state) await this.#session.prove();
    return { server, nowMs: Number(row.now_ms), copyFault, state };
  }

  async initialise(logId: string): Promise<void> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    await this.#session.createTables();
    await this.#session.store('initialise', sql.INITIALISE, [logId, systemId, timeline, this.format]);
  }

  async lead(seen: LogState, { holder, settings, doubt }: Candidate): Promise<Tenure | 'held'> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    const tenure = randomUUID();
    const { logId, term, beat, tenure: before = null } = seen;
    const values = [logId, term, beat, before, tenure, holder, settings, systemId, timeline, doubt ?? null];
    const { rows } = await this.#session.change<{ term: string }>('lead', sql.LEAD, values);
    return rows[0] ? { logId, term: Number(rows[0].term), tenure } : 'held';
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
    const { rows } = await this.#session.store<RenewalRow>('renew', sql.RENEW, [...named(tenure), no, effects]);
    const [row] = rows;
    if (!row) throw new Fenced();
    // A batch that is under way in the server holds the row against this statement: the answer to it is lost.
    if (this.#appendingSinceMs !== undefined && sentMs - this.#appendingSinceMs >= this.#answerWithinMs)
      this.#session.closeAppends();
    return {
      holds: row.holds,
      doubt: row.doubt ?? undefined,
      wantedBy: row.wanted_by ?? undefined,
      nowMs: Number(row.now_ms),
      server: { systemId: row.system_identifier, timeline: row.timeline },
      copyFault: this.#session.copyFault(row.standby_names),
    };
  }

  async append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended> {
    const { no, firstLsn, lastLsn, effects, records, shared, payloads, dropped } = batch;
    const values = [...named(tenure), no, firstLsn, lastLsn, ackedNo, effects, encodeBody(records, shared)];
    this.#appendingSinceMs = this.#monotonicMs();
    try {
      const places = [...putOf(payloads), keysOf(dropped), seqsOf(dropped)];
      const row = await this.#session.append<AppendRow>(sql.APPEND, [...values, ...places], isStored);
      if (!isStored(row)) throw new Fenced();
      return { doubt: row?.doubt ?? undefined };
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
    const { rows } = await this.#session.ask<BatchRow>('batches', sql.BATCHES, values);
    return rows.map(followedBatch);
  }

  async batch(logId: string, no: number): Promise<FoundBatch | 'pruned' | undefined> {
    const { rows } = await this.#session.ask<FoundRow>('batch', sql.BATCH, [logId, no]);
    return foundBatch(rows[0], no);
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
    const { rows } = await this.#session.ask<NodeRow>('nodes', sql.NODES, [logId]);
    return rows.map(({ name, version, format, seen_ms: seenMs }) => ({
      name,
      version,
      format,
      seenMs: Number(seenMs),
    }));
  }

  async raise(tenure: Tenure): Promise<number> {
    const values = [...named(tenure), this.format, NODE_COUNTS_MS];
    const { rows } = await this.#session.store<{ format: number }>('raise', sql.RAISE, values);
    if (!rows[0]) throw new Fenced();
    return rows[0].format;
  }

  async resign(tenure: Tenure, ackedNo: number): Promise<void> {
    await this.#session.ask('resign', sql.RESIGN, [...named(tenure), ackedNo]);
  }

  async close(): Promise<void> {
    this.#session.close();
  }

  async #state(): Promise<LogState | undefined> {
    const { rows } = await this.#session.ask<StateRow>('state', sql.STATE);
    const [row] = rows;
    if (!row) return undefined;
    refuseNewer(row.format, this.format);
    return stateOf(row);
  }

  async #load(name: string, text: string, values: unknown[]): Promise<void> {
    const { rows } = await this.#session.store<{ held: number }>(name, text, values);
    if (rows[0]?.held !== 1) throw new Fenced();
  }
}

function isStored(row: AppendRow | undefined): boolean {
  return row !== undefined && row.appended > 0;
}

type Ask = <R extends QueryResultRow>(name: string, text: string, values: unknown[]) => Promise<Answered<R>>;

/**
 * Snapshots and pruning. Every statement compares the tenure, and deletes so little that it is over soon: an append
 * waits for none of them, and who takes the lead waits for one.
 */
class PgSnapshots implements LogSnapshots {
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async put(tenure: Tenure, throughNo: number, part: number, body: Buffer): Promise<void> {
    const values = [...named(tenure), throughNo, part, body];
    const { rowCount } = await this.#ask('put part', sql.PUT_PART, values);
    if (rowCount === 0) throw new Fenced();
  }

  async part(logId: string, throughNo: number, part: number): Promise<Buffer | undefined> {
    const { rows } = await this.#ask<{ body: Buffer }>('part', sql.PART, [logId, throughNo, part]);
    return rows[0]?.body;
  }

  async makeValid(tenure: Tenure, throughNo: number, ackedNo: number): Promise<void> {
    const { rowCount } = await this.#ask('make valid', sql.MAKE_VALID, [...named(tenure), throughNo, ackedNo]);
    if (rowCount === 0) throw new Fenced();
  }

  async dropOthers(tenure: Tenure): Promise<boolean> {
    const deleted = await this.#deleted('drop parts', sql.DROP_PARTS, tenure, PARTS_DROPPED_AT_ONCE);
    return deleted.deleted === PARTS_DROPPED_AT_ONCE;
  }

  async prune(tenure: Tenure, throughNo: number): Promise<boolean> {
    const { deleted, pruned_no } = await this.#deleted('prune', sql.DELETE_BATCHES, tenure, BATCHES_PRUNED_AT_ONCE);
    if (Number(pruned_no) >= throughNo) return deleted === BATCHES_PRUNED_AT_ONCE;
    const { rowCount } = await this.#ask('mark pruned', sql.MARK_PRUNED, [...named(tenure), throughNo]);
    if (rowCount === 0) throw new Fenced();
    return true;
  }

  async #deleted(name: string, text: string, tenure: Tenure, atMost: number): Promise<DeletedRow> {
    const { rows } = await this.#ask<DeletedRow>(name, text, [...named(tenure), atMost]);
    const [row] = rows;
    if (!row || row.own === 0) throw new Fenced();
    return row;
  }
}

interface DeletedRow {
  own: number;
  deleted: number;
  pruned_no?: string;
}
