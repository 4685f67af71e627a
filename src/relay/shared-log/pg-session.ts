/**
 * Statements on the connections of a log in PostgreSQL, and whether their answers can be believed.
 *
 * A wait for the standby ends in success also when it was cancelled, of which the server warns, and when the names of
 * the standbys were emptied, of which it says nothing. So the names are read before what waits and, right behind it on
 * the wire, again. Names that change between two statements are read anew.
 */
import type { QueryResultRow } from 'pg';
import { type Durability, namesFault } from './durability.ts';
import { type ConnectionOptions, PgConnections } from './pg-connections.ts';
import { type Answered, type PgLink, isAnswer, isForbidden, linkError, reasonOf } from './pg-link.ts';
import type { LackingRow, NamesRow } from './pg-rows.ts';
import * as sql from './pg-statements.ts';
import { LogRefused, LogUnreachable, NotWritten, OutcomeUnknown } from './shared-log.ts';

/** Another makes the tables: a name is taken (a row of the catalogue, a relation, a type), or a lock was refused. */
const MADE_MEANWHILE: ReadonlySet<string> = new Set(['23505', '42P07', '42710', '55P03']);
/** A row of that key. */
const IS_THERE = '23505';
/** Each time, another one has made them or has failed. */
const CREATE_TRIES = 5;

interface SessionOptions extends ConnectionOptions {
  durability: Durability;
}

export class PgSession {
  readonly #connections: PgConnections;
  readonly #durability: Durability;

  constructor({ durability, ...options }: SessionOptions) {
    this.#connections = new PgConnections(options);
    this.#durability = durability;
  }

