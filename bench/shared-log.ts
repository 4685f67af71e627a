/**
 * `npm run bench:shared-log`: what a log in PostgreSQL costs beside the embedded one, in one run on one machine. The
 * engine alone, without HTTP: push, decide, reduce, commit, answer. It starts PostgreSQL servers of its own.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemTimers } from '../src/lib/clock.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../src/protocol/epoch.ts';
import { LEASE_MS } from '../src/relay/shared-log/leadership.ts';
import { logEndpoints } from '../src/relay/shared-log/log-address.ts';
import { joinLog } from '../src/relay/shared-log/node.ts';
import type { Durability } from '../src/relay/shared-log/durability.ts';
import { PostgresLog } from '../src/relay/shared-log/postgres-log.ts';
import type { RelayStore } from '../src/relay/store/relay-store.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres.ts';
import { POSTGRES, findProgram } from '../test/support/programs.ts';
import { BenchEngine, type BenchItem, anyKey } from './engine.ts';
import { namedSigner, sealedEnvelope } from './work.ts';

const ROUNDS = 3;
const LANES = 4;
const ITEMS_A_REQUEST = 200;
const REQUESTS = 80;
const ITEM_BYTES = 1024;
const ROOM = { max_queue_items: 1e6, max_queue_bytes: 4e9, max_sender_items: 1e6, max_sender_bytes: 4e9 };
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

interface Opened {
  store: RelayStore;
  close: () => Promise<void>;
}

async function sharedStore(server: PostgresServer, durability: Durability): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const log = new PostgresLog({ endpoints: logEndpoints(server.url(await server.newDatabase())), durability });
  const node = await joinLog({
    log,
    durability,
    leaseMs: LEASE_MS,
    acceptsSettings: false,
    folder,
    signer: namedSigner('relay'),
    settings: {},
    clock: systemClock,
    timers: systemTimers,
    newEpoch: () => epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES)),
    logger: QUIET,
    signal: new AbortController().signal,
    onLost: fail,
    onDoubt: () => undefined,
    onStalled: () => undefined,
  });
  if (!node) throw new Error('the benchmark does not lead');
  const close = async (): Promise<void> => {
    await node.close();
    await rm(folder, { recursive: true });
  };
  return { store: node.store, close };
}

function fail(error: Error): never {
  throw error;
}

interface Pushed {
  itemsPerS: number;
  p50Ms: number;
  p99Ms: number;
}

async function pushed(relay: BenchEngine): Promise<Pushed> {
  const hosts = Array.from({ length: LANES * 2 }, (_none, at) => anyKey(`host-${at}`));
  for (const host of hosts) await relay.enrol(host);
  const requests = Array.from({ length: LANES }, (_lane, lane) =>
    Array.from({ length: REQUESTS / LANES }, () =>
      Array.from({ length: ITEMS_A_REQUEST }, (): BenchItem => {
        const id = randomBytes(13).toString('hex');
        const wire = sealedEnvelope(id, ITEM_BYTES);
        return { sender: hosts[lane]!, target: hosts[LANES + lane]!, id, wire };
      }),
    ),
  );
  const times: number[] = [];
  const began = performance.now();
  await Promise.all(
    requests.map(async (lane) => {
      for (const items of lane) {
        const sent = performance.now();
        await relay.push(items, Date.now());
        times.push(performance.now() - sent);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor((times.length - 1) * share)] ?? 0;
  return { itemsPerS: (REQUESTS * ITEMS_A_REQUEST) / seconds, p50Ms: at(0.5), p99Ms: at(0.99) };
}

const program = findProgram(POSTGRES);
if (program === undefined) throw new Error(`this benchmark needs ${POSTGRES.title} (${POSTGRES.install})`);
const { primary, end } = await startPostgres(program);
try {
  const standby = await primary.standby('second');
  const cases: Readonly<Record<string, () => Promise<Opened | undefined>>> = {
    embedded: async () => undefined,
    'PostgreSQL alone': async () => {
      await primary.synchronousWith('');
      return sharedStore(primary, 'single');
    },
    'with a synchronous standby': async () => {
      await primary.synchronousWith(standby.name);
      return sharedStore(primary, 'standby');
    },
  };
  for (let round = 0; round < ROUNDS; round++) {
    let embedded = 0;
    for (const [name, open] of Object.entries(cases)) {
      const opened = await open();
      const relay = await BenchEngine.start(ROOM, opened?.store);
      const { itemsPerS, p50Ms, p99Ms } = await pushed(relay);
      await relay.engine.close();
      await (opened ? opened.close() : relay.store.close());
      relay.removeClosed();
      embedded ||= itemsPerS;
      console.log(
        `${name.padEnd(28)}${itemsPerS.toFixed(0).padStart(7)} items/s  ${(itemsPerS / embedded).toFixed(2)}  p50 ${p50Ms.toFixed(0)} ms  p99 ${p99Ms.toFixed(0)} ms`,
      );
    }
  }
} finally {
  await end();
}
