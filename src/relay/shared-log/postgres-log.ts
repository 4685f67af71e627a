/**
 * The shared log in PostgreSQL.
 *
 * A statement that takes the lead is never sent twice, because one that was given up may still run in the server later: it
 * compares what was seen, and then changes nothing.
 */
import type { QueryResultRow } from 'pg';
import { randomUUID } from 'node:crypto';
import {
  type Appended,
  type Candidate,
  type EncodedBatch,
  Fenced,
  type FollowedBatch,
  type FoundBatch,
  type LogChange,
  LogRefused,
  type LogServer,
  type LogState,
  LogUnreachable,
  type OpenedLog,
  OutcomeUnknown,
  type Renewal,
  type SharedLog,
  type StoredPayload,
  type Tenure,
} from './shared-log.ts';
import { encodeBody } from './batch-body.ts';
import { type Durability, refuseNames } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { PgConnections } from './pg-connections.ts';
import { ANSWER_WITHIN_MS, type Answered, type PgLink, answerError, isAnswer, linkError, reasonOf } from './pg-link.ts';
import {
  type AppendRow,
  type BatchRow,
  type FoundRow,
  type IdentityRow,
  type NamesRow,
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
import { PgSnapshots } from './pg-snapshots.ts';
import * as sql from './pg-statements.ts';

/** Batches that are read at once. */
const BATCHES_AT_ONCE = 64;
/** Another makes the tables: a name is taken (of a row in the catalogue, a relation, a type), or its lock was not given. */
const MADE_MEANWHILE: ReadonlySet<string> = new Set(['23505', '42P07', '42710', '55P03']);
/** Each time, another one has made them or has failed. */
const CREATE_TRIES = 5;

interface PostgresLogOptions {
  endpoints: readonly LogEndpoint[];
  durability: Durability;
  /** How long an answer may take that does not wait for a standby. */
  answerWithinMs?: number;
  /** Milliseconds that never go back. */
  monotonicMs?: () => number;
}

export class PostgresLog implements SharedLog {
  readonly snapshots = new PgSnapshots((name, text, values) => this.#ask(name, text, values));
  readonly #connections: PgConnections;
  readonly #durability: Durability;
  /** When the batch under way was sent. */
  #appendingSinceMs: number | undefined;
  readonly #answerWithinMs: number;
  readonly #monotonicMs: () => number;
  #server: LogServer | undefined;

  constructor({
    endpoints,
    durability,
    answerWithinMs = ANSWER_WITHIN_MS,
    monotonicMs = () => performance.now(),
  }: PostgresLogOptions) {
    this.#answerWithinMs = answerWithinMs;
    this.#monotonicMs = monotonicMs;
    this.#connections = new PgConnections({ endpoints, durability, answerWithinMs });
    this.#durability = durability;
  }

  async open(): Promise<OpenedLog> {
    const link = await this.#connections.others();
    refuseNames(this.#durability, link.standbyNames);
    const { rows } = await this.#ask<IdentityRow>('identity', sql.IDENTITY);
    const [row] = rows;
    if (!row) throw new LogUnreachable('the server says nothing of itself');
    const server = { systemId: row.system_identifier, timeline: row.timeline };
    this.#server = server;
    const state = row.has_tables ? await this.#state() : undefined;
    return { server, nowMs: Number(row.now_ms), state };
  }

  async initialise(logId: string): Promise<void> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    await this.#createTables();
    doubtless(await this.#ask('initialise', sql.INITIALISE, [logId, systemId, timeline]));
  }

  async lead(seen: LogState, { holder, settings, doubt }: Candidate): Promise<Tenure | 'held'> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    const tenure = randomUUID();
    const { logId, term, beat, tenure: before = null } = seen;
    const values = [logId, term, beat, before, tenure, holder, settings, systemId, timeline, doubt ?? null];
    const { rows } = await this.#changed<{ term: string }>('lead', sql.LEAD, values);
    return rows[0] ? { logId, term: Number(rows[0].term), tenure } : 'held';
  }

  async change(seen: LogState, { state, tenure, replacedBy }: LogChange): Promise<boolean> {
    const { systemId, timeline } = this.#server ?? (await this.open()).server;
    const { logId, term, beat, tenure: before = null } = seen;
    const values = [logId, term, beat, before, seen.state, systemId, timeline, state, tenure];
    const { rowCount } = replacedBy
      ? await this.#changed('replace', sql.REPLACE, [...values, replacedBy.logId, replacedBy.no])
      : await this.#changed('change', sql.CHANGE, values);
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
    for (const [name, text] of sql.SWEEPS) rows += (await this.#ask(name, text)).rowCount;
    return rows;
  }

  async renew(tenure: Tenure, ackedNo: number): Promise<Renewal> {
    const sentMs = this.#monotonicMs();
    const { rows } = doubtless(await this.#ask<RenewalRow>('renew', sql.RENEW, [...named(tenure), ackedNo]));
    const [row] = rows;
    if (!row) throw new Fenced();
    // A batch that is under way in the server holds the row against this statement: the answer to it is lost.
    if (this.#appendingSinceMs !== undefined && sentMs - this.#appendingSinceMs >= this.#answerWithinMs)
      this.#connections.closeAppends();
    return { doubt: row.doubt ?? undefined, wantedBy: row.wanted_by ?? undefined, nowMs: Number(row.now_ms) };
  }

  async append(tenure: Tenure, batch: EncodedBatch, ackedNo: number): Promise<Appended> {
    const { no, firstLsn, lastLsn, effects, records, shared, payloads, dropped } = batch;
    const link = await this.#connections.appends();
    const values = [...named(tenure), no, firstLsn, lastLsn, ackedNo, effects, encodeBody(records, shared)];
    this.#appendingSinceMs = this.#monotonicMs();
    const appending = link.query<AppendRow>({ name: 'append', text: sql.APPEND, waits: true }, [
      ...values,
      ...putOf(payloads),
      keysOf(dropped),
      seqsOf(dropped),
    ]);
    // Right behind it on the wire: emptying the names releases an append that waits as if its standby had it.
    const naming = link.query<NamesRow>({ name: 'names', text: sql.STANDBY_NAMES, waits: true });
    const [appended, names] = await Promise.allSettled([appending, naming]);
    this.#appendingSinceMs = undefined;
    if (appended.status === 'rejected') {
      // Of a server that goes down in the middle of a commit, nobody knows: only one that goes on has undone it.
      if (isAnswer(appended.reason) && names.status === 'fulfilled') throw answerError(appended.reason);
      link.close();
      throw new OutcomeUnknown(reasonOf(appended.reason), { cause: appended.reason });
    }
    const { rows, warning } = appended.value;
    const [row] = rows;
    if (!row || row.appended === 0) throw new Fenced();
    if (warning !== undefined) throw new OutcomeUnknown(warning);
    const fault = this.#namesFault(names, link);
    if (fault !== undefined) throw new OutcomeUnknown(fault);
    return { doubt: row.doubt ?? undefined };
  }

  async batches(logId: string, afterNo: number, tenure?: Tenure): Promise<FollowedBatch[]> {
    const values = [logId, afterNo, BATCHES_AT_ONCE, tenure !== undefined];
    const { rows } = await this.#ask<BatchRow>('batches', sql.BATCHES, values);
    return rows.map(followedBatch);
  }

  async batch(logId: string, no: number): Promise<FoundBatch | 'pruned' | undefined> {
    const { rows } = await this.#ask<FoundRow>('batch', sql.BATCH, [logId, no]);
    return foundBatch(rows[0], no);
  }

  async payloads(logId: string, places: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const found: (Buffer | undefined)[] = places.map(() => undefined);
    if (places.length === 0) return found;
    const values = [logId, keysOf(places), seqsOf(places)];
    const { rows } = await this.#ask<{ n: number; wire: Buffer }>('payloads', sql.PAYLOADS, values);
    for (const { n, wire } of rows) found[n - 1] = wire;
    return found;
  }

  async doubt(logId: string, reason: string): Promise<void> {
    doubtless(await this.#ask('doubt', sql.DOUBT, [logId, reason]));
  }

  async clearDoubt(tenure: Tenure): Promise<void> {
    if (doubtless(await this.#ask('clear doubt', sql.CLEAR_DOUBT, named(tenure))).rowCount === 0) throw new Fenced();
  }

  async resign(tenure: Tenure, ackedNo: number): Promise<void> {
    await this.#ask('resign', sql.RESIGN, [...named(tenure), ackedNo]);
  }

  async close(): Promise<void> {
    this.#connections.close();
  }

  /** PostgreSQL says an error to one of two that make the same table at the same time, also with `IF NOT EXISTS`. */
  async #createTables(): Promise<void> {
    const link = await this.#connections.others();
    for (let tries = 1; ; tries++) {
      try {
        await link.run(sql.CREATE_TABLES);
        return;
      } catch (error) {
        if (tries === CREATE_TRIES || !isAnswer(error) || !MADE_MEANWHILE.has(error.code)) throw linkError(link, error);
      }
    }
  }

  async #state(): Promise<LogState | undefined> {
    const { rows } = await this.#ask<StateRow>('state', sql.STATE);
    const [row] = rows;
    if (!row) return undefined;
    if (row.format > sql.TABLES_FORMAT)
      throw new LogRefused(
        `the log has the format ${row.format} and this software knows ${sql.TABLES_FORMAT}: start the newer software`,
      );
    return stateOf(row);
  }

  /** One statement on the connection of reads and renewals, which is opened anew when it was lost. */
  async #ask<R extends QueryResultRow>(
    name: string,
    text: string,
    values: unknown[] = [],
    given?: PgLink,
  ): Promise<Answered<R>> {
    const link = given ?? (await this.#connections.others());
    try {
      return await link.query<R>({ name, text }, values);
    } catch (error) {
      throw linkError(link, error);
    }
  }

  /** A statement that takes or changes the lead, sent once. Throws `OutcomeUnknown` when it may not be on every copy. */
  async #changed<R extends QueryResultRow>(name: string, text: string, values: unknown[]): Promise<Answered<R>> {
    const link = await this.#connections.others();
    const changing = this.#ask<R>(name, text, values, link);
    const naming = this.#ask<NamesRow>('names', sql.STANDBY_NAMES, [], link);
    const [changed, names] = await Promise.allSettled([changing, naming]);
    if (changed.status === 'rejected') throw changed.reason;
    const answered = doubtless(changed.value);
    // What was stored before is on the standbys only if this statement waited for them.
    const fault = this.#namesFault(names, link);
    if (fault === undefined) return answered;
    link.close();
    throw new OutcomeUnknown(fault);
  }

  async #load(name: string, text: string, values: unknown[]): Promise<void> {
    const { rows } = doubtless(await this.#ask<{ held: number }>(name, text, values));
    if (rows[0]?.held !== 1) throw new Fenced();
  }

  /** Why a statement may not have waited for the standbys, by the names that were read right behind it. */
  #namesFault(names: PromiseSettledResult<Answered<NamesRow>>, { standbyNames }: PgLink): string | undefined {
    if (names.status === 'rejected') return reasonOf(names.reason);
    const isAlike = this.#durability !== 'standby' || names.value.rows[0]?.names === standbyNames;
    return isAlike ? undefined : 'synchronous_standby_names was changed meanwhile';
  }
}

/** What the server warned of while it stored something may be that no standby has it. */
function doubtless<R extends QueryResultRow>(answered: Answered<R>): Answered<R> {
  if (answered.warning !== undefined) throw new OutcomeUnknown(answered.warning);
  return answered;
}
