/** An office of this process behind a socket, as its daemon would serve it: for whoever asks it from the other side. */
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { DaemonClient } from '../../src/host/local/client.ts';
import { type Handlers, handlersOf } from '../../src/host/local/handlers.ts';
import { LocalServer } from '../../src/host/local/server.ts';
import { temporaryFolder } from './temporary-folder.ts';
import type { WakeOffice } from './wake-office.ts';

const FACTS = { version: '1', pid: 1, startedAtMs: 1, store: '/s', config: '/c', socket: '/d' };
const unasked = (): Promise<never> => Promise.reject(new Error('no test over this socket asks for that'));
const relay = { set: unasked, unset: unasked, status: unasked };
const pairing = { invite: unasked, accept: unasked };
const web = { link: unasked };
const diagnosis = { doctor: unasked, trace: unasked };
const backup = (): AsyncIterable<Buffer> => {
  throw new Error('no test over this socket asks for a backup');
};

export interface SocketOffice {
  server: LocalServer;
  client: DaemonClient;
}

/** Mail, sessions and agents; `changed` may put other handlers in the place of some. Call it inside a test. */
export async function officeAtSocket(
  { office, timers, desk, ring }: WakeOffice,
  changed: (handlers: Handlers) => Partial<Handlers> = () => ({}),
): Promise<SocketOffice> {
  const own = handlersOf({ office, timers, facts: FACTS, pairing, relay, diagnosis, web, sessions: desk, ring });
  const socketPath = join(await temporaryFolder(), 'daemon.sock');
  const handlers = { ...own, ...changed(own) };
  const server = await LocalServer.listen({ socketPath, office, handlers, backup });
  onTestFinished(async () => {
    await server.drain();
    server.close();
  });
  return { server, client: new DaemonClient(socketPath, '/store') };
}
