/**
 * Cells of a log in PostgreSQL: what it costs beside the embedded one, in one run on one machine, and how fast another
 * relay takes over. They start PostgreSQL servers and relays of their own.
 *
 * Compare within a round: primary, standby and relay share the machine and its disk. Processor time says what something
 * costs whatever else the machine does.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as elapsed } from 'node:timers/promises';
import { Client } from 'pg';
import { eventually } from '../test/support/eventually.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres.ts';
import { POSTGRES, findProgram } from '../test/support/programs.ts';
import type { Durability } from '../src/relay/shared-log/durability.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { byTurns, quantile } from './figures.ts';
import { push } from './push.ts';
import { RELAY_KEY, startBenchRelay } from './relay-process.ts';
import type { Figure } from './report.ts';
import { type Load, type Loaded, loaded } from './shared-load.ts';
import { takeovers } from './shared-relays.ts';
import { type SharedStore, sharedStore } from './shared-store.ts';

const PUSHED = { items: 16_000, acks: false };
const WARM = { items: 8_000, acks: false };
const TABLE_ROWS = 200_000;
const LAG_SAMPLED_MS = 250;
const HTTP_LOAD = { connections: 4, requestsPerConnection: 60, itemsPerRequest: 200, itemBytes: 1024 };
const HTTP_WARM = { ...HTTP_LOAD, requestsPerConnection: 20 };
const HTTP_ITEMS = HTTP_LOAD.connections * HTTP_LOAD.requestsPerConnection * HTTP_LOAD.itemsPerRequest;

export interface SharedGiven {
  primary: PostgresServer;
  standbyName: string;
  rounds: number;
  seconds: number;
  /** Enrolled before, where a takeover is tried with many. */
  hosts: number;
}

export type SharedCell = readonly [title: string, run: (given: SharedGiven) => Promise<Figure[]>];

/** Runs the cell on a primary and a standby of its own. */
export async function onPostgres(
  run: SharedCell[1],
  given: Omit<SharedGiven, 'primary' | 'standbyName'>,
): Promise<Figure[]> {
  const program = findProgram(POSTGRES);
  if (program === undefined) throw new Error(`this benchmark needs ${POSTGRES.title} (${POSTGRES.install})`);
  const { primary, end } = await startPostgres(program);
  try {
    const standby = await primary.standby('second');
    return await run({ ...given, primary, standbyName: standby.name });
  } finally {
    await end();
  }
}

const LOGS = ['embedded', 'PostgreSQL alone', 'with a synchronous standby'] as const;
type Log = (typeof LOGS)[number];

/** Sets the servers up; answers the durability of that log, and nothing for an embedded one. */
async function durabilityOf(log: Log, { primary, standbyName }: SharedGiven): Promise<Durability | undefined> {
  if (log === 'embedded') return undefined;
  const isAlone = log === 'PostgreSQL alone';
  await primary.synchronousWith(isAlone ? '' : standbyName);
  return isAlone ? 'single' : 'standby';
}

async function replicated(given: SharedGiven): Promise<SharedStore> {
  await given.primary.synchronousWith(given.standbyName);
  return sharedStore(given.primary, 'standby');
}

async function withRelay<T>(opened: SharedStore | undefined, work: (relay: BenchEngine) => Promise<T>): Promise<T> {
  const relay = await BenchEngine.start(opened && { store: opened.store });
  try {
    return await work(relay);
  } finally {
    await relay.engine.close();
    await (opened ? opened.close() : relay.store.close());
    relay.removeClosed();
  }
}

