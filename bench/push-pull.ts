/**
 * Cells of pushes and pulls: what the relay does of each, beside a program that does only what cannot be left out, with
 * the processor time of both.
 */
import { costOf } from './cpu.ts';
import { NAMED_THREADS } from './cpu-seconds.ts';
import { type Timing, quantile } from './figures.ts';
import { startFloor } from './floor.ts';
import { pull } from './pull.ts';
import { pushElsewhere } from './push-elsewhere.ts';
import { type PushLoad, type PushTarget, push, pushPaced } from './push.ts';
import { type BenchRelay, memoryMb, startBenchRelay } from './relay-process.ts';
import { type Figure, less, more } from './report.ts';

const CONNECTIONS = 4;
const BATCH = { name: 'push', connections: CONNECTIONS, itemsPerRequest: 200, itemBytes: 1024, warm: 15 };
const SINGLE = { name: 'push', connections: 64, itemsPerRequest: 1, itemBytes: 1024, warm: 80 };
const SINGLE_REQUESTS_PER_CONNECTION = 150;
/** The part of the rate that the same round reached. */
const HALF = 0.5;

/** Full pages: of 8 MiB, or of 500 items. */
const PAGES = [
  { kib: 64, items: 128, itemsPerRequest: 10, requestsPerConnection: 14, pages: 24, goals: [500, 0.6] },
  { kib: 16, items: 500, itemsPerRequest: 20, requestsPerConnection: 26, pages: 24, goals: [500, 0.6] },
  { kib: 1, items: 500, itemsPerRequest: 200, requestsPerConnection: 3, pages: 120, goals: [200, 0.3] },
] as const;

/** The cells of processor time leave out the floor, and what is measured at half load. */
export interface Depth {
  isWhole: boolean;
}

type Server = PushTarget & Pick<BenchRelay, 'pid' | 'stop'>;

/** Pushes of so many items, each with a signed receipt. */
export async function batchPush(items: number, { isWhole }: Depth): Promise<Figure[]> {
  const load = { ...BATCH, requestsPerConnection: items / BATCH.itemsPerRequest / CONNECTIONS };
  const floor = isWhole
    ? await on(startFloor(), (server) => pushed(server, { ...load, name: 'push: floor server' }))
    : undefined;
  const pushes = await on(relayProcess(), (relay) => pushed(relay, { ...load, cpuGoal: 65 }));
  return [
    ...beside('items/s', pushes, floor, { ratio: 0.75 }),
    ...tookMs('a request', pushes.timing),
    less('peak RSS', 'MB', pushes.peakMb, 200),
  ];
}

/** Pushes of one item each: as fast as they are answered, and then at half of that rate, whatever is answered. */
export async function singlePush({ isWhole }: Depth): Promise<Figure[]> {
  const load = { ...SINGLE, requestsPerConnection: SINGLE_REQUESTS_PER_CONNECTION };
  const floor = isWhole
    ? await on(startFloor(), (server) => pushed(server, { ...load, name: 'push: floor server' }))
    : undefined;
  return on(relayProcess(), async (relay) => {
    const pushes = await pushed(relay, load);
    const figures = [
      ...beside('requests/s', pushes, floor, { rate: 6000, ratio: 0.6 }),
      ...tookMs('a request', pushes.timing),
    ];
    // The same relay, whose code V8 has compiled by now.
    const half = isWhole ? await pushPaced({ relay, ...load }, pushes.perS * HALF) : undefined;
    return [...figures, ...(half ? tookMs('at half of that rate', half, 25) : [])];
  });
}

/** Full pages that have been pulled before. */
export async function pages({ isWhole }: Depth): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { kib, goals, ...page } of PAGES) {
    const load = { ...page, name: `${page.items} x ${kib} KiB`, itemBytes: kib * 1024 };
    const floor = isWhole
      ? await on(startFloor(), (server) => pulled(server, { ...load, name: `${load.name}: bare store` }))
      : undefined;
    const pulls = await on(relayProcess(), (relay) => pulled(relay, load));
    figures.push(
      ...beside('MB/s', pulls, floor, { rate: goals[0], ratio: goals[1] }),
      ...tookMs(`${load.name}, a page`, pulls.timing),
      less(`${load.name}, peak RSS`, 'MB', pulls.peakMb, 200),
    );
  }
  return figures;
}

/** What was asked of one server. */
interface Asked {
  name: string;
  /** Items, requests or MB a second. */
  perS: number;
  timing: Timing;
  peakMb: number;
  cpu: Figure[];
}

/** A relay runs for days: what it does in the first seconds is not what is measured. */
async function pushed(
  relay: Server,
  { name, warm, cpuGoal, ...load }: Omit<PushLoad, 'relay'> & { name: string; warm: number; cpuGoal?: number },
): Promise<Asked> {
  await push({ relay, ...load, requestsPerConnection: warm });
  const cost = costOf(relay.pid);
  const timing = await push({ relay, ...load }, cost.begin);
  const items = load.connections * load.requestsPerConnection * load.itemsPerRequest;
  const cpu = cost.figures(`${name}, an item`, items, cpuGoal);
  return { name, perS: items / timing.seconds, timing, peakMb: memoryMb(relay.pid, 'VmHWM'), cpu };
}

async function pulled(
  relay: Server,
  {
    name,
    items,
    pages: perConnection,
    ...pushing
  }: Omit<PushLoad, 'relay' | 'connections'> & {
    name: string;
    items: number;
    pages: number;
  },
): Promise<Asked> {
  const load = { relay, connections: CONNECTIONS, pagesPerConnection: perConnection };
  await pushElsewhere({ relay, connections: CONNECTIONS, ...pushing });
  await pull(load);
  const cost = costOf(relay.pid);
  cost.begin();
  const timing = await pull(load);
  if (timing.pageBytes < items * pushing.itemBytes) throw new Error(`a page had ${timing.pageBytes} bytes`);
  const mb = (CONNECTIONS * perConnection * items * pushing.itemBytes) / 1e6;
  const cpu = cost.figures(`${name}, a MB`, mb);
  return { name, perS: mb / timing.seconds, timing, peakMb: memoryMb(relay.pid, 'VmHWM'), cpu };
}

/** The rates of both, what one is of the other, and the processor time of both. */
function beside(
  unit: Figure['unit'],
  asked: Asked,
  floor: Asked | undefined,
  goal: { rate?: number; ratio: number },
): Figure[] {
  const rate = more(asked.name, unit, asked.perS, goal.rate);
  if (!floor) return [rate, ...asked.cpu];
  return [
    rate,
    more(floor.name, unit, floor.perS),
    more(floor.name.replace(': ', ' / '), 'ratio', asked.perS / floor.perS, goal.ratio),
    ...asked.cpu,
    ...floor.cpu,
  ];
}

function relayProcess(): Promise<BenchRelay> {
  return startBenchRelay({ environment: NAMED_THREADS });
}

async function on<S extends { stop: () => Promise<void> }, T>(
  started: Promise<S>,
  work: (server: S) => Promise<T>,
): Promise<T> {
  const server = await started;
  try {
    return await work(server);
  } finally {
    await server.stop();
  }
}

function tookMs(name: string, { latenciesMs }: Timing, p99Goal?: number): Figure[] {
  const took = (q: number): number => quantile(latenciesMs, q);
  return [less(`${name}, p50`, 'ms', took(0.5)), less(`${name}, p99`, 'ms', took(0.99), p99Goal)];
}
