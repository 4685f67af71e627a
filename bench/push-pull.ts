/** Cells of pushes and pulls: what the relay does of each, beside a program that does only what cannot be left out. */
import { bare } from './bare.ts';
import { type Timing, quantile, inRounds } from './figures.ts';
import { floor } from './floor.ts';
import { pull } from './pull.ts';
import { pushElsewhere } from './push-elsewhere.ts';
import { push, pushPaced } from './push.ts';
import { startBenchRelay } from './relay-process.ts';
import type { Figure } from './report.ts';

export const CONNECTIONS = 4;
export const BATCH = { itemsPerRequest: 200, itemBytes: 1024 };
const BATCH_REQUESTS_PER_CONNECTION = 40;

export const SINGLE = { itemsPerRequest: 1, itemBytes: 1024 };
export const SINGLE_CONNECTIONS = 64;
const SINGLE_REQUESTS_PER_CONNECTION = 150;
/** A relay runs for days: what it does in the first seconds is not what is measured. */
export const BATCH_WARM = 15;
export const SINGLE_WARM = 80;
/** The part of the rate that the same round reached. */
const HALF = 0.5;

/** Full pages: of 8 MiB, or of 500 items. */
export const PAGES = [
  { kib: 64, items: 128, itemsPerRequest: 10, requestsPerConnection: 14, pages: 12, goals: [500, 0.6] },
  { kib: 16, items: 500, itemsPerRequest: 20, requestsPerConnection: 26, pages: 12, goals: [500, 0.6] },
  { kib: 1, items: 500, itemsPerRequest: 200, requestsPerConnection: 3, pages: 60, goals: [200, 0.3] },
] as const;

/** Pushes of many items, each with a signed receipt. */
export async function batchPush(rounds: number): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const items = CONNECTIONS * BATCH_REQUESTS_PER_CONNECTION * BATCH.itemsPerRequest;
    const perLane = { requestsPerLane: items / BATCH.itemsPerRequest, warmRequestsPerLane: BATCH_WARM };
    const floorTiming = await floor({ lanes: 1, ...perLane, ...BATCH });
    const relay = await startBenchRelay();
    const load = { relay, connections: CONNECTIONS, requestsPerConnection: BATCH_REQUESTS_PER_CONNECTION, ...BATCH };
    await push({ ...load, requestsPerConnection: BATCH_WARM });
    const timing = await push(load);
    const peakMb = relay.memoryMb('VmHWM');
    await relay.stop();
    const [floorRate, rate] = [items / floorTiming.seconds, items / timing.seconds];
    return { floorRate, rate, ratio: rate / floorRate, ...tookMs(timing), peakMb };
  });
  return [
    { name: 'push', unit: 'items/s', better: 'more', values: of('rate') },
    { name: 'floor', unit: 'items/s', better: 'more', values: of('floorRate') },
    { name: 'push / floor', unit: 'ratio', better: 'more', values: of('ratio'), goal: 0.75 },
    { name: 'a request, p50', unit: 'ms', better: 'less', values: of('p50') },
    { name: 'a request, p99', unit: 'ms', better: 'less', values: of('p99') },
    { name: 'peak RSS', unit: 'MB', better: 'less', values: of('peakMb'), goal: 200 },
  ];
}

/** Pushes of one item each: as fast as they are answered, and then at half of that rate, whatever is answered. */
export async function singlePush(rounds: number): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const requests = SINGLE_CONNECTIONS * SINGLE_REQUESTS_PER_CONNECTION;
    const warm = { warmRequestsPerLane: SINGLE_WARM };
    const perLane = { requestsPerLane: SINGLE_REQUESTS_PER_CONNECTION, ...warm, ...SINGLE };
    const floorTiming = await floor({ lanes: SINGLE_CONNECTIONS, ...perLane });
    const perConnection = { requestsPerConnection: SINGLE_REQUESTS_PER_CONNECTION, ...SINGLE };
    const relay = await startBenchRelay();
    await push({ relay, connections: SINGLE_CONNECTIONS, ...perConnection, requestsPerConnection: SINGLE_WARM });
    const timing = await push({ relay, connections: SINGLE_CONNECTIONS, ...perConnection });
    const rate = requests / timing.seconds;
    // The same relay, whose code V8 has compiled by now.
    const halfLoad = await pushPaced({ relay, connections: SINGLE_CONNECTIONS, ...perConnection }, rate * HALF);
    await relay.stop();
    const floorRate = requests / floorTiming.seconds;
    const half = tookMs(halfLoad);
    return { floorRate, rate, ratio: rate / floorRate, ...tookMs(timing), halfP50: half.p50, halfP99: half.p99 };
  });
  return [
    { name: 'push', unit: 'requests/s', better: 'more', values: of('rate'), goal: 6000 },
    { name: 'floor', unit: 'requests/s', better: 'more', values: of('floorRate') },
    { name: 'push / floor', unit: 'ratio', better: 'more', values: of('ratio'), goal: 0.6 },
    { name: 'a request, p50', unit: 'ms', better: 'less', values: of('p50') },
    { name: 'a request, p99', unit: 'ms', better: 'less', values: of('p99') },
    { name: 'at half of that rate, p50', unit: 'ms', better: 'less', values: of('halfP50') },
    { name: 'at half of that rate, p99', unit: 'ms', better: 'less', values: of('halfP99'), goal: 25 },
  ];
}

/** Full pages, beside a bare server whose replies are as long. */
export async function pages(rounds: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { kib, items, itemsPerRequest, requestsPerConnection, pages: perConnection, goals } of PAGES) {
    const itemBytes = kib * 1024;
    const count = CONNECTIONS * perConnection;
    const of = await inRounds(rounds, async () => {
      const relay = await startBenchRelay();
      await pushElsewhere({ relay, connections: CONNECTIONS, requestsPerConnection, itemsPerRequest, itemBytes });
      const pulled = await pull({ relay, connections: CONNECTIONS, pagesPerConnection: perConnection });
      const peakMb = relay.memoryMb('VmHWM');
      await relay.stop();
      if (pulled.pageBytes < items * itemBytes) throw new Error(`a page had ${pulled.pageBytes} bytes`);
      const replies = { repliesPerConnection: 3 * perConnection, replyBytes: pulled.pageBytes };
      const bareTiming = await bare({ connections: CONNECTIONS, ...replies });
      const mbPerS = (count * items * itemBytes) / 1e6 / pulled.seconds;
      const ratio = count / pulled.seconds / ((3 * count) / bareTiming.seconds);
      return { mbPerS, ratio, ...tookMs(pulled), peakMb };
    });
    const name = `${items} x ${kib} KiB`;
    figures.push(
      { name, unit: 'MB/s', better: 'more', values: of('mbPerS'), goal: goals[0], note: 'of items, before base64' },
      { name: `${name} / bare`, unit: 'ratio', better: 'more', values: of('ratio'), goal: goals[1] },
      { name: `${name}, a page, p99`, unit: 'ms', better: 'less', values: of('p99') },
      { name: `${name}, peak RSS`, unit: 'MB', better: 'less', values: of('peakMb'), goal: 200 },
    );
  }
  return figures;
}

function tookMs({ latenciesMs }: Timing): { p50: number; p99: number } {
  return { p50: quantile(latenciesMs, 0.5), p99: quantile(latenciesMs, 0.99) };
}