/** The figures of one load in all rounds. */
function loadFigures(name: string, rounds: readonly Loaded[]): Figure[] {
  const less = (what: string, unit: 'ms' | 'us', of: (one: Loaded) => number): Figure => {
    return { name: `${name}: ${what}`, unit, better: 'less', values: rounds.map(of) };
  };
  return [
    { name, unit: 'items/s', better: 'more', values: rounds.map(({ itemsPerS }) => itemsPerS) },
    less('a request, p50', 'ms', ({ p50Ms }) => p50Ms),
    less('a request, p99', 'ms', ({ p99Ms }) => p99Ms),
    less('processor time of the relay, an item', 'us', ({ cpuUs }) => cpuUs.process),
    less('of its loop', 'us', ({ cpuUs }) => cpuUs.loop),
    less('of PostgreSQL', 'us', ({ cpuUs }) => cpuUs.children),
  ];
}

/** The rates of each log as parts of those of the embedded one in the same rounds. */
function ofEmbedded(rates: ReadonlyMap<Log, readonly number[]>): Figure[] {
  const embedded = rates.get('embedded') ?? [];
  return [...rates].flatMap(([name, values]): Figure[] => {
    if (name === 'embedded') return [];
    const ratios = values.map((rate, round) => rate / (embedded[round] ?? Number.NaN));
    return [{ name: `${name} / embedded`, unit: 'ratio', better: 'more', values: ratios }];
  });
}

async function pushes(given: SharedGiven): Promise<Figure[]> {
  const run = async (log: Log, load: Load): Promise<Loaded> => {
    const durability = await durabilityOf(log, given);
    return withRelay(durability && (await sharedStore(given.primary, durability)), (relay) => loaded(relay, load));
  };
  for (const log of LOGS) await run(log, WARM);
  const found = await byTurns(given.rounds, LOGS, (log) => run(log, PUSHED));
  const rates = new Map([...found].map(([log, all]) => [log, all.map(({ itemsPerS }) => itemsPerS)] as const));
  return [...[...found].flatMap(([log, all]) => loadFigures(log, all)), ...ofEmbedded(rates)];
}

/** Returns what hosts see: the same work in relays of their own, with hops and receipts, of which the log is a part. */
async function requests(given: SharedGiven): Promise<Figure[]> {
  const { primary } = given;
  const rates = await byTurns(given.rounds, LOGS, async (log) => {
    const durability = await durabilityOf(log, given);
    // A database of its own: the relay that led before ended a moment ago.
    const url = durability && primary.url(await primary.newDatabase());
    const args = url === undefined ? [] : ['--log', url, '--durability', durability ?? '', '--accept-settings'];
    const relay = await startBenchRelay({ args, environment: { MAIL_RELAY_KEY: RELAY_KEY } });
    try {
      const info = `http://127.0.0.1:${relay.port}/v2/relay/info`;
      const leads = await eventually(
        async () => (await fetch(info)).status === 200,
        (is) => is,
      );
      if (!leads) throw new Error('the relay did not take the lead');
      // Code that was never run yet would count for one log more than for another.
      await push({ relay, ...HTTP_WARM });
      return HTTP_ITEMS / (await push({ relay, ...HTTP_LOAD })).seconds;
    } finally {
      await relay.stop();
    }
  });
  const each = [...rates].map(([name, values]): Figure => ({ name, unit: 'items/s', better: 'more', values }));
  return [...each, ...ofEmbedded(rates)];
}

/** Statistics of the empty table are what PostgreSQL plans with until it analyses again. */
async function fullTable(given: SharedGiven): Promise<Figure[]> {
  const figures: Figure[] = [];
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
    const found = await withRelay(opened, (relay) => loaded(relay, { items: 32_000, acks: true }));
    figures.push(...loadFigures(`payload rows: ${rows}`, [found]));
  }
  return figures;
}

/** Something reads in one transaction all the time: nothing that is deleted meanwhile can be given back. */
async function openTransaction(given: SharedGiven): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const isOpen of [false, true]) {
    const opened = await replicated(given);
    const client = await connected(opened.url);
    if (isOpen) await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT count(*) FROM payload');
    const seconds = isOpen ? given.seconds : given.seconds / 4;
    const found = await withRelay(opened, (relay) => loaded(relay, { seconds, acks: true }));
    const [rate, ...others] = loadFigures(isOpen ? 'beside it' : 'without it', [found]);
    const tenths = found.tenths.map((one) => one.toFixed(0)).join(' ');
    const note = `by tenths of ${(seconds / 60).toFixed(1)} minutes: ${tenths}`;
    figures.push({ ...rate!, note }, ...others);
    await client.end();
  }
  return figures;
}

