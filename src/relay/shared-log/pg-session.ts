/**
 * Statements on the two connections of a log in PostgreSQL, and whether their answers can be believed. One connection
 * is for appends, because an append that waits for the standby must not hold up reads; the other for reads and
 * renewals. Each is opened when it is wanted, and anew when it was lost.
 *
 * What a server must not be, or does not allow, ends a node that starts, with a sentence for its operator. Of a node
 * that runs it may be repaired meanwhile: it waits, as for a server that does not answer.
 *
 * A wait for the standby ends in success also when it was cancelled, of which the server warns, and when the names of
 * the standbys were emptied, of which it says nothing. So the names are read before what waits and, right behind it on
 * the wire, again. Names that change between two statements are read anew.
 */
import { type Durability, namesFault } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import {
  type Answered,
  type PgLink,
  answerError,
  isAnswer,
  isForbidden,
  linkError,
  mayBeMended,
  openPrimary,
  poolerSentence,
  reasonOf,
} from './pg-link.ts';
import * as sql from './pg-statements.ts';
import { LogRefused, LogUnreachable, NotWritten, OutcomeUnknown, ServerRefused } from './shared-log.ts';

/** Another makes the tables: a name is taken (a row of the catalogue, a relation, a type), or a lock was refused. */
const MADE_MEANWHILE: ReadonlySet<string> = new Set(['23505', '42P07', '42710', '55P03']);
/** A row of that key. */
const IS_THERE = '23505';
/** Each time, another one has made them or has failed. */
const CREATE_TRIES = 5;

interface SessionOptions {
  /** Asked with each new connection: a password may have changed meanwhile. */
  endpoints: () => Promise<readonly LogEndpoint[]>;
  answerWithinMs: number;
  durability: Durability;
}

/** A right that this user lacks. */
export interface LackingRight {
  table: string;
  right: string;
  /** True when the database lacks the table itself. */
  isTable: boolean;
}

interface Names {
  names: string;
}

