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
import { type PushLoad, type PushTarget, formAt, push, pushPaced } from './push.ts';
import { type BenchRelay, memoryMb, startBenchRelay } from './relay-process.ts';
import { type Figure, less, more } from './report.ts';
import type { Form } from './work.ts';

const CONNECTIONS = 4;
const BATCH = { connections: CONNECTIONS, itemsPerRequest: 200, itemBytes: 1024, warm: 15 };
const SINGLE = {
  name: 'push',
  connections: 64,
  requestsPerConnection: 150,
  itemsPerRequest: 1,
  itemBytes: 1024,
  warm: 80,
};
/** The part of the rate that the same round reached. */
const HALF = 0.5;

/** With what is to be reached: processor time of an item, and items a second. */
const PUSH_FORMS = [
  ['JSON', '', 65, 22_000],
  ['tree', ', one signature', undefined, undefined],
  ['binary', ', binary', 45, 30_000],
] as const;

/** Full pages: of 8 MiB, or of 500 items. */
const PAGES = [
  { kib: 64, items: 128, itemsPerRequest: 10, requestsPerConnection: 14, pages: 24, goals: [500, 0.5] },
  { kib: 16, items: 500, itemsPerRequest: 20, requestsPerConnection: 26, pages: 24, goals: [500, 0.5] },
  { kib: 1, items: 500, itemsPerRequest: 200, requestsPerConnection: 3, pages: 120, goals: [200, 0.5] },
] as const;

type Page = Omit<(typeof PAGES)[number], 'goals'>;

/** The cells of processor time leave out the floor, and what is measured at half load. */
export interface Depth {
  isWhole: boolean;
}

type Server = PushTarget & Pick<BenchRelay, 'pid' | 'stop'>;

/** Pushes of so many items, in each form. */
export async function batchPush(items: number, depth: Depth): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [form, about, cpuGoal, rate] of PUSH_FORMS) {
    const requestsPerConnection = items / BATCH.itemsPerRequest / CONNECTIONS;
    const load = { ...BATCH, name: `push${about}`, form, requestsPerConnection };
    const floor = await floorOf(depth, (server) => pushed(server, { ...load, name: `${load.name}: floor server` }));
    const pushes = await on(relayProcess(), (relay) => pushed(relay, { ...load, cpuGoal }));
    figures.push(...beside('items/s', pushes, floor, { ratio: 0.75, ...(rate !== undefined && { rate }) }));
  }
  return figures;
}

/** Pushes of one item each: as fast as they are answered, and then at half of that rate, whatever is answered. */
export async function singlePush(depth: Depth): Promise<Figure[]> {
  const floor = await floorOf(depth, (server) => pushed(server, { ...SINGLE, name: 'push: floor server' }));
  return on(relayProcess(), async (relay) => {
    const pushes = await pushed(relay, SINGLE);
    const figures = beside('requests/s', pushes, floor, { rate: 7000, ratio: 0.6 });
    if (!depth.isWhole) return figures;
    // The same relay, whose code V8 has compiled by now.
    return [
      ...figures,
      ...tookMs('at half of that rate', await pushPaced({ relay, ...SINGLE }, pushes.perS * HALF), 12),
    ];
  });
}

/** Full pages that have been pulled before, in both forms. */
export async function pages(depth: Depth): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { goals, ...page } of PAGES) {
    const floors = await floorOf(depth, (server) => pulled(server, page, ': bare store'));
    const pulls = await on(relayProcess(), (relay) => pulled(relay, page));
    for (const [at, asked] of pulls.entries())
      figures.push(...beside('MB/s', asked, floors?.[at], { rate: goals[0], ratio: goals[1] }));
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
  note: Pick<Figure, 'note'>;
}

/** Says where a relay does not have the form that was asked for. */
async function noteOf(relay: Server, wanted: Form = 'JSON'): Promise<Pick<Figure, 'note'>> {
  const form = await formAt(relay, wanted);
  return form === wanted ? {} : { note: `this build answers in the form ${form}` };
}

/** A relay runs for days: what it does in the first seconds is not what is measured. */
async function pushed(
  relay: Server,
  {
    name,
    warm,
    cpuGoal,
    ...load
  }: Omit<PushLoad, 'relay'> & { name: string; warm: number; cpuGoal?: number | undefined },
): Promise<Asked> {
  await push({ relay, ...load, requestsPerConnection: warm });
  const note = await noteOf(relay, load.form);
  const cost = costOf(relay.pid);
  const timing = await push({ relay, ...load }, cost.begin);
  const items = load.connections * load.requestsPerConnection * load.itemsPerRequest;
  const cpu = cost.figures(`${name}, an item`, items, cpuGoal);
  return { name, perS: items / timing.seconds, timing, peakMb: memoryMb(relay.pid, 'VmHWM'), cpu, note };
}

async function pulled(
  relay: Server,
  { kib, pages: pagesPerConnection, items, ...pushing }: Page,
  of = '',
): Promise<Asked[]> {
  const itemBytes = kib * 1024;
  await pushElsewhere({ relay, connections: CONNECTIONS, itemBytes, ...pushing });
  const mb = (CONNECTIONS * pagesPerConnection * items * itemBytes) / 1e6;
  const asked: Asked[] = [];
  for (const form of ['JSON', 'binary'] as const) {
    const load = { relay, connections: CONNECTIONS, pagesPerConnection, form };
    await pull(load);
    const note = await noteOf(relay, form);
    const cost = costOf(relay.pid);
    cost.begin();
    const timing = await pull(load);
    if (timing.pageBytes < items * itemBytes) throw new Error(`a page had ${timing.pageBytes} bytes`);
    const name = `${items} x ${kib} KiB${form === 'JSON' ? '' : ', binary'}${of}`;
    const cpu = cost.figures(`${name}, a MB`, mb);
    asked.push({ name, perS: mb / timing.seconds, timing, peakMb: memoryMb(relay.pid, 'VmHWM'), cpu, note });
  }
  return asked;
}

/** The rates of both, what one is of the other, the processor time of both, and what the first one needs besides. */
function beside(
  unit: Figure['unit'],
  asked: Asked,
  floor: Asked | undefined,
  goal: { rate?: number; ratio: number },
): Figure[] {
  const { name, perS, timing, peakMb, cpu, note } = asked;
  return [
    { ...more(name, unit, perS, goal.rate), ...note },
    ...(floor
      ? [
          more(floor.name, unit, floor.perS),
          more(floor.name.replace(': ', ' / '), 'ratio', perS / floor.perS, goal.ratio),
          ...floor.cpu,
        ]
      : []),
    ...cpu,
    ...tookMs(`${name}, an answer`, timing),
    less(`${name}, peak RSS`, 'MB', peakMb, 220),
  ];
}

function floorOf<T>({ isWhole }: Depth, work: (server: Server) => Promise<T>): Promise<T> | undefined {
  return isWhole ? on(startFloor(), work) : undefined;
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
