/**
 * `npm run bench:held-polls`: what one relay needs for hosts that are connected and wait for mail, each with a long poll of
 * its own: memory, processor time to begin a poll, and while all of them wait. And how long a relay takes to start, by how
 * many hosts are enrolled and how many items wait. Stores are made in this process before the relay starts.
 */
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { WAIT_SECONDS_MAX } from '../src/protocol/limits.ts';
import type { PublicKey } from '../src/protocol/public-key.ts';
import { steadyPort } from '../test/support/free-port.ts';
import { Connection } from './connection.ts';
import { cpuSecondsOf } from './cpu-seconds.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { quantile } from './figures.ts';
import { ROOM } from './shared-load.ts';
import { namedSigner, requestBytes, sealedEnvelope } from './work.ts';

const PROGRAM = new URL('../dist/cli/main.js', import.meta.url).pathname;
const POLLS = [0, 1_000, 5_000, 10_000] as const;
/** What is stored when a relay starts. */
const STORED = [
  { hosts: 0, items: 0 },
  { hosts: 10_000, items: 0 },
  { hosts: 50_000, items: 0 },
  { hosts: 50_000, items: 200_000 },
] as const;
const STARTS = 5;
const ENROLLED_AT_ONCE = 500;
const ITEMS_FOR_EACH = 4;
const ITEMS_OF_REQUEST = 200;
const REQUESTS_AT_ONCE = 8;
const ITEM_BYTES = 1024;
const OPENED_AT_ONCE = 50;
/** As long as a relay holds one: all of them begin and are watched before the first ends. */
const WAIT_SECONDS = WAIT_SECONDS_MAX;
const SETTLED_MS = 2_000;
const WATCHED_MS = 10_000;

interface Needed {
  rssMb: number;
  cpuSeconds: number;
}

function needed(pid: number): Needed {
  const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return { rssMb: Number(rss) / 1024, cpuSeconds: cpuSecondsOf(pid) };
}

/** A store at which these hosts are enrolled, and in which items wait for them; nothing runs on it. */
async function storeWith(keys: readonly PublicKey[], items: number): Promise<BenchEngine> {
  const made = await BenchEngine.start(ROOM);
  for (let from = 0; from < keys.length; from += ENROLLED_AT_ONCE)
    await Promise.all(keys.slice(from, from + ENROLLED_AT_ONCE).map((key) => made.enrol(key)));
  const wire = sealedEnvelope('item', ITEM_BYTES);
  const request = (first: number): Promise<void> => {
    const pushed = Array.from({ length: Math.min(ITEMS_OF_REQUEST, items - first) }, (_none, at) => {
      const sender = keys[(first + at) % keys.length]!;
      const target = keys[Math.floor((first + at) / ITEMS_FOR_EACH) % keys.length]!;
      return { sender, target, id: `item-${first + at}`, wire };
    });
    return made.push(pushed, Date.now());
  };
  for (let from = 0; from < items; ) {
    const requests: Promise<void>[] = [];
    for (; requests.length < REQUESTS_AT_ONCE && from < items; from += ITEMS_OF_REQUEST) requests.push(request(from));
    await Promise.all(requests);
  }
  await made.engine.heartbeat(Date.now());
  await made.close();
  return made;
}

