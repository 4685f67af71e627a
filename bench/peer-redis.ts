/** Redis Streams with an append-only file that is synced before each answer, and a client that pipelines. */
import { execFileSync } from 'node:child_process';
import { type RedisArgument, createClient } from '@redis/client';
import { freePort } from '../test/support/free-port.ts';
import { type Peer, type PeerConnection, startServer } from './peer.ts';

const KEY = 'queue';

export async function startRedis(program: string): Promise<Peer> {
  const port = await freePort();
  const listen = ['--port', String(port), '--bind', '127.0.0.1', '--loglevel', 'warning'];
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''];
  const server = await startServer(program, port, async (folder) => [...listen, ...durable, '--dir', folder]);
  return {
    ...server,
    version: /v=(\S+)/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' }))?.[1] ?? 'unknown',
    syncedBy: 'syncs',
    durability: 'appendonly, appendfsync always: synced before the answer',
    connect: () => connection(port),
  };
}

async function connection(port: number): Promise<PeerConnection> {
  const client = createClient({ socket: { host: '127.0.0.1', port, noDelay: true } });
  client.on('error', (error) => {
    throw error;
  });
  await client.connect();
  return {
    push: async (items) => {
      // What is asked for in one turn goes out as one pipeline.
      await Promise.all(items.map((item) => client.sendCommand<RedisArgument>(['XADD', KEY, '*', 'wire', item])));
    },
    close: async () => client.destroy(),
  };
}
