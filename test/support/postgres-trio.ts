/**
 * A primary and two standbys of it, one of which must have what is committed, and their operator: who promotes, makes
 * new standbys and sets the names. Every server keeps its name and its port.
 */
import { eventually } from './eventually.ts';
import { type PostgresOptions, type PostgresServer, startPostgres } from './postgres.ts';
import { atTestEnd } from './test-end.ts';

const NAMES = ['second', 'third'] as const;

export class PostgresTrio {
  readonly servers: readonly PostgresServer[];
  #primary: PostgresServer;

  /** `program` is the file of `postgres`. The caller ends it. */
  static async start(
    program: string,
    options: Partial<PostgresOptions> = {},
  ): Promise<{ trio: PostgresTrio; end: () => Promise<void> }> {
    const { primary, end } = await startPostgres(program, options);
    try {
      const standbys: PostgresServer[] = [];
      for (const name of NAMES) standbys.push(await primary.standby(name));
      const trio = new PostgresTrio(primary, [primary, ...standbys]);
      await trio.awaitStandbys();
      return { trio, end };
    } catch (error) {
      await end();
      throw error;
    }
  }

  /** Ends with the test. */
  static async begin(program: string, options: Partial<PostgresOptions> = {}): Promise<PostgresTrio> {
    const { trio, end } = await PostgresTrio.start(program, options);
    atTestEnd(end);
    return trio;
  }

  private constructor(primary: PostgresServer, servers: readonly PostgresServer[]) {
    this.#primary = primary;
    this.servers = servers;
  }

  get primary(): PostgresServer {
    return this.#primary;
  }

  get standbys(): PostgresServer[] {
    return this.servers.filter((server) => server !== this.#primary);
  }

  /** Returns what commits wait for. */
  get names(): string {
    return `ANY 1 (${this.standbys.map(({ name }) => name).join(', ')})`;
  }

  /** Of the standbys the one that received most comes first. */
  async byReceived(): Promise<PostgresServer[]> {
    const asked = this.standbys.map(async (server) => {
      const [row] = await server.query("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::int8 AS bytes");
      return { server, bytes: Number(row?.['bytes'] ?? 0) };
    });
    const received = await Promise.all(asked);
    return received.toSorted((one, other) => other.bytes - one.bytes).map(({ server }) => server);
  }

  /** The primary must be gone. The others become standbys of `server` with `heal`. */
  async promote(server: PostgresServer): Promise<void> {
    await server.promote();
    this.#primary = server;
    await this.setNames(this.names);
  }

  async setNames(names: string): Promise<void> {
    await this.#primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await this.#primary.query('SELECT pg_reload_conf()');
  }

  /** All three run, both standbys follow the primary, and commits wait for one of them. */
  async heal(): Promise<void> {
    for (const server of this.servers) await server.receive(true);
    if (!this.#primary.isRunning) await this.#primary.start();
    for (const server of this.standbys)
      if (!server.isRunning || !(await this.#follows(server))) await server.follow(this.#primary);
    await this.awaitStandbys();
  }

  async awaitStandbys(): Promise<void> {
    await this.#primary.synchronousWith(this.names);
    const areThere = await eventually(
      async () => (await Promise.all(this.standbys.map((server) => this.#follows(server)))).every(Boolean),
      (are) => are,
    );
    if (!areThere) throw new Error(`not both standbys follow ${this.#primary.name}:\n${this.#primary.log}`);
  }

  /** Both standbys have on disk what the primary had when this was called. */
  async caughtUp(): Promise<void> {
    const [now] = await this.#primary.query('SELECT pg_current_wal_lsn()::text AS lsn');
    const ask = 'SELECT count(*)::int AS standbys FROM pg_stat_replication WHERE flush_lsn >= $1::pg_lsn';
    const flushed = async () => (await this.#primary.query(ask, [now?.['lsn']]))[0]?.['standbys'];
    const are = await eventually(flushed, (count) => count === this.standbys.length);
    if (are !== this.standbys.length) throw new Error(`not both standbys caught up with ${this.#primary.name}`);
  }

  async #follows({ name }: PostgresServer): Promise<boolean> {
    const ask = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND application_name = $1";
    return (await this.#primary.query(ask, [name])).length > 0;
  }
}
