/**
 * One connection to the PostgreSQL server that is the primary.
 *
 * `pg` is loaded when the first link is opened. What the server warns of while a statement runs counts as the statement's:
 * a wait for the standby that was cancelled ends in success and a warning. What it warns of at the connect does not.
 */
import { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import { LogRefused, LogUnreachable } from './shared-log.ts';
import type { LogEndpoint } from './log-address.ts';
import { SERVER, SESSION } from './pg-statements.ts';

/** The oldest server that notices that its client is gone. */
const VERSION_MIN = 14_00_00;
const CONNECT_WITHIN_MS = 3_000;

interface ServerSettings {
  is_standby: boolean;
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
}

export class PgLink {
  readonly #client: Client;
  readonly #socket: Socket;
  /** As the server had them when the link was opened. */
  readonly standbyNames: string;
  #warnings: string[] = [];
  #isOpen = true;

  private constructor(client: Client, socket: Socket, standbyNames: string) {
    this.#client = client;
    this.#socket = socket;
    this.standbyNames = standbyNames;
    client.on('end', () => (this.#isOpen = false));
    // Any notice: no other comes at this level, and the word for its severity is in the language of the server.
    client.on('notice', ({ message }) => this.#warnings.push(message ?? 'the server warned'));
  }

  /** To the first of the servers that is a primary. Throws `LogUnreachable` or `LogRefused`. */
  static async open(endpoints: readonly LogEndpoint[]): Promise<PgLink> {
    const met: string[] = [];
    for (const endpoint of endpoints) {
      const socket = new Socket();
      try {
        const link = await PgLink.#connected(endpoint, socket);
        if (link) return link;
        met.push(`${endpoint.name} is a standby`);
      } catch (error) {
        socket.destroy();
        if (error instanceof LogRefused) throw error;
        met.push(`${endpoint.name}: ${reasonOf(error)}`);
      }
    }
    throw new LogUnreachable(met.join('; '));
  }

  static async #connected({ url, name }: LogEndpoint, socket: Socket): Promise<PgLink | undefined> {
    const { default: pg } = await import('pg');
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_WITHIN_MS,
      keepAlive: true,
      application_name: 'poste relay',
      pipeline: true,
      stream: () => socket,
    });
    // Each statement rejects by itself; without a listener the connection's own error would end the process.
    client.on('error', () => socket.destroy());
    await client.connect();
    await client.query(SESSION);
    const { rows } = await client.query<ServerSettings>(SERVER);
    const [server] = rows;
    if (!server || server.is_standby) {
      socket.destroy();
      return undefined;
    }
    refuseUnsafe(server, name);
    return new PgLink(client, socket, server.standby_names);
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#socket.destroyed;
  }

  /** Rejects with the error of `pg`: one that has a `severity` is an answer of the server. */
  async query<R extends QueryResultRow>({ name, text }: Statement, values: unknown[] = []): Promise<Answered<R>> {
    const before = this.#warnings.length;
    const { rows, rowCount } = await this.#client.query<R>({ name, text, values });
    return { rows, rowCount: rowCount ?? 0, warning: this.#warnings[before] };
  }

  /** Statements one after another, without parameters. */
  async run(text: string): Promise<void> {
    await this.#client.query(text);
  }

  /** At once, whatever is under way. */
  close(): void {
    this.#isOpen = false;
    this.#socket.destroy();
  }
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
  return message === '' ? (code ?? 'unknown error') : message;
}
