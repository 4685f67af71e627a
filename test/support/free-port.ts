/** Ports of 127.0.0.1 that nobody has. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems give to outgoing connections, which nobody can hold for later. */
const PORTS = { from: 20_000, count: 12_000 };

/** A port for a server: no connection is given it before the server listens, and no other test gets it from here. */
export async function freePort(): Promise<number> {
  const port = PORTS.from + Math.floor(Math.random() * PORTS.count);
  return (await reserved(port)) && (await isFree(port)) ? port : freePort();
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

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen({ host: '127.0.0.1', port });
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
