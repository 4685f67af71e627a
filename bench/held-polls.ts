/**
 * `npm run bench:held-polls`: what one relay needs for hosts that are connected and wait for mail, each with a long poll of
 * its own: memory, and processor time while they wait and while they are asked again. And what it needs for hosts alone.
 * Enrolments are made in this process before the relay starts.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { RelayClient } from '../src/host/relay/relay-client.ts';
import type { PublicKey } from '../src/protocol/public-key.ts';
import { steadyPort } from '../test/support/free-port.ts';
import { Connection } from './connection.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { ROOM } from './shared-load.ts';
import { namedSigner, requestBytes } from './work.ts';

const PROGRAM = new URL('../dist/cli/main.js', import.meta.url).pathname;
const POLLS = [1_000, 5_000, 10_000] as const;
const HOSTS = [0, 10_000, 50_000] as const;
const ENROLLED_AT_ONCE = 500;
const OPENED_AT_ONCE = 50;
const WAIT_SECONDS = 30;
const WATCHED_MS = 5_000;

interface Needed {
  rssMb: number;
  cpuSeconds: number;
}

function needed(pid: number): Needed {
  const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/\(.*\)/, '()')
    .split(' ');
  // Fields 14 and 15 of proc(5), in hundredths of a second.
  return { rssMb: Number(rss) / 1024, cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100 };
}

/** A relay that these hosts are enrolled at. */
async function withRelay(
  keys: readonly PublicKey[],
  work: (relay: { port: number; pid: number; startMs: number }) => Promise<void>,
) {
  const made = await BenchEngine.start(ROOM);
  for (let from = 0; from < keys.length; from += ENROLLED_AT_ONCE)
    await Promise.all(keys.slice(from, from + ENROLLED_AT_ONCE).map((key) => made.enrol(key)));
  await made.close();
  const port = await steadyPort();
  const flags = ['--store-dir', made.folder, '--listen', `127.0.0.1:${port}`, '--admin-listen', 'off', '--json'];
  const room = ['--max-enrolments', '200000', '--max-connections', '12000', '--max-connections-per-address', '12000'];
  const startedMs = performance.now();
  const child = spawn(process.execPath, [PROGRAM, 'relay', 'serve', ...flags, ...room, '--log-level', 'error'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  try {
    await once(child.stdout, 'data');
    await work({ port, pid: child.pid ?? 0, startMs: performance.now() - startedMs });
  } finally {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
    process.off('exit', end);
    made.removeClosed();
  }
}

console.log('a relay by how many hosts are enrolled');
for (const hosts of HOSTS) {
  await withRelay(named(hosts, anyKey), async ({ pid, startMs }) => {
    const { rssMb } = needed(pid);
    console.log(`  ${String(hosts).padStart(6)} hosts: ready after ${startMs.toFixed(0)} ms, ${rssMb.toFixed(0)} MB`);
  });
}
console.log('a relay by how many hosts hold a long poll');
await withRelay(named(POLLS.at(-1) ?? 0, keyOf), async ({ port, pid }) => {
  const before = needed(pid);
  const relayPubkey = (await new RelayClient(optionsOf(port, 'host-0')).info()).relay_pubkey;
  const held: Connection[] = [];
  for (const polls of POLLS) {
    const atStart = needed(pid);
    const had = held.length;
    while (held.length < polls) {
      const names = Array.from(
        { length: Math.min(OPENED_AT_ONCE, polls - held.length) },
        (_n, at) => `host-${held.length + at}`,
      );
      const opened = await Promise.all(
        names.map(async (name) => {
          const connection = await Connection.open(port);
          poll(connection, port, name, relayPubkey);
          return connection;
        }),
      );
      held.push(...opened);
    }
    await elapsed(WATCHED_MS);
    const open = needed(pid);
    await elapsed(WATCHED_MS);
    const after = needed(pid);
    const each = ((open.rssMb - before.rssMb) * 1024) / polls;
    const opening = ((open.cpuSeconds - atStart.cpuSeconds) * 1000) / (polls - had);
    const holding = ((after.cpuSeconds - open.cpuSeconds) * 100_000) / WATCHED_MS;
    console.log(
      `  ${String(polls).padStart(6)} polls: ${after.rssMb.toFixed(0)} MB, ${each.toFixed(1)} KB each; ${opening.toFixed(2)} ms of CPU to begin one; ${holding.toFixed(1)} % of a core while they wait`,
    );
  }
  for (const connection of held) connection.close();
});

function named(hosts: number, key: (name: string) => PublicKey): PublicKey[] {
  return Array.from({ length: hosts }, (_none, at) => key(`host-${at}`));
}

function keyOf(name: string): PublicKey {
  return namedSigner(name).publicKey;
}

/** Asks again whenever the wait is over, as a host does, until the connection is closed. */
function poll(connection: Connection, port: number, name: string, relayPubkey: PublicKey): void {
  const target = `/v2/relay/items?wait=${WAIT_SECONDS}`;
  const headers = new RelayClient(optionsOf(port, name), relayPubkey).hopHeaders('GET', target, '');
  connection.send(requestBytes('GET', target, headers, Buffer.alloc(0))).then(
    () => poll(connection, port, name, relayPubkey),
    () => undefined,
  );
}

function optionsOf(port: number, name: string): ConstructorParameters<typeof RelayClient>[0] {
  return { url: `http://127.0.0.1:${port}`, signer: namedSigner(name), hostName: name, nowMs: Date.now };
}