  /** One statement on the connection of reads and renewals. */
  async ask<R extends QueryResultRow>(
    name: string,
    text: string,
    values: unknown[] = [],
    given?: PgLink,
  ): Promise<Answered<R>> {
    const link = given ?? (await this.#connections.others());
    try {
      return await link.query<R>({ name, text }, values);
    } catch (error) {
      throw this.#meaning(link, error);
    }
  }

  /** As `ask`. Throws `OutcomeUnknown` when what it stored may not be on every copy. */
  async store<R extends QueryResultRow>(name: string, text: string, values: unknown[]): Promise<Answered<R>> {
    return doubtless(await this.ask<R>(name, text, values));
  }

  /** A statement that takes or changes the lead, sent once. Throws `OutcomeUnknown` if some copy may lack it. */
  async change<R extends QueryResultRow>(name: string, text: string, values: unknown[]): Promise<Answered<R>> {
    const link = await this.#connections.others();
    const names = await this.#fitNames(link);
    const changing = this.ask<R>(name, text, values, link);
    const naming = this.ask<NamesRow>('names', sql.STANDBY_NAMES, [], link);
    const [changed, named] = await Promise.allSettled([changing, naming]);
    if (changed.status === 'rejected') throw changed.reason;
    const answered = doubtless(changed.value);
    // What was stored before is on the standbys only if this statement waited for them.
    const fault = this.#changedNames(named, names);
    if (fault === undefined) return answered;
    link.close();
    throw new OutcomeUnknown(fault);
  }

  /**
   * One statement on the connection of appends, which gets the names of the standbys as its last value and stores
   * nothing where others are named by then. Throws `NotWritten`, and `OutcomeUnknown` when what it stored may not be on
   * every copy.
   */
  async append<R extends QueryResultRow>(
    text: string,
    values: unknown[],
    isStored: (row: R | undefined) => boolean,
  ): Promise<R | undefined> {
    const link = await this.#connections.appends();
    for (;;) {
      const names = await this.#fitNames(link);
      const expected = this.#durability === 'standby' ? names : null;
      const appending = link.query<R>({ name: 'append', text, waits: true }, [...values, expected]);
      const naming = link.query<NamesRow>({ name: 'names', text: sql.STANDBY_NAMES, waits: true });
      const [appended, named] = await Promise.allSettled([appending, naming]);
      if (appended.status === 'rejected') {
        // Of a server that goes down in the middle of a commit, nobody knows: only one that goes on has undone it.
        if (isAnswer(appended.reason) && named.status === 'fulfilled') {
          // A batch whose outcome was unknown was given to the server again, and came there both times.
          const { code, table } = appended.reason;
          if (code === IS_THERE && table === 'batch') throw new OutcomeUnknown(reasonOf(appended.reason));
          const meaning = this.#meaning(link, appended.reason);
          // The next try finds another connection.
          throw meaning instanceof LogUnreachable ? new NotWritten(meaning.message, { cause: meaning }) : meaning;
        }
        link.close();
        throw new OutcomeUnknown(reasonOf(appended.reason), { cause: appended.reason });
      }
      const { rows, warning } = appended.value;
      const fault = this.#changedNames(named, names);
      if (isStored(rows[0])) {
        if (warning !== undefined || fault !== undefined) throw new OutcomeUnknown(warning ?? fault ?? '');
        return rows[0];
      }
      if (fault === undefined) return rows[0];
      if (named.status === 'rejected') throw new NotWritten(fault, { cause: named.reason });
      // They were changed before the statement: it is sent again, with those that are there now.
      link.standbyNames = named.value.rows[0]?.names ?? '';
    }
  }

  /** The names as the server says them now. Returns why they promise no second copy. */
  async namesAre(names: string): Promise<string | undefined> {
    const link = await this.#connections.others();
    link.standbyNames = names;
    return this.copyFault(names);
  }

  /** Why these names promise no second copy. */
  copyFault(names: string): string | undefined {
    return namesFault(this.#durability, names);
  }

  /** At the start: makes tables that are missing, and checks that this user may do everything. Throws `LogRefused`. */
  async prove(): Promise<void> {
    if (this.#connections.isProven) return;
    const lacking = async (): Promise<LackingRow[]> => (await this.ask<LackingRow>('lacking', sql.LACKING)).rows;
    let rows = await lacking();
    if (rows.some(({ lacks_table: lacksTable }) => lacksTable)) {
      await this.createTables();
      rows = await lacking();
    }
    if (rows.length > 0) throw new LogRefused(lackingSentence(rows));
    this.#connections.isProven = true;
  }

  /** PostgreSQL says an error to one of two that make the same table at the same time, also with `IF NOT EXISTS`. */
  async createTables(): Promise<void> {
    const link = await this.#connections.others();
    for (let tries = 1; ; tries++) {
      try {
        await link.run(sql.CREATE_TABLES);
        return;
      } catch (error) {
        if (isForbidden(error))
          throw new LogRefused(
            `the database of the log lacks tables, and this user may not make them (${error.message}): run poste relay cluster init as their owner, and grant the rights that it prints`,
            { cause: error },
          );
        if (tries === CREATE_TRIES || !isAnswer(error) || !MADE_MEANWHILE.has(error.code))
          throw this.#meaning(link, error);
      }
    }
  }

  closeAppends(): void {
    this.#connections.closeAppends();
  }

  close(): void {
    this.#connections.close();
  }

  /** The names of standbys as they were read last; read anew when those promise no second copy. Throws `NotWritten`. */
  async #fitNames(link: PgLink): Promise<string> {
    if (this.copyFault(link.standbyNames) !== undefined) {
      const { rows } = await this.ask<NamesRow>('names', sql.STANDBY_NAMES, [], link);
      link.standbyNames = rows[0]?.names ?? '';
    }
    const fault = this.copyFault(link.standbyNames);
    if (fault !== undefined) throw new NotWritten(fault);
    return link.standbyNames;
  }

  /** Why a statement may not have waited for the standbys, by the names that were read right behind it. */
  #changedNames(named: PromiseSettledResult<Answered<NamesRow>>, before: string): string | undefined {
    if (named.status === 'rejected') return reasonOf(named.reason);
    const isAlike = this.#durability !== 'standby' || named.value.rows[0]?.names === before;
    return isAlike ? undefined : 'synchronous_standby_names was changed meanwhile';
  }

  /** A link that failed itself is closed. */
  #meaning(link: PgLink, error: unknown): Error {
    return isAnswer(error) ? this.#connections.meaning(link, error) : linkError(link, error);
  }
}

/** What the server warned of while it stored something may be that no standby has it. */
function doubtless<R extends QueryResultRow>(answered: Answered<R>): Answered<R> {
  if (answered.warning !== undefined) throw new OutcomeUnknown(answered.warning);
  return answered;
}

function lackingSentence(rows: readonly LackingRow[]): string {
  const rights = rows.map(({ right_name: right, table_name: table }) => `${right} on ${table}`);
  return `the user of the log lacks rights (${rights.join(', ')}): grant those that poste relay cluster init prints`;
}
