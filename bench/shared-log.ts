/**
 * `npm run bench:shared-log`: what a log in PostgreSQL costs beside the embedded one, in one run on one machine, and how
 * fast another relay takes over. It starts PostgreSQL servers and relays of its own. Names of cells run these alone:
 *
 *   npm run bench:shared-log -- push full-table --rounds 5
 *   npm run bench:shared-log -- open-transaction --minutes 10
 *
 * Compare within a round: primary, standby and relay share the machine and its disk. Processor time says what something
 * costs whatever else the machine does.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as elapsed } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { type PostgresServer, startPostgres } from '../test/support/postgres.ts';
import { POSTGRES, findProgram } from '../test/support/programs.ts';
import type { Durability } from '../src/relay/shared-log/durability.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { quantile } from './figures.ts';
import { type Load, type Loaded, ROOM, loaded } from './shared-load.ts';
import { printTakeovers } from './shared-relays.ts';
import { printRequests } from './shared-push.ts';
import { type SharedStore, sharedStore } from './shared-store.ts';

const CELLS = [
  'push',
  'requests',
  'full-table',
  'open-transaction',
  'steady',
  'follower',
  'takeover',
  'hosts',
] as const;
const PUSHED = { items: 16_000, acks: false };
const WARM = { items: 8_000, acks: false };
const TABLE_ROWS = 200_000;
const LAG_SAMPLED_MS = 250;

const { values: asked, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    minutes: { type: 'string', default: '1' },
    hosts: { type: 'string', default: '50000' },
  },
});
const rounds = Number(asked.rounds);
const seconds = Number(asked.minutes) * 60;

type Opening = (given: Given) => Promise<SharedStore | undefined>;

interface Given {
  primary: PostgresServer;
  standbyName: string;
}

const LOGS: Readonly<Record<string, Opening>> = {
  embedded: async () => undefined,
  'PostgreSQL alone': async ({ primary }) => {
    await primary.synchronousWith('');
    return sharedStore(primary, 'single');
  },
  'with a synchronous standby': replicated,
};

async function replicated({ primary, standbyName }: Given): Promise<SharedStore> {
  await primary.synchronousWith(standbyName);
  return sharedStore(primary, 'standby');
}

async function withRelay<T>(opened: SharedStore | undefined, work: (relay: BenchEngine) => Promise<T>): Promise<T> {
  const relay = await BenchEngine.start(ROOM, opened && { store: opened.store });
  try {
    return await work(relay);
  } finally {
    await relay.engine.close();
    await (opened ? opened.close() : relay.store.close());
    relay.removeClosed();
  }
}

function print(name: string, { itemsPerS, p50Ms, p99Ms, cpuUs }: Loaded, ratio?: number): void {
  const rate = `${itemsPerS.toFixed(0).padStart(7)} items/s  ${ratio === undefined ? '    ' : ratio.toFixed(2)}`;
  const cpu = `cpu an item: relay ${cpuUs.process.toFixed(0)} us (loop ${cpuUs.loop.toFixed(0)}), PostgreSQL ${cpuUs.children.toFixed(0)}`;
  console.log(`  ${name.padEnd(28)}${rate}  p50 ${p50Ms.toFixed(0)} ms  p99 ${p99Ms.toFixed(0)} ms  ${cpu}`);
}

/** Each log in each round, the first one another each time: what the machine does beside falls on all of them. */
async function push(given: Given, load: Load): Promise<void> {
  const names = Object.keys(LOGS);
  const ratios: Record<string, number[]> = {};
  for (const open of Object.values(LOGS)) await withRelay(await open(given), (relay) => loaded(relay, WARM));
  for (let round = 0; round < rounds; round++) {
    const found: Record<string, Loaded> = {};
    for (const at of names.keys()) {
      const name = names[(at + round) % names.length] ?? '';
      const opened = await LOGS[name]?.(given);
      found[name] = await withRelay(opened, (relay) => loaded(relay, load));
    }
    for (const name of names) {
      const ratio = (found[name]?.itemsPerS ?? 0) / (found['embedded']?.itemsPerS ?? 1);
      (ratios[name] ??= []).push(ratio);
      if (found[name]) print(name, found[name], ratio);
    }
  }
  for (const name of names) console.log(`  ${name.padEnd(28)} of embedded: ${spread(ratios[name] ?? [])}`);
}

/** What hosts see: the same work in relays of their own, of which the log is a part. */
async function requests({ primary, standbyName }: Given): Promise<void> {
  const flagsOf = async (durability: Durability, names: string): Promise<readonly string[]> => {
    await primary.synchronousWith(names);
    // A database of its own: the relay that led before ended a moment ago.
    return ['--log', primary.url(await primary.newDatabase()), '--durability', durability, '--accept-settings'];
  };
  const logs = {
    embedded: async () => [],
    'PostgreSQL alone': () => flagsOf('single', ''),
    'with a synchronous standby': () => flagsOf('standby', standbyName),
  };
  await printRequests(logs, rounds);
}

