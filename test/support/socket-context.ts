/** A host of this process behind a socket, as its daemon would serve it, for callers at the other end of the socket. */
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { softwareVersion } from '../../src/lib/package-root.ts';
import { DaemonClient } from '../../src/host/api/client.ts';
import { type Handlers, handlersOf } from '../../src/host/api/handlers.ts';
import { LocalServer } from '../../src/host/api/server.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { unaskedParts } from './unasked-parts.ts';
import type { WakeContext } from './wake-context.ts';

const unasked = (): Promise<never> => Promise.reject(new Error('no test over this socket asks for that'));
const { health, pairing, relay, relayMove, reach, web } = unaskedParts(unasked);
const backup = (): AsyncIterable<Buffer> => {
  throw new Error('no test over this socket asks for a backup');
};

export interface SocketContext {
  server: LocalServer;
  client: DaemonClient;
  /** The value of POSTE_HOME for commands that ask it. */
  home: string;
}

/** Mail, sessions and agents; `changed` may put other handlers in the place of some. Call it inside a test. */
export async function contextAtSocket(
  { context, timers, sessions, wakeAgent }: WakeContext,
  changed: (handlers: Handlers) => Partial<Handlers> = () => ({}),
  version = softwareVersion(),
): Promise<SocketContext> {
  const own = handlersOf({ context, timers, health, pairing, relay, relayMove, reach, web, sessions, wakeAgent });
  const home = await temporaryFolder();
  const socketPath = join(home, 'daemon.sock');
  const handlers = { ...own, ...changed(own) };
  const server = await LocalServer.listen({ socketPath, context, handlers, version, backup });
  onTestFinished(async () => {
    await server.drain();
    server.close();
  });
  return { server, client: new DaemonClient(socketPath, '/store'), home };
}
