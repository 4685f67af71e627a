/**
 * One connection to the primary among the PostgreSQL servers of a log, and what its errors mean.
 *
 * `pg` is loaded when the first link is opened. What the server warns of while a statement runs counts as the
 * statement's: a wait for the standby that was cancelled ends in success and a warning. What it warns of at the connect
 * does not.
 */
import { Socket } from 'node:net';
import type { Client } from 'pg';
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

/** A server that has not answered when another is a primary is waited for no longer than this. */
const OTHERS_WITHIN_MS = 1_000;

interface ServerSettings {
  isStandby: boolean;
  systemId: string;
  timeline: number;
  /** The process of the server that answers, and when the server started: another start gives out the same numbers. */
  backend: string;
  version: number;
  fsync: string;
  fullPageWrites: string;
  names: string;
}

/** An answer of the server, and whether it warned meanwhile. */
export interface Answered<R> {
  rows: R[];
  rowCount: number;
  warning: string | undefined;
}

interface Statement {
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
  readonly server: LogServer & Pick<ServerSettings, 'backend'>;
  /** The names of the standbys that were read last. */
  standbyNames: string;
  #warnings: string[] = [];
  #isOpen = true;

  private constructor(client: Client, socket: Socket, settings: ServerSettings, answerWithinMs: number) {
    this.#answerWithinMs = answerWithinMs;
    this.#client = client;
    this.#socket = socket;
    const { systemId, timeline, backend, names } = settings;
    this.server = { systemId, timeline, backend };
    this.standbyNames = names;
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
    const { INT8 } = pg.types.builtins;
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: Math.min(CONNECT_WITHIN_MS, answerWithinMs),
      keepAlive: true,
      application_name: 'poste relay',
      pipeline: true,
      // No int8 of a log is too large for a number.
      types: { getTypeParser: (oid, format) => (oid === INT8 ? Number : pg.types.getTypeParser(oid, format)) },
      stream: () => socket,
    });
    // Each statement rejects by itself; without a listener the connection's own error would end the process.
    client.on('error', () => socket.destroy());
    await client.connect();
    await client.query(withTimeLimit(SESSION, answerWithinMs));
    const { rows } = await client.query<ServerSettings>(withTimeLimit(SERVER, answerWithinMs));
    const [server] = rows;
    if (!server || server.isStandby) {
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
  async query<R extends object>(
    { name, text, waits = false }: Statement,
    values: unknown[] = [],
  ): Promise<Answered<R>> {
    const before = this.#warnings.length;
    const config = { ...(waits ? { text } : withTimeLimit(text, this.#answerWithinMs)), name, values };
    const { rows, rowCount } = await this.#client.query<R & Record<string, unknown>>(config);
    for (const row of rows) withoutNull(row);
    return { rows, rowCount: rowCount ?? 0, warning: this.#warnings[before] };
  }

  /** Statements one after another, without parameters. */
  async run(text: string): Promise<void> {
    await this.#client.query(withTimeLimit(text, this.#answerWithinMs));
  }

  /** True when one process of the server answers both, as behind a pooler. */
  isSameBackend({ server }: PgLink): boolean {
    const { backend, systemId, timeline } = this.server;
    return server.backend === backend && server.systemId === systemId && server.timeline === timeline;
  }

  /** At once, whatever is under way. */
  close(): void {
    this.#isOpen = false;
    this.#socket.destroy();
  }
}

/** `pg` knows the limit also where its types do not. */
function withTimeLimit(text: string, withinMs: number): { text: string; query_timeout: number } {
  return { text, query_timeout: withinMs };
}

/** A value that is not there is `undefined` in the relay. */
function withoutNull(row: Record<string, unknown>): void {
  for (const name in row) if (row[name] === null) row[name] = undefined;
}

/** Refuses a server that forgets at a crash what it said was stored. */
function refuseUnsafe({ version, fsync, fullPageWrites }: ServerSettings, name: string): void {
  if (version < VERSION_MIN)
    throw new LogRefused(`the server ${name} is too old for the log: PostgreSQL 14 or newer is needed`);
  const off = [fsync === 'on' ? [] : ['fsync'], fullPageWrites === 'on' ? [] : ['full_page_writes']].flat();
  if (off.length > 0)
    throw new LogRefused(`the server ${name} may lose what it stored at a crash: turn on ${off.join(' and ')} there`);
}

/** The answer of one server: a link, an error that does not pass, or why it cannot be used now. */
type Asked = PgLink | LogRefused | string;

/**
 * Opens a link to the primary. All servers are asked at the same time. A primary of before that came back beside the
 * one that took its place is one too, until somebody makes it a standby: the one of the highest timeline counts.
 *
 * Throws `LogRefused` when no server can be used and one of them never will be as it is; else `LogUnreachable`.
 */
export async function openPrimary(endpoints: readonly LogEndpoint[], answerWithinMs: number): Promise<PgLink> {
  const waitedFor = new Set<Socket>();
  let late: NodeJS.Timeout | undefined;
  const ask = async (endpoint: LogEndpoint): Promise<Asked> => {
    const socket = new Socket();
    waitedFor.add(socket);
    const one = await asked(endpoint, socket, answerWithinMs);
    waitedFor.delete(socket);
    if (waitedFor.size === 0) clearTimeout(late);
    else if (one instanceof PgLink)
      late ??= setTimeout(() => waitedFor.forEach((other) => other.destroy()), OTHERS_WITHIN_MS);
    return one;
  };
  const all = await Promise.all(endpoints.map(ask));
  const links = all.filter((one) => one instanceof PgLink);
  const [newest] = links.toSorted((one, other) => other.server.timeline - one.server.timeline);
  const areCopies = links.every(({ server }) => server.systemId === newest?.server.systemId);
  for (const link of links) if (link !== newest || !areCopies) link.close();
  if (!areCopies)
    throw new LogRefused('--log names primaries that are no copies of each other: name the servers of one log');
  if (newest) return newest;
  throw (
    all.find((one) => one instanceof LogRefused) ??
    new LogUnreachable(all.filter((one) => typeof one === 'string').join('; '))
  );
}

async function asked(endpoint: LogEndpoint, socket: Socket, answerWithinMs: number): Promise<Asked> {
  try {
    return (await PgLink.connect(endpoint, socket, answerWithinMs)) ?? `${endpoint.name} is a standby`;
  } catch (error) {
    socket.destroy();
    if (error instanceof LogRefused) return error;
    const why = `${endpoint.name}: ${reasonOf(error)}`;
    if (!isForbidden(error)) return why;
    const sentence = `the server of the log refuses this user (${why}): see that password, user and database are right`;
    return new ServerRefused(sentence, { cause: error });
  }
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
  return (
    `there is a pooler in transaction mode before the server of the log (${why}): let it run in session mode, or ` +
    'name the server itself in --log'
  );
}

export interface ServerError extends Error {
  severity: string;
  code: string;
  /** The table of a constraint that was not kept. */
  table?: string;
}

/** True when the server answered with this error; any other error is one of the connection. */
export function isAnswer(error: unknown): error is ServerError {
  return error instanceof Error && typeof (error as Partial<ServerError>).severity === 'string';
}

/** True when this user may not do what was asked of the server. */
export function isForbidden(error: unknown): error is ServerError {
  return isAnswer(error) && NOT_ALLOWED.has(error.code);
}

/** True for what may be mended while a relay that was let in before waits for it. */
export function mayBeMended({ code }: ServerError): boolean {
  return NOT_ALLOWED.has(code) || MISSING.has(code);
}

/** Returns the meaning of an error that the server answered with on `link`, which is closed where another is needed. */
export function answerError(link: PgLink, error: ServerError): Error {
  const { code, message } = error;
  if (TRY_AGAIN.test(code)) return new NotWritten(message, { cause: error });
  if (CONNECT_AGAIN.test(code)) return linkError(link, error);
  const what = OF_A_POOLER.has(code) ? reasonOf(error) : `the server of the log refuses a statement: ${message}`;
  return new ServerRefused(what, { cause: error });
}

/** Closes the link, and returns the meaning of an error after which another connection is needed. */
export function linkError(link: PgLink, error: unknown): Error {
  link.close();
  return new LogUnreachable(reasonOf(error), { cause: error });
}