async function withRelay(
  { folder }: BenchEngine,
  work: (relay: { port: number; pid: number; startMs: number }) => Promise<void>,
): Promise<void> {
  const port = await steadyPort();
  const place = ['--store-dir', folder, '--position-file', join(folder, 'position')];
  const flags = [...place, '--listen', `127.0.0.1:${port}`, '--admin-listen', 'off', '--json'];
  const room = ['--max-enrolments', '200000', '--max-connections', '12000', '--max-connections-per-address', '12000'];
  const startedMs = performance.now();
  const child = spawn(process.execPath, [PROGRAM, 'relay', 'serve', ...flags, ...room, '--log-level', 'error'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  try {
    // It is ready when it says where it listens.
    await once(child.stdout, 'data');
    await work({ port, pid: child.pid ?? 0, startMs: performance.now() - startedMs });
  } finally {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
    process.off('exit', end);
  }
}

console.log(`a relay by what it stores, ${STARTS} starts: medians (least to most)`);
for (const { hosts, items } of STORED) {
  const store = await storeWith(named(hosts, anyKey), items);
  const starts: { readyMs: number; cpuMs: number; rssMb: number }[] = [];
  for (let start = 0; start < STARTS; start++)
    await withRelay(store, async ({ pid, startMs }) => {
      const { cpuSeconds, rssMb } = needed(pid);
      starts.push({ readyMs: startMs, cpuMs: cpuSeconds * 1000, rssMb });
    });
  store.removeClosed();
  const [ready, cpu, rss] = (['readyMs', 'cpuMs', 'rssMb'] as const).map((figure) =>
    spread(starts.map((start) => start[figure])),
  );
  console.log(`  ${hosts} hosts, ${items} items: ready after ${ready} ms, ${cpu} ms of CPU, ${rss} MB`);
}
console.log(`a relay by how many hosts hold a long poll of ${WAIT_SECONDS} s`);
const holding = await storeWith(named(POLLS.at(-1) ?? 0, keyOf), 0);
await withRelay(holding, async ({ port, pid }) => {
  const before = needed(pid);
  const relayPubkey = (await new RelayClient(optionsOf(port, 'host-0')).info()).relay_pubkey;
  for (const polls of POLLS) {
    const atStart = needed(pid);
    const held: Connection[] = [];
    let ended = 0;
    while (held.length < polls) {
      const names = Array.from(
        { length: Math.min(OPENED_AT_ONCE, polls - held.length) },
        (_n, at) => `host-${held.length + at}`,
      );
      const opened = await Promise.all(
        names.map(async (name) => {
          const connection = await Connection.open(port);
          void poll(connection, port, name, relayPubkey).then(() => ended++);
          return connection;
        }),
      );
      held.push(...opened);
    }
    await elapsed(SETTLED_MS);
    const open = needed(pid);
    await elapsed(WATCHED_MS);
    const after = needed(pid);
    const idle = ((after.cpuSeconds - open.cpuSeconds) * 100_000) / WATCHED_MS;
    const endedEarly = ended > 0 ? ` (${ended} of them ended meanwhile: the machine is too busy)` : '';
    const beginning = ((open.cpuSeconds - atStart.cpuSeconds) * 1000) / polls;
    const each = ((open.rssMb - before.rssMb) * 1024) / polls;
    const ofEach = polls === 0 ? '' : `, ${each.toFixed(1)} KB each; ${beginning.toFixed(2)} ms of CPU to begin one`;
    console.log(
      `  ${String(polls).padStart(6)} polls: ${after.rssMb.toFixed(0)} MB${ofEach}; ${idle.toFixed(1)} % of a core while they wait${endedEarly}`,
    );
    for (const connection of held) connection.close();
  }
});
holding.removeClosed();

function spread(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${quantile(values, 0.5).toFixed(0)} (${least.toFixed(0)} to ${most.toFixed(0)})`;
}

function named(hosts: number, key: (name: string) => PublicKey): PublicKey[] {
  return Array.from({ length: hosts }, (_none, at) => key(`host-${at}`));
}

function keyOf(name: string): PublicKey {
  return namedSigner(name).publicKey;
}

/** Resolves when the poll is answered or its connection is closed. */
async function poll(connection: Connection, port: number, name: string, relayPubkey: PublicKey): Promise<void> {
  const target = `/v2/relay/items?wait=${WAIT_SECONDS}`;
  const headers = new RelayClient(optionsOf(port, name), relayPubkey).hopHeaders('GET', target, '');
  await connection.send(requestBytes('GET', target, headers, Buffer.alloc(0))).catch(() => undefined);
}

function optionsOf(port: number, name: string): ConstructorParameters<typeof RelayClient>[0] {
  return { url: `http://127.0.0.1:${port}`, signer: namedSigner(name), hostName: name, nowMs: Date.now };
}
