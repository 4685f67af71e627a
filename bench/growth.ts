/**
 * What a push costs as a target's sender list and its dedup rows grow: seconds for a number of pushes, each state in
 * the same run. Looking something up among n may cost log n and no more.
 */
import type { PublicKey } from '../src/protocol/public-key.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { grouped } from './report.ts';

const PUSHES = 2_000;
const ITEMS_PER_REQUEST = 200;
const REPEATS = 5;
const LISTED = [0, 16, 64, 256] as const;
/** Rotations of each listed host in the last state: 256 listed keys and 768 successors. */
const ROTATIONS = 3;
const DEDUP_ROWS = [0, 1_000, 10_000, 100_000, 1_000_000] as const;
const LIMITS = { max_queue_items: 1_000_000, max_sender_items: 1_000_000 };
const WIRE = Buffer.alloc(64, 'x');

export interface Growth {
  what: string;
  /** Microseconds of one push, the median of the repeats. */
  pushUs: number;
}

export async function byListLength(): Promise<Growth[]> {
  const relay = await BenchEngine.start(LIMITS);
  try {
    const [target, warm] = [anyKey('target'), anyKey('warm')];
    for (const key of [target, warm]) await relay.enrol(key);
    let hosts = Array.from({ length: 256 }, (_none, at) => anyKey(`listed ${at}`));
    for (const key of hosts) await relay.enrol(key);
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

export async function byDedupRows(): Promise<Growth[]> {
  const relay = await BenchEngine.start(LIMITS);
  try {
    const [target, warm] = [anyKey('target'), anyKey('warm')];
    for (const key of [target, warm]) await relay.enrol(key);
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
  return costs.toSorted((a, b) => a - b)[Math.floor(REPEATS / 2)] ?? Number.NaN;
}

async function ackAll({ engine, store }: BenchEngine, target: PublicKey): Promise<void> {
  const through = engine.head(target).headSeq;
  await engine.ack({ type: 'AckItems', targetPubkey: target, epoch: engine.epoch, through, nowMs: Date.now() });
  while (store.collector.isPending) await engine.heartbeat(Date.now());
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
