/**
 * Stands before the relays, as a load balancer does: it asks each relay's `/readyz` and sends hosts to the one that
 * answers 200. A process of its own, so that it can be killed as well:
 *
 *     node --import tsx scripts/cluster/proxy.ts <port> <port of a relay>,<port of its operator's listener> ...
 *
 * It tells its parent where it sends hosts, and ends with its parent.
 */
import { type Socket, connect, createServer } from 'node:net';
import { setTimeout as elapsed } from 'node:timers/promises';
import { readiness } from './readiness.ts';

const LOOK_EVERY_MS = 200;
const NOBODY_LEADS =
  'HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';

const [port = '', ...relays] = process.argv.slice(2);
const backends = relays.map((given, index) => {
  const [at = 0, operator = 0] = given.split(',').map(Number);
  return { index, at, operator };
});
let chosen: (typeof backends)[number] | undefined;
const joined = new Set<Socket>();

const server = createServer((client) => {
  client.on('error', () => undefined);
  if (!chosen) {
    // The request is read first, so that the answer is not lost with it.
    client.once('data', () => client.end(NOBODY_LEADS));
    return;
  }
  const relay = connect({ host: '127.0.0.1', port: chosen.at });
  for (const [one, other] of [
    [client, relay],
    [relay, client],
  ] as const) {
    joined.add(one);
    one.on('error', () => undefined);
    one.on('close', () => {
      joined.delete(one);
      other.destroy();
    });
    one.pipe(other);
  }
});
server.listen({ host: '127.0.0.1', port: Number(port) });
process.on('disconnect', () => process.exit(0));

for (;;) {
  const ready = await Promise.all(backends.map(async (one) => (await readiness(one.operator)).type === 'leads'));
  const leading = chosen && ready[chosen.index] ? chosen : backends.find(({ index }) => ready[index]);
  if (leading !== chosen) {
    chosen = leading;
    // A relay that leads no more may be paused, and would answer nobody.
    for (const socket of joined) socket.destroy();
  }
  process.send?.({ index: chosen?.index ?? null });
  await elapsed(LOOK_EVERY_MS);
}
