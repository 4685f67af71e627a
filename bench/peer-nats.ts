/**
 * NATS JetStream: a stream in files; a client that publishes without waiting for the answer before. From 2.10 on the
 * server syncs before it answers when `sync_interval` is `always`. Older ones have no such setting: they answer when
 * the system has the bytes. A folder with the attribute S (chattr +S, ext4 and XFS) makes the system itself sync every
 * write to a file in it, so that such a server can be measured as durable too.
 */
import { execFile, execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { freePort } from '../test/support/free-port.ts';
import { type Peer, type PeerConnection, startServer } from './peer.ts';

const STREAM = 'queue';
const SUBJECT = 'queue.items';
const SYNCED_SINCE = [2, 10] as const;

export async function startNats(program: string, isSynced: boolean): Promise<Peer> {
  const port = await freePort();
  const version = /v(\d+\.\d+\.\d+)/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' }))?.[1] ?? '0.0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const canSync = major > SYNCED_SINCE[0] || (major === SYNCED_SINCE[0] && minor >= SYNCED_SINCE[1]);
  const server = await startServer(program, port, async (folder) => {
    if (isSynced && !canSync) await promisify(execFile)('chattr', ['+S', folder]);
    const interval = isSynced && canSync ? 'sync_interval: always' : '';
    const file = join(folder, 'nats.conf');
    await writeFile(file, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${folder}" ${interval} }\n`);
    return ['-c', file, '-l', join(folder, 'log')];
  });
  try {
    const connection = await connect({ servers: `127.0.0.1:${port}` });
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name: STREAM, subjects: [SUBJECT], storage: 'file' });
    await connection.close();
  } catch (error) {
    await server.stop();
    throw error;
  }
  const syncedBy = isSynced && !canSync ? 'writes' : 'syncs';
  const durability = durabilityOf(isSynced, canSync);
  return { ...server, version, durability, syncedBy, connect: () => publisher(port) };
}

function durabilityOf(isSynced: boolean, canSync: boolean): string {
  if (!isSynced) return 'file storage, default sync_interval: answers before anything is synced';
  if (canSync) return 'file storage, sync_interval always: synced before the answer';
  return 'file storage; no sync_interval in this version, so the system syncs each write to its folder (chattr +S)';
}

async function publisher(port: number): Promise<PeerConnection> {
  const connection = await connect({ servers: `127.0.0.1:${port}` });
  const stream = jetstream(connection, { timeout: 60_000 });
  return {
    push: async (items) => {
      await Promise.all(items.map((item) => stream.publish(SUBJECT, item)));
    },
    close: () => connection.close(),
  };
}
