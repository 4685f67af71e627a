/** A PostgreSQL server of the cluster: what it says of itself, and what is done to it. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { Client } from 'pg';
import type { PostgresServer } from '../../test/support/postgres.ts';

export type DatabaseState =
  | { type: 'gone' }
  | { type: 'silent' }
  | { type: 'primary'; timeline: number; isSynchronous: boolean }
  | { type: 'standby'; isReceiving: boolean };

const ANSWERED_WITHIN_MS = 1_500;
/**
 * The processes that a killed server had started end by themselves; until they have, the server does not start again.
 */
const GONE_WITHIN_MS = 10_000;

const ASK = `SELECT pg_is_in_recovery() AS is_standby,
  CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END AS timeline,
  EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS is_synchronous,
  EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AS is_receiving`;

interface Asked {
  is_standby: boolean;
  timeline: number;
  is_synchronous: boolean;
  is_receiving: boolean;
}

export class Database {
  readonly name: string;
  readonly server: PostgresServer;
  state: DatabaseState = { type: 'silent' };

  constructor(name: string, server: PostgresServer) {
    this.name = name;
    this.server = server;
  }

  get port(): number {
    return this.server.port;
  }

  get pid(): number | undefined {
    return this.server.pid;
  }

  get isPaused(): boolean {
    return this.server.isPaused;
  }

  /** Asks the server; one that is paused does not answer. */
  async look(): Promise<void> {
    if (this.pid === undefined) this.state = { type: 'gone' };
    else this.state = (await this.#asked()) ?? { type: this.pid === undefined ? 'gone' : 'silent' };
  }

  async start(): Promise<void> {
    const deadline = performance.now() + GONE_WITHIN_MS;
    for (;;) {
      try {
        await this.server.start();
        return;
      } catch (error) {
        const isHeld = (error as Error).message.includes('shared memory block');
        if (!isHeld || performance.now() > deadline) throw error;
        await elapsed(200);
      }
    }
  }

  async kill(): Promise<void> {
    await this.server.kill();
  }

  async stop(): Promise<void> {
    if (this.isPaused) this.pause(false);
    await this.server.stop();
  }

  pause(isPaused: boolean): void {
    this.server.pause(isPaused);
  }

  /** From its promotion on commits wait for that standby, so that no commit of a new primary has one copy. */
  async waitFor(standby: Database): Promise<void> {
    await this.server.query(`ALTER SYSTEM SET synchronous_standby_names = '${standby.server.name}'`);
    await this.server.query('SELECT pg_reload_conf()');
  }

  async #asked(): Promise<DatabaseState | undefined> {
    const client = new Client({
      connectionString: this.server.url(),
      connectionTimeoutMillis: ANSWERED_WITHIN_MS,
      query_timeout: ANSWERED_WITHIN_MS,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const [row] = (await client.query<Asked>(ASK)).rows;
      if (!row) return undefined;
      if (row.is_standby) return { type: 'standby', isReceiving: row.is_receiving };
      return { type: 'primary', timeline: row.timeline, isSynchronous: row.is_synchronous };
    } catch {
      return undefined;
    } finally {
      // One that is paused would never say goodbye.
      client.end().catch(() => undefined);
    }
  }
}