/** Pushes and acks with autovacuum at work: the tables must not grow with what was deleted from them. */
async function steady(given: SharedGiven): Promise<Figure[]> {
  const opened = await replicated(given);
  const client = await connected(opened.url);
  const parts: Loaded[] = [];
  const values: number[] = [];
  await withRelay(opened, async (relay) => {
    for (let part = 0; part < 4; part++) {
      parts.push(await loaded(relay, { seconds: given.seconds / 4, acks: true }));
      const { rows } = await client.query<{ bytes: string }>("SELECT pg_total_relation_size('payload') AS bytes");
      values.push(Number(rows[0]?.bytes) / 1e6);
    }
  });
  await client.end();
  const note = `after each fourth of the time: ${values.map((mb) => mb.toFixed(0)).join(' ')}`;
  return [
    ...loadFigures('each fourth of the time', parts),
    { name: 'the payload table', unit: 'MB', better: 'less', values, note },
  ];
}

async function follower(given: SharedGiven): Promise<Figure[]> {
  await given.primary.synchronousWith(given.standbyName);
  /** The last batches that the two hold. */
  const at = { leader: 0, follower: 0 };
  const opened = await sharedStore(given.primary, 'standby', (no) => (at.leader = no));
  const child = fork(new URL('shared-follower.ts', import.meta.url), [opened.url]);
  child.on('message', (no: number) => (at.follower = no));
  const lags: number[] = [];
  const figures = await withRelay(opened, async (relay) => {
    await relay.enrol(anyKey('warm'));
    while (at.follower === 0) await elapsed(LAG_SAMPLED_MS);
    const sampling = setInterval(() => lags.push(at.leader - at.follower), LAG_SAMPLED_MS);
    const found = await loaded(relay, { seconds: given.seconds / 2, acks: false });
    clearInterval(sampling);
    const endMs = performance.now();
    while (at.follower < at.leader - 1) await elapsed(LAG_SAMPLED_MS / 10);
    const caughtMs = performance.now() - endMs;
    const thirds = [0, 1, 2].map((third) =>
      quantile(lags.slice((lags.length * third) / 3, (lags.length * (third + 1)) / 3), 0.5),
    );
    const note =
      `of ${at.leader} batches it lacked, by thirds of the time, ` +
      `${thirds.join(', ')}; at most ${Math.max(...lags)}`;
    const caught: Figure = { name: 'it has all after the load', unit: 'ms', better: 'less', values: [caughtMs], note };
    return [...loadFigures('the leader, beside it', [found]), caught];
  });
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
  return figures;
}

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
}

const LOAD = '200 x 1 KiB a request';
export const SHARED_CELLS: Readonly<Record<string, SharedCell>> = {
  'shared-log-push': [`push, ${LOAD}, four lanes`, pushes],
  'shared-log-requests': [`push through HTTP, with hops and receipts, ${LOAD}, four connections`, requests],
  'shared-log-full-table': ['push and ack, payload table analysed empty', fullTable],
  'shared-log-open-transaction': ['push and ack beside an open transaction', openTransaction],
  'shared-log-steady': ['push and ack, autovacuum at work', steady],
  'shared-log-follower': ['a relay that follows a leader at full load', follower],
  'shared-log-takeover': [
    'another relay takes over',
    (given) => takeovers({ ...given, hosts: 0, runs: 5, leases: [6, 2] }),
  ],
  'shared-log-hosts': [
    'another relay takes over, with many hosts',
    (given) => takeovers({ ...given, runs: 3, leases: [6] }),
  ],
};