/** Statistics of the empty table are what PostgreSQL plans with until it analyses again. */
async function fullTable(given: Given): Promise<void> {
  for (const rows of [0, TABLE_ROWS]) {
    const opened = await replicated(given);
    const client = await connected(opened.url);
    await client.query('ALTER TABLE payload SET (autovacuum_enabled = false)');
    await client.query('ANALYZE payload');
    await client.query(
      `INSERT INTO payload SELECT log_id, sha256(n::text::bytea), n, convert_to(repeat('x', 1024), 'UTF8')
       FROM relay_log, generate_series(1, $1::int) AS n`,
      [rows],
    );
    await client.end();
    const figures = await withRelay(opened, (relay) => loaded(relay, { items: 32_000, acks: true }));
    print(`payload rows: ${rows}`, figures);
  }
}

/** Something reads in one transaction all the time: nothing that is deleted meanwhile can be given back. */
async function openTransaction(given: Given): Promise<void> {
  for (const isOpen of [false, true]) {
    const opened = await replicated(given);
    const client = await connected(opened.url);
    if (isOpen) await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT count(*) FROM payload');
    const figures = await withRelay(opened, (relay) =>
      loaded(relay, { seconds: isOpen ? seconds : seconds / 4, acks: true }),
    );
    print(isOpen ? `open for ${(seconds / 60).toFixed(1)} minutes` : 'none open', figures);
    console.log(`    by tenths of the time: ${figures.tenths.map((rate) => rate.toFixed(0)).join(' ')} items/s`);
    await client.end();
  }
}

/** Pushes and acks with autovacuum at work: the tables must not grow with what was deleted from them. */
async function steady(given: Given): Promise<void> {
  const opened = await replicated(given);
  const client = await connected(opened.url);
  const bytes = async (): Promise<number> => {
    const { rows } = await client.query<{ bytes: string }>("SELECT pg_total_relation_size('payload') AS bytes");
    return Number(rows[0]?.bytes) / 1e6;
  };
  const sizes: number[] = [];
  await withRelay(opened, async (relay) => {
    for (let part = 0; part < 4; part++) {
      print(`part ${part + 1} of 4`, await loaded(relay, { seconds: seconds / 4, acks: true }));
      sizes.push(await bytes());
    }
  });
  await client.end();
  console.log(`    the payload table after each: ${sizes.map((mb) => mb.toFixed(0)).join(' ')} MB`);
}

async function follower(given: Given): Promise<void> {
  await given.primary.synchronousWith(given.standbyName);
  /** The last batches that the two hold. */
  const at = { leader: 0, follower: 0 };
  const opened = await sharedStore(given.primary, 'standby', (no) => (at.leader = no));
  const child = fork(new URL('shared-follower.ts', import.meta.url), [opened.url]);
  child.on('message', (no: number) => (at.follower = no));
  const lags: number[] = [];
  await withRelay(opened, async (relay) => {
    await relay.enrol(anyKey('warm'));
    while (at.follower === 0) await elapsed(LAG_SAMPLED_MS);
    const sampling = setInterval(() => lags.push(at.leader - at.follower), LAG_SAMPLED_MS);
    const figures = await loaded(relay, { seconds: seconds / 2, acks: false });
    clearInterval(sampling);
    print('the leader, beside it', figures);
    const endMs = performance.now();
    while (at.follower < at.leader - 1) await elapsed(LAG_SAMPLED_MS / 10);
    const caughtMs = performance.now() - endMs;
    const thirds = [0, 1, 2].map((third) =>
      quantile(lags.slice((lags.length * third) / 3, (lags.length * (third + 1)) / 3), 0.5),
    );
    console.log(
      `    of ${at.leader} batches it lacked, by thirds of the time: ${thirds.join(', ')}; at most ${Math.max(...lags)}; at the end of the load it had all after ${caughtMs.toFixed(0)} ms`,
    );
  });
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
}

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
}

function spread(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${quantile(values, 0.5).toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`;
}

const TITLES: Readonly<Record<(typeof CELLS)[number], [title: string, run: (given: Given) => Promise<void>]>> = {
  push: ['push, 200 x 1 KiB a request, four lanes', (given) => push(given, PUSHED)],
  requests: [
    'batch push through HTTP, with hops and receipts, 200 x 1 KiB a request, four connections',
    (given) => requests(given),
  ],
  'full-table': ['push and ack, payload table analysed empty', fullTable],
  'open-transaction': ['push and ack beside an open transaction', openTransaction],
  steady: ['push and ack, autovacuum at work', steady],
  follower: ['a relay that follows a leader at full load', follower],
  takeover: ['another relay takes over', (given) => printTakeovers({ ...given, hosts: 0, runs: 5, leases: [6, 2] })],
  hosts: [
    `another relay takes over with ${asked.hosts} hosts`,
    (given) => printTakeovers({ ...given, hosts: Number(asked.hosts), runs: 3, leases: [6] }),
  ],
};

const program = findProgram(POSTGRES);
if (program === undefined) throw new Error(`this benchmark needs ${POSTGRES.title} (${POSTGRES.install})`);
const { primary, end } = await startPostgres(program);
try {
  const standby = await primary.standby('second');
  for (const cell of CELLS) {
    if (positionals.length > 0 && !positionals.includes(cell)) continue;
    const [title, run] = TITLES[cell];
    console.log(title);
    await run({ primary, standbyName: standby.name });
  }
} finally {
  await end();
}