export class PgSession {
  readonly #options: SessionOptions;
  #appends: PgLink | undefined;
  #others: PgLink | undefined;
  /** The connection that is being opened in the place of `#others`. */
  #opening: Promise<PgLink> | undefined;
  #isClosed = false;
  /** True when everything that the log needs of its server was there once. */
  #isProven = false;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** One statement on the connection of reads and renewals. */
  async ask<R extends object>(
    name: string,
    text: string,
    values: unknown[] = [],
    given?: PgLink,
  ): Promise<Answered<R>> {
    const link = given ?? (await this.#linkOfOthers());
    try {
      return await link.query<R>({ name, text }, values);
    } catch (error) {
      throw this.#meaning(link, error);
    }
  }

  /** Asks as `ask` does. Throws `OutcomeUnknown` when what it stored may not be on every copy. */
  async store<R extends object>(name: string, text: string, values: unknown[]): Promise<Answered<R>> {
    return doubtless(await this.ask<R>(name, text, values));
  }

  /** A statement that takes or changes the lead, sent once. Throws `OutcomeUnknown` if some copy may lack it. */
  async change<R extends object>(name: string, text: string, values: unknown[]): Promise<Answered<R>> {
    const link = await this.#linkOfOthers();
    const names = await this.#fitNames(link);
    const changing = this.ask<R>(name, text, values, link);
    const naming = this.ask<Names>('names', sql.STANDBY_NAMES, [], link);
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
  async append<R extends object>(
    text: string,
    values: unknown[],
    isStored: (row: R | undefined) => boolean,
  ): Promise<R | undefined> {
    const link = await this.#linkOfAppends();
    for (;;) {
      const names = await this.#fitNames(link);
      const expected = this.#options.durability === 'standby' ? names : null;
      const appending = link.query<R>({ name: 'append', text, waits: true }, [...values, expected]);
      const naming = link.query<Names>({ name: 'names', text: sql.STANDBY_NAMES, waits: true });
      const [appended, named] = await Promise.allSettled([appending, naming]);
      if (appended.status === 'rejected') {
        // Nobody knows it of a server that goes down in the middle of a commit: only one that goes on has undone it.
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
    const link = await this.#linkOfOthers();
    link.standbyNames = names;
    return this.copyFault(names);
  }

  /** Says why these names promise no second copy. */
  copyFault(names: string): string | undefined {
    return namesFault(this.#options.durability, names);
  }

  /** At the start: makes tables that are missing, and checks that this user may do everything. Throws `LogRefused`. */
  async prove(): Promise<void> {
    if (this.#isProven) return;
    const lacking = async (): Promise<LackingRight[]> => (await this.ask<LackingRight>('lacking', sql.LACKING)).rows;
    let lacks = await lacking();
    if (lacks.some(({ isTable }) => isTable)) {
      await this.createTables();
      lacks = await lacking();
    }
    if (lacks.length > 0) throw new LogRefused(lackingSentence(lacks));
    this.#isProven = true;
  }

  /** PostgreSQL says an error to one of two that make the same table at the same time, also with `IF NOT EXISTS`. */
  async createTables(): Promise<void> {
    const link = await this.#linkOfOthers();
    for (let tries = 1; ; tries++) {
      try {
        await link.run(sql.CREATE_TABLES);
        return;
      } catch (error) {
        if (isForbidden(error))
          throw new LogRefused(
            `the database of the log lacks tables, and this user may not make them (${error.message}): run ` +
              'poste relay cluster init as their owner, and grant the rights that it prints',
            { cause: error },
          );
        if (tries === CREATE_TRIES || !isAnswer(error) || !MADE_MEANWHILE.has(error.code))
          throw this.#meaning(link, error);
      }
    }
  }

  closeAppends(): void {
    this.#appends?.close();
  }

  /** At once, and for good. */
  close(): void {
    this.#isClosed = true;
    this.closeAppends();
    this.#others?.close();
  }

  async #linkOfOthers(): Promise<PgLink> {
    if (this.#others?.isOpen) return this.#others;
    this.#opening ??= this.#newLink().finally(() => (this.#opening = undefined));
    this.#others = await this.#opening;
    return this.#others;
  }

  /** A connection that was lost while nothing was appended may be replaced: the fence is asked with each append. */
  async #linkOfAppends(): Promise<PgLink> {
    if (this.#appends?.isOpen) return this.#appends;
    try {
      this.#appends = await this.#newLink();
    } catch (error) {
      if (error instanceof LogUnreachable && !this.#isClosed) throw new NotWritten(error.message, { cause: error });
      throw error;
    }
    return this.#appends;
  }

  async #newLink(): Promise<PgLink> {
    if (this.#isClosed) throw new LogUnreachable('the log was closed');
    const named = await this.#options.endpoints().catch((error: unknown) => {
      throw new LogUnreachable(reasonOf(error), { cause: error });
    });
    const link = await openPrimary(named, this.#options.answerWithinMs).catch((error: unknown) => {
      throw error instanceof LogRefused && this.#isProven ? new LogUnreachable(error.message) : error;
    });
    const isShared = [this.#appends, this.#others].some((other) => other?.isOpen && other.isSameBackend(link));
    if (this.#isClosed || isShared) link.close();
    if (this.#isClosed) throw new LogUnreachable('the log was closed');
    if (isShared) throw new ServerRefused(poolerSentence('one process answers two connections'));
    return link;
  }

  /** The names of standbys as they were read last; read anew when those promise no second copy. Throws `NotWritten`. */
  async #fitNames(link: PgLink): Promise<string> {
    if (this.copyFault(link.standbyNames) !== undefined) {
      const { rows } = await this.ask<Names>('names', sql.STANDBY_NAMES, [], link);
      link.standbyNames = rows[0]?.names ?? '';
    }
    const fault = this.copyFault(link.standbyNames);
    if (fault !== undefined) throw new NotWritten(fault);
    return link.standbyNames;
  }

  /** Says why a statement may not have waited for the standbys, by the names that were read right behind it. */
  #changedNames(named: PromiseSettledResult<Answered<Names>>, before: string): string | undefined {
    if (named.status === 'rejected') return reasonOf(named.reason);
    const isAlike = this.#options.durability !== 'standby' || named.value.rows[0]?.names === before;
    return isAlike ? undefined : 'synchronous_standby_names was changed meanwhile';
  }

  /** Returns the meaning of an error. A link that failed itself is closed. */
  #meaning(link: PgLink, error: unknown): Error {
    if (!isAnswer(error)) return linkError(link, error);
    if (this.#isProven && mayBeMended(error)) return new NotWritten(error.message, { cause: error });
    return answerError(link, error);
  }
}

/** What the server warned of while it stored something may be that no standby has it. */
function doubtless<R extends object>(answered: Answered<R>): Answered<R> {
  if (answered.warning !== undefined) throw new OutcomeUnknown(answered.warning);
  return answered;
}

function lackingSentence(lacks: readonly LackingRight[]): string {
  const rights = lacks.map(({ right, table }) => `${right} on ${table}`);
  return `the user of the log lacks rights (${rights.join(', ')}): grant those that poste relay cluster init prints`;
}
