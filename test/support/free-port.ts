/** Ports of 127.0.0.1 that nobody has. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** Below the ports that systems give to outgoing connections, which nobody can hold for later. */
const STEADY_PORTS = { from: 20_000, count: 12_000 };

export async function freePort(): Promise<number> {
  return (await listened(0)) ?? freePort();
}

/**
 * For a server that goes away and comes again: no connection is given the port meanwhile, nor does another process of
 * the tests get it from here.
 */
export async function steadyPort(): Promise<number> {
  const port = STEADY_PORTS.from + Math.floor(Math.random() * STEADY_PORTS.count);
  const isOurs = await reserved(port);
  return (isOurs ? await listened(port) : undefined) ?? steadyPort();
}

/** A UDP socket on the same number stands for the port until this process ends: no server under test listens on UDP. */
async function reserved(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref();
  try {
    socket.bind({ port, address: '127.0.0.1', exclusive: true });
    await once(socket, 'listening');
    return true;
  } catch {
    socket.close();
    return false;
  }
}

/** The port that was listened at, free again; `undefined` when it is taken. */
async function listened(wanted: number): Promise<number | undefined> {
  const server = createServer().listen({ host: '127.0.0.1', port: wanted });
  try {
    await once(server, 'listening');
  } catch {
    return undefined;
  }
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
