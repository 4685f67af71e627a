/**
 * One connection to a PostgreSQL server that is a primary.
 *
 * `pg` is loaded when the first link is opened. What the server warns of while a statement runs counts as the
 * statement's: a wait for the standby that was cancelled ends in success and a warning. What it warns of at the connect
 * does not.
 */
import type { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import { LogRefused, type LogServer, LogUnreachable, NotWritten, ServerRefused } from './shared-log.ts';
import type { LogEndpoint } from './log-address.ts';
import { SERVER, SESSION } from './pg-statements.ts';

/** The oldest server that notices that its client is gone. */
const VERSION_MIN = 14_00_00;
const CONNECT_WITHIN_MS = 3_000;
/** An answer that is not there by then is waited for no more: the machine of the server may be gone without a word. */
export const ANSWER_WITHIN_MS = 10_000;

/**
 * Errors after which the same statement may be tried again: no room, no memory, no connection left (class 53), a disk
 * that failed (class 58), a lock that was not had in time (55P03), a conflict with another statement (40001, 40P01), or
 * somebody who cancelled it (57014). The server undoes a statement that ends in an error whole.
 */
const TRY_AGAIN = /^(?:53...|58...|55P03|40001|40P01|57014)$/;

/**
 * Errors after which another connection is needed: the server ends this one (57P), a pooler or the protocol failed
 * (class 08), or the server is no primary any more and writes nothing (25006, 55000).
 */
const CONNECT_AGAIN = /^(?:57P..|08...|25006|55000)$/;

/** A statement that was prepared on this connection is not there, or another's is: each goes to another backend. */
const OF_A_POOLER: ReadonlySet<string> = new Set(['26000', '42P05']);

/** The tables, or their schema, are not there: a database that is being restored. */
const MISSING: ReadonlySet<string> = new Set(['42P01', '3F000']);

/** A password or a user that is wrong, a database that does not exist, a right that is missing. */
const NOT_ALLOWED: ReadonlySet<string> = new Set(['28P01', '28000', '3D000', '42501']);

interface ServerSettings {
  is_standby: boolean;
  system_identifier: string;
  timeline: number | null;
  backend: string;
  version: number;
  fsync: string;
  full_page_writes: string;
  standby_names: string;
}

/** An answer of the server, and whether it warned meanwhile. */
export interface Answered<R extends QueryResultRow> {
  rows: R[];
  rowCount: number;
  warning: string | undefined;
}

export interface Statement {
  /** The server keeps the plan under this name. */
  name: string;
  text: string;
  waits?: boolean;
}

export class PgLink {
  readonly #client: Client;
  readonly #socket: Socket;
  readonly #answerWithinMs: number;
  /** The server, as it was when the link was opened. */
  readonly server: LogServer;
  /** The process of the server that answers it, and when the server started: another start gives out the same numbers. */
  readonly backend: string;
  /** As they were read last. */
  standbyNames: string;
  #warnings: string[] = [];
  #isOpen = true;

  private constructor(client: Client, socket: Socket, settings: ServerSettings, answerWithinMs: number) {
    this.#answerWithinMs = answerWithinMs;
    this.#client = client;
    this.#socket = socket;
    this.server = { systemId: settings.system_identifier, timeline: settings.timeline ?? 0 };
    this.backend = settings.backend;
    this.standbyNames = settings.standby_names;
    client.on('end', () => (this.#isOpen = false));
    // Any notice: no other comes at this level, and the word for its severity is in the language of the server.
    client.on('notice', ({ message }) => this.#warnings.push(message ?? 'the server warned'));
  }

  /** `undefined` for a standby. Throws `LogRefused` and errors of `pg`; what is under way ends when `socket` does. */
  static async connect(
    { url, name }: LogEndpoint,
    socket: Socket,
    answerWithinMs: number,
  ): Promise<PgLink | undefined> {
    const { default: pg } = await import('pg');
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: Math.min(CONNECT_WITHIN_MS, answerWithinMs),
      keepAlive: true,
      application_name: 'poste relay',
      pipeline: true,
      stream: () => socket,
    });
    // Each statement rejects by itself; without a listener the connection's own error would end the process.
    client.on('error', () => socket.destroy());
    await client.connect();
    await client.query(limited(SESSION, answerWithinMs));
    const { rows } = await client.query<ServerSettings>(limited(SERVER, answerWithinMs));
    const [server] = rows;
    if (!server || server.is_standby) {
      socket.destroy();
      return undefined;
    }
    refuseUnsafe(server, name);
    return new PgLink(client, socket, server, answerWithinMs);
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#socket.destroyed;
  }

  /**
   * Rejects with the error of `pg`: one that has a `severity` is an answer of the server. A statement that `waits` does
   * so for as long as the server takes; any other ends the link when its answer does not come in time.
   */
  async query<R extends QueryResultRow>(
    { name, text, waits = false }: Statement,
    values: unknown[] = [],
  ): Promise<Answered<R>> {
    const before = this.#warnings.length;
    const config = { ...(waits ? { text } : limited(text, this.#answerWithinMs)), name, values };
    const { rows, rowCount } = await this.#client.query<R>(config);
    return { rows, rowCount: rowCount ?? 0, warning: this.#warnings[before] };
  }

  /** Statements one after another, without parameters. */
  async run(text: string): Promise<void> {
    await this.#client.query(limited(text, this.#answerWithinMs));
  }

  /** At once, whatever is under way. */
  close(): void {
    this.#isOpen = false;
    this.#socket.destroy();
  }
}

/** `pg` knows the limit also where its types do not. */
function limited(text: string, withinMs: number): { text: string; query_timeout: number } {
  return { text, query_timeout: withinMs };
}

/** A server that forgets at a crash what it said was stored. */
function refuseUnsafe({ version, fsync, full_page_writes }: ServerSettings, name: string): void {
  if (version < VERSION_MIN)
    throw new LogRefused(`the server ${name} is too old for the log: PostgreSQL 14 or newer is needed`);
  const off = [fsync === 'on' ? [] : ['fsync'], full_page_writes === 'on' ? [] : ['full_page_writes']].flat();
  if (off.length > 0)
    throw new LogRefused(`the server ${name} may lose what it stored at a crash: turn on ${off.join(' and ')} there`);
}

/** The reason in a few words. The message of `pg` holds no password, and no more of the address than host and user. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (isAnswer(error) && OF_A_POOLER.has(error.code)) return poolerSentence(message);
  if (message === 'Query read timeout') return 'no answer came in time';
  return message === '' ? (code ?? 'unknown error') : message;
}

/** A pooler that gives each transaction to another server process keeps no settings or statements of a link. */
export function poolerSentence(why: string): string {
  return `there is a pooler in transaction mode before the server of the log (${why}): let it run in session mode, or name the server itself in --log`;
}

export interface ServerError extends Error {
  severity: string;
  code: string;
  /** Of a constraint that was not kept. */
  table?: string;
}

/** Whether the server answered with an error; any other error is one of the connection. */
export function isAnswer(error: unknown): error is ServerError {
  return error instanceof Error && typeof (error as Partial<ServerError>).severity === 'string';
}

/** Whether the server says that this user may not do what was asked. */
export function isForbidden(error: unknown): error is ServerError {
  return isAnswer(error) && NOT_ALLOWED.has(error.code);
}

/** What may be mended while a relay that was let in before waits for it. */
export function mayBeMended({ code }: ServerError): boolean {
  return NOT_ALLOWED.has(code) || MISSING.has(code);
}

/** What an error means that the server answered with on `link`, which is closed where another is needed. */
export function answerError(link: PgLink, error: ServerError): Error {
  const { code, message } = error;
  if (TRY_AGAIN.test(code)) return new NotWritten(message, { cause: error });
  if (CONNECT_AGAIN.test(code)) return linkError(link, error);
  const what = OF_A_POOLER.has(code) ? reasonOf(error) : `the server of the log refuses a statement: ${message}`;
  return new ServerRefused(what, { cause: error });
}

/** What an error means after which another connection is needed. The link is closed. */
export function linkError(link: PgLink, error: unknown): Error {
  link.close();
  return new LogUnreachable(reasonOf(error), { cause: error });
}
