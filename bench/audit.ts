/**
 * Measures how fast a store is verified and rebuilt: a log of pushes and acks, half of the mail still waiting. Beside
 * it a bare walk over the same pairs. The thread of both comes from the bundle: a thread does not run TypeScript.
 */
import { rebuild } from '../src/relay/replay/rebuild.ts';
import type { Progress } from '../src/relay/replay/finding.ts';
import { verify } from '../src/relay/replay/verify.ts';
import { openOffline } from '../src/relay/replay/offline.ts';
import { runsOf } from '../src/relay/store/scan.ts';
import { BenchEngine, anyKey, anyKeys } from './engine.ts';
import { inRounds } from './figures.ts';
import { type Figure, grouped } from './report.ts';

const HELPER = new URL('../dist/program/audit-worker.js', import.meta.url);

const EVENTS = Number(process.env['POSTE_BENCH_EVENTS'] ?? 100_000);
const ITEMS_PER_REQUEST = 500;
const TARGETS = 8;
const WIRE = Buffer.alloc(1024, 'x');

export async function audits(rounds: number): Promise<Figure[]> {
  const of = await inRounds(rounds, measured);
  const [events = 0] = of('events');
  const note = `${grouped(events)} events, half of the 1 KiB items waiting`;
  return [
    { name: 'verify', unit: 'MB/s', better: 'more', values: of('verifyMbPerS'), goal: 100, note },
    {
      name: 'rebuild, with the new database',
      unit: 'events/s',
      better: 'more',
      values: of('rebuildEventsPerS'),
      goal: 100_000,
    },
    { name: 'verify / bare walk', unit: 'ratio', better: 'more', values: of('ratio') },
  ];
}

async function measured() {
  const relay = await BenchEngine.start();
  const targets = anyKeys(TARGETS, 'target');
  await relay.enrolAll(targets);
  for (let pushed = 0, request = 0; pushed < EVENTS; pushed += ITEMS_PER_REQUEST, request++) {
    const target = targets[request % TARGETS] ?? anyKey('target 0');
    const items = Array.from({ length: ITEMS_PER_REQUEST }, (_none, at) => {
      return { sender: anyKey(`sender ${at % 16}`), target, id: `item ${pushed + at}`, wire: WIRE };
    });
    await relay.push(items, Date.now());
    // The mail of every other target is acked as it comes.
    if (request % TARGETS < TARGETS / 2) await relay.ackAll(target);
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
    const { events, elapsedMs } = await resultOf(rebuild(offline, relay.folder, clock, { helper: HELPER }));
    await offline.close();
    const verifyMbPerS = report.bytes / 1e6 / verifySeconds;
    return {
      events,
      verifyMbPerS,
      ratio: verifyMbPerS / walkMbPerS,
      rebuildEventsPerS: (events / elapsedMs) * 1000,
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
