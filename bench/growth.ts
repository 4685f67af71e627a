/**
 * Measures what a push costs as a target's sender list and its dedup rows grow: seconds for a number of pushes, each
 * state in the same run. Looking something up among n may cost log n and no more.
 */
import type { PublicKey } from '../src/protocol/public-key.ts';
import { BenchEngine, anyKey, anyKeys } from './engine.ts';
import { quantile } from './figures.ts';
import { type Figure, grouped } from './report.ts';

const PUSHES = 2_000;
const ITEMS_PER_REQUEST = 200;
const REPEATS = 5;
const LISTED = [0, 16, 64, 256] as const;
/** Rotations of each listed host in the last state: 256 listed keys and 768 successors. */
const ROTATIONS = 3;
const DEDUP_ROWS = [0, 1_000, 10_000, 100_000, 1_000_000] as const;
const WIRE = Buffer.alloc(64, 'x');

export async function growth(): Promise<Figure[]> {
  return [...grown(await byListLength(), {}), ...grown(await byDedupRows(), { goal: 0.85 })];
}

/** Each state, and the rate of the last one as a part of the first one's. */
function grown(states: readonly Growth[], aim: Pick<Figure, 'goal'>): Figure[] {
  const [first, last] = [states[0], states.at(-1)];
  const rates = states.map(({ what, pushUs }): Figure => {
    return { name: `a push, ${what}`, unit: 'us', better: 'less', values: [pushUs] };
  });
  if (!first || !last) return rates;
  const name = `rate with ${last.what} / with ${first.what}`;
  return [...rates, { name, unit: 'ratio', better: 'more', values: [first.pushUs / last.pushUs], ...aim }];
}

interface Growth {
  what: string;
  /** Microseconds of one push, the median of the repeats. */
  pushUs: number;
}

async function byListLength(): Promise<Growth[]> {
  const relay = await BenchEngine.start();
  try {
    const [target, warm] = [anyKey('target'), anyKey('warm')];
    await relay.enrolAll([target, warm]);
    let hosts = anyKeys(256, 'listed');
    await relay.enrolAll(hosts);
    await costOf(relay, hosts[0] ?? target, warm);
    const figures: Growth[] = [];
    for (const listed of LISTED) {
      if (listed > 0) await publish(relay, target, hosts.slice(0, listed), listed);
      const pushUs = await costOf(relay, hosts[Math.max(listed, 1) - 1] ?? target, target);
      figures.push({ what: listed === 0 ? 'no sender list' : `${listed} listed senders`, pushUs });
    }
    for (let round = 1; round <= ROTATIONS; round++) {
      hosts = await Promise.all(hosts.map((key, at) => rotated(relay, key, anyKey(`rotated ${round} ${at}`))));
    }
    const pushUs = await costOf(relay, hosts.at(-1) ?? target, target);
    figures.push({ what: '256 listed senders and 768 successors', pushUs });
    return figures;
  } finally {
    await relay.remove();
  }
}

async function byDedupRows(): Promise<Growth[]> {
  const relay = await BenchEngine.start();
  try {
    const [target, warm] = [anyKey('target'), anyKey('warm')];
    await relay.enrolAll([target, warm]);
    const sender = anyKey('sender');
    await costOf(relay, sender, warm);
    const figures: Growth[] = [];
    let rows = 0;
    for (const wanted of DEDUP_ROWS) {
      for (; rows < wanted; rows += ITEMS_PER_REQUEST) {
        await pushBatch(relay, anyKey(`filler ${rows % 64}`), target);
        if (rows % 5_000 === 0) await ackAll(relay, target);
      }
      await ackAll(relay, target);
      figures.push({ what: `${grouped(rows)} dedup rows`, pushUs: await costOf(relay, sender, target) });
      rows += PUSHES * REPEATS;
    }
    return figures;
  } finally {
    await relay.remove();
  }
}

let pushed = 0;

async function pushBatch(relay: BenchEngine, sender: PublicKey, target: PublicKey): Promise<void> {
  const items = Array.from({ length: ITEMS_PER_REQUEST }, () => ({ sender, target, id: `m${pushed++}`, wire: WIRE }));
  await relay.push(items, Date.now());
}

async function costOf(relay: BenchEngine, sender: PublicKey, target: PublicKey): Promise<number> {
  const costs: number[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const started = performance.now();
    for (let from = 0; from < PUSHES; from += ITEMS_PER_REQUEST) await pushBatch(relay, sender, target);
    costs.push(((performance.now() - started) * 1000) / PUSHES);
    await ackAll(relay, target);
  }
  return quantile(costs, 0.5);
}

async function ackAll(relay: BenchEngine, target: PublicKey): Promise<void> {
  await relay.ackAll(target);
  await relay.collected();
}

async function publish(relay: BenchEngine, target: PublicKey, senders: PublicKey[], iatMs: number): Promise<void> {
  const keys = { callerPubkey: target, hostPubkey: target, senders };
  const outcome = await relay.engine.publishSenders({ type: 'PublishSenders', ...keys, iatMs, nowMs: Date.now() });
  if (outcome.type === 'Refusal') throw new Error(`invariant: the list is good, not ${outcome.detail}`);
}

async function rotated(relay: BenchEngine, oldPubkey: PublicKey, newPubkey: PublicKey): Promise<PublicKey> {
  const nowMs = Date.now();
  const outcome = await relay.engine.admissions.rotateKey({
    type: 'RotateKey',
    oldPubkey,
    newPubkey,
    iatMs: nowMs,
    signed: null,
    nowMs,
  });
  if (outcome.type === 'Refusal') throw new Error(`invariant: the rotation is good, not ${outcome.detail}`);
  return newPubkey;
}
