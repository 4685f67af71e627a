/**
 * How fast a store is verified and rebuilt: a log of pushes and acks, half of the mail still waiting. Beside it a bare walk
 * over the same pairs. The thread of both comes from the bundle: a thread does not run TypeScript.
 */
import { rebuild } from '../src/relay/replay/rebuild.ts';
import type { Progress } from '../src/relay/replay/finding.ts';
import { verify } from '../src/relay/replay/verify.ts';
import { openOffline } from '../src/relay/replay/offline.ts';
import { runsOf } from '../src/relay/store/scan.ts';
import { BenchEngine, anyKey } from './engine.ts';

const HELPER = new URL('../dist/program/audit-worker.js', import.meta.url);

const EVENTS = Number(process.env['POSTE_BENCH_EVENTS'] ?? 100_000);
const ITEMS_PER_REQUEST = 500;
const TARGETS = 8;
const LIMITS = {
  max_queue_items: 10_000_000,
  max_sender_items: 10_000_000,
  max_queue_bytes: 1e12,
  max_sender_bytes: 1e12,
};
const WIRE = Buffer.alloc(1024, 'x');

export interface AuditFigures {
  events: number;
  verifyMbPerS: number;
  verifySeconds: number;
  /** Of the replay, which copies the log, and with the new database. */
  rebuildEventsPerS: number;
  wholeRebuildEventsPerS: number;
  /** Of a walk over every pair. */
  walkMbPerS: number;
  /** Of this process at the end, in MB. */
  rssMb: number;
}

export async function audit(): Promise<AuditFigures> {
  const relay = await BenchEngine.start(LIMITS);
  const targets = Array.from({ length: TARGETS }, (_none, at) => anyKey(`target ${at}`));
  for (const key of targets) await relay.enrol(key);
  for (let pushed = 0, request = 0; pushed < EVENTS; pushed += ITEMS_PER_REQUEST, request++) {
    const target = targets[request % TARGETS] ?? anyKey('target 0');
    const items = Array.from({ length: ITEMS_PER_REQUEST }, (_none, at) => {
      return { sender: anyKey(`sender ${at % 16}`), target, id: `item ${pushed + at}`, wire: WIRE };
    });
    await relay.push(items, Date.now());
    // The mail of every other target is acked as it comes.
    if (request % TARGETS < TARGETS / 2) {
      const { engine } = relay;
      const { headSeq } = engine.head(target);
      await engine.ack({
        type: 'AckItems',
        targetPubkey: target,
        epoch: engine.epoch,
        through: headSeq,
        nowMs: Date.now(),
      });
    }
  }
  await relay.close();
  try {
    const offline = await openOffline(relay.folder, { isChecked: true });
    const walkedMs = performance.now();
    let walked = 0;
    for await (const run of runsOf(offline.level, {}))
      for (const [key, value] of run) walked += key.length + value.length;
    const walkMbPerS = walked / 1e3 / (performance.now() - walkedMs);
    const startedMs = performance.now();
    const report = await resultOf(verify(offline, { helper: HELPER }));
    const verifySeconds = (performance.now() - startedMs) / 1000;
    if (report.found > 0) throw new Error(`invariant: the store is sound, not ${JSON.stringify(report.findings[0])}`);
    const clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };
    const rebuildingMs = performance.now();
    const { events, replayMs } = await resultOf(rebuild(offline, relay.folder, clock, { helper: HELPER }));
    const rebuildMs = performance.now() - rebuildingMs;
    await offline.close();
    return {
      events,
      verifyMbPerS: report.bytes / 1e6 / verifySeconds,
      verifySeconds,
      rebuildEventsPerS: (events / replayMs) * 1000,
      wholeRebuildEventsPerS: (events / rebuildMs) * 1000,
      walkMbPerS,
      rssMb: process.memoryUsage().rss / 1e6,
    };
  } finally {
    relay.removeClosed();
  }
}

async function resultOf<T>(work: AsyncGenerator<Progress, T>): Promise<T> {
  let step = await work.next();
  while (!step.done) step = await work.next();
  return step.value;
}
