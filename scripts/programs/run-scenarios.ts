/** Runs scenarios one after another, inside the room: a line each, and at the end how many held. */
import { once } from 'node:events';
import { styleText } from 'node:util';
import type { Programs } from './world.ts';
import { World } from './world.ts';
import { type Scenario, Skipped } from './scenario.ts';
import { endStrangers } from './namespace.ts';

/** Longer than any scenario takes on a busy machine. */
const SCENARIO_MS = 180_000;

type Verdict = { type: 'ok'; note: string } | { type: 'failed'; why: string } | { type: 'skipped'; why: string };

/** Says whether all of them held. */
export async function runScenarios(scenarios: readonly Scenario[], programs: Programs): Promise<boolean> {
  const counts = { ok: 0, failed: 0, skipped: 0 };
  let current: World | undefined;
  // The process outside closes this when it is interrupted or has ended.
  process.stdin.resume().once('end', () => {
    void (async () => {
      await current?.close();
      endStrangers();
      process.exit(130);
    })();
  });
  for (const scenario of scenarios) {
    const startMs = performance.now();
    const verdict = await verdictOf(scenario, programs, (world) => {
      current = world;
    });
    current = undefined;
    counts[verdict.type] += 1;
    report(scenario, verdict, Math.round(performance.now() - startMs));
  }
  console.log(`\n${counts.ok} held, ${counts.failed} failed, ${counts.skipped} skipped.`);
  return counts.failed === 0;
}

async function verdictOf(
  { programs: named, run, isBare = false }: Scenario,
  programs: Programs,
  began: (world: World) => void,
): Promise<Verdict> {
  // What the scenario does not name is not on its PATH.
  const world = await World.make(Object.fromEntries(named.map((name) => [name, programs[name]])));
  began(world);
  const late = new AbortController();
  try {
    if (!isBare) await world.startPoste();
    const note = await Promise.race([run(world), tooLate(late.signal)]);
    return { type: 'ok', note: note ?? '' };
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof Skipped) return { type: 'skipped', why: message };
    return { type: 'failed', why: `${message}\n${await world.traces()}`.trim() };
  } finally {
    late.abort();
    await world.close();
  }
}

async function tooLate(signal: AbortSignal): Promise<never> {
  await once(AbortSignal.any([signal, AbortSignal.timeout(SCENARIO_MS)]), 'abort').catch(() => undefined);
  throw new Error(`it was not over after ${SCENARIO_MS / 1000} s`);
}

function report(scenario: Scenario, verdict: Verdict, tookMs: number): void {
  const name = fullName(scenario);
  switch (verdict.type) {
    case 'ok':
      console.log(
        `${styleText('green', 'ok')}   ${name}  ${tookMs} ms${verdict.note === '' ? '' : `  (${verdict.note})`}`,
      );
      return;
    case 'skipped':
      console.log(`${styleText('yellow', 'skip')} ${name}: ${verdict.why}`);
      return;
    case 'failed': {
      const [why = '', ...traces] = verdict.why.split('\n');
      console.log(`${styleText('red', 'FAIL')} ${name}  ${tookMs} ms: ${why}`);
      for (const line of traces) console.log(`     | ${line}`);
      console.log(`     again: npm run programs -- --only '${name}'`);
    }
  }
}

export function fullName({ programs, name }: Scenario): string {
  return `${programs[0]}: ${name}`;
}
