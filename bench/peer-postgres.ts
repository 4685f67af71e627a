/** A queue table in PostgreSQL: one prepared INSERT for each request, whose commit waits for its record in the log. */
import { execFileSync } from 'node:child_process';
import { Client } from 'pg';
import { startPostgres } from '../test/support/postgres.ts';
import type { Peer, PeerConnection } from './peer.ts';

const SETTINGS = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', shared_buffers: "'128MB'" };
const INSERT = { name: 'push', text: 'INSERT INTO queue (wire) SELECT unnest($1::bytea[])' };

export async function startQueueTable(program: string): Promise<Peer> {
  const { primary, end } = await startPostgres(program, { settings: SETTINGS });
  await primary.query('CREATE TABLE queue (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, wire bytea NOT NULL)');
  return {
    pid: primary.pid ?? 0,
    version: /(\d+\.\d+)/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' }))?.[1] ?? 'unknown',
    syncedBy: 'syncs',
    durability: 'fsync and synchronous_commit on: the log is synced before the answer',
    connect: () => connection(primary.url('postgres')),
    stop: end,
  };
}

async function connection(url: string): Promise<PeerConnection> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return {
    push: async (items) => {
      await client.query({ ...INSERT, values: [items] });
    },
    close: () => client.end(),
  };
}
