/** Pushes at full speed into an engine, with acks or without, and what that cost. */
import type { PublicKey } from '../src/protocol/public-key.ts';
import { type CpuSeconds, cpuSeconds, usAnItem } from './cpu-seconds.ts';
import { type BenchEngine, type BenchItem, anyKeys } from './engine.ts';
import { quantile } from './figures.ts';
import { sealedEnvelope } from './work.ts';

const LANES = 4;
const ITEMS_A_REQUEST = 200;
const ITEM_BYTES = 1024;

export interface Load {
  /** Until so many items were pushed, or for so long. */
  items?: number;
  seconds?: number;
  /** Says whether each request is acked once it is durable, as by a host that is connected. */
  acks: boolean;
}

export interface Loaded {
  itemsPerS: number;
  p50Ms: number;
  p99Ms: number;
  cpuUs: CpuSeconds;
  /** Items a second in each tenth of the time. */
  tenths: number[];
}

let made = 0;

export async function loaded(
  relay: BenchEngine,
  { items = Infinity, seconds = Infinity, acks }: Load,
): Promise<Loaded> {
  const hosts = anyKeys(LANES * 2, 'host');
  await relay.enrolAll(hosts);
  const wire = sealedEnvelope('item-000000000000', ITEM_BYTES);
  const done: { atMs: number; tookMs: number }[] = [];
  const requests = items / ITEMS_A_REQUEST;
  let begun = 0;
  const before = cpuSeconds();
  const startedMs = performance.now();
  const lane = async (sender: PublicKey, target: PublicKey): Promise<void> => {
    while (begun < requests && performance.now() - startedMs < seconds * 1000) {
      begun++;
      const sentMs = performance.now();
      await relay.push(
        Array.from({ length: ITEMS_A_REQUEST }, (): BenchItem => ({ sender, target, id: `item-${made++}`, wire })),
        Date.now(),
      );
      done.push({ atMs: performance.now() - startedMs, tookMs: performance.now() - sentMs });
      if (acks) await relay.ackAll(target);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_none, at) => lane(hosts[at]!, hosts[LANES + at]!)));
  const wholeMs = performance.now() - startedMs;
  const pushed = done.length * ITEMS_A_REQUEST;
  const tenths = Array.from({ length: 10 }, (_none, at) => {
    const within = done.filter(({ atMs }) => Math.min(9, Math.floor((atMs / wholeMs) * 10)) === at);
    return (within.length * ITEMS_A_REQUEST * 10_000) / wholeMs;
  });
  const took = done.map(({ tookMs }) => tookMs);
  return {
    itemsPerS: (pushed * 1000) / wholeMs,
    p50Ms: quantile(took, 0.5),
    p99Ms: quantile(took, 0.99),
    cpuUs: usAnItem(before, pushed),
    tenths,
  };
}
