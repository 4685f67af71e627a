/**
 * Random faults to a simulated relay and its hosts: what was accepted is neither lost nor doubled nor told wrongly.
 *
 * The core, the engine, the sweep and the opening of the store are the real ones; clock, disk and network are
 * simulated, and everything follows from a seed. `npm run torture -- --only simulation` does 3,000 of them.
 * `POSTE_TORTURE_SEED` repeats one, with `POSTE_TORTURE_RUNS` it is the first of so many, and `POSTE_TORTURE_STEPS`
 * names the steps of it that are taken: a seed that fails says with which few of them it still does.
 */
import { hash } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { LogProofs } from '../../src/relay/engine/log-proofs.ts';
import { EmbeddedLog } from '../../src/relay/store/durable-log.ts';
import { Lookout } from '../support/simulation/lookout.ts';
import { scheduleOf, shrunk } from '../support/simulation/schedule.ts';
import type { Plant } from '../support/simulation/simulated-relay.ts';
import { type RunOptions, type RunResult, simulate } from '../support/simulation/simulated-world.ts';
import { IS_THOROUGH, tried } from '../support/thorough.ts';

const { POSTE_TORTURE_RUNS: RUNS, POSTE_TORTURE_SEED: SEED, POSTE_TORTURE_STEPS: STEPS } = process.env;
const FIRST_SEED = Number(SEED ?? 1);
const COUNT = Number(RUNS ?? (SEED === undefined ? 6 : 1));
/** A busy machine takes a second for the longest. */
const SEED_MS = 2000;
/** Runs that may be spent on making one that fails shorter. */
const SHORTENED_RUNS_MAX = 40;
/** Lines of the history that are shown of a run that fails. */
const SHOWN_LINES = 60;

function run(seed: number, options: RunOptions = {}): Promise<RunResult> {
  return simulate(seed, scheduleOf(seed), options);
}

const played = new Map<number, Promise<RunResult>>();

/** As it ran when it was asked for first. */
function historyOf(seed: number): Promise<RunResult> {
  const history = played.get(seed) ?? run(seed);
  played.set(seed, history);
  return history;
}

/** The kind of a fault, without what tells one from another of its kind. */
function kindOf({ faults }: RunResult): string {
  return (faults[0] ?? '').replaceAll(/[\w+/=-]*\d[\w+/=:-]*/g, '').slice(0, 40);
}

/** The fewest steps that were found with which the run fails in the same way. */
async function shortened(seed: number, failed: RunResult, options: RunOptions = {}): Promise<readonly number[]> {
  const { steps } = scheduleOf(seed);
  let left = SHORTENED_RUNS_MAX;
  const fails = async (some: readonly number[]): Promise<boolean> =>
    left-- > 0 && kindOf(await run(seed, { ...options, steps: some })) === kindOf(failed);
  return shrunk(options.steps ?? steps.map(({ no }) => no), fails);
}

/** Returns what failed, how to see it again, and how to see it with little else around it. */
async function reportOf(seed: number, failed: RunResult, options: RunOptions): Promise<string> {
  const steps = await shortened(seed, failed, options);
  const again = `POSTE_TORTURE_SEED=${seed} npm run torture -- --only simulation`;
  const { lines, faults } = await run(seed, { ...options, steps });
  const types = steps.map((no) => scheduleOf(seed).steps[no]?.type).join(', ');
  return [
    `seed ${seed}: ${failed.faults.join('; ')}`,
    `  again: ${again}`,
    `  with ${steps.length} steps (${types}): POSTE_TORTURE_STEPS=${steps.join(',')} ${again}`,
    `  which says: ${faults.join('; ')}`,
    ...lines.slice(-SHOWN_LINES).map((line) => `    ${line.slice(0, 300)}`),
  ].join('\n');
}

test('what a relay accepts is neither lost nor doubled, whatever happens to its disk, its network and itself', {
  timeout: 120_000 + COUNT * SEED_MS,
}, async () => {
  const steps = STEPS === undefined ? {} : { steps: STEPS.split(',').filter(Boolean).map(Number) };
  const failed: string[] = [];
  let [events, accepted, crashes, knowing, digests] = [0, 0, 0, 0, ''];
  for (let seed = FIRST_SEED; seed < FIRST_SEED + COUNT; seed++) {
    const result = await (STEPS === undefined ? historyOf(seed) : run(seed, steps));
    events += result.events;
    accepted += result.accepted;
    crashes += result.crashes;
    knowing += result.knowing;
    digests += result.digest;
    if (result.faults.length > 0) failed.push(await reportOf(seed, result, steps));
  }
  const digest = hash('sha256', digests).slice(0, 16);
  const known = `${knowing} hosts know of the fork`;
  const counts = [`${events} events`, `${accepted} items accepted`, `${crashes} crashes`, known].join(', ');
  tried(`${COUNT} seeds from ${FIRST_SEED} on: ${counts}; hash of all histories ${digest}`);
  expect(failed.join('\n')).toBe('');
});

test('a seed gives the same history again, to the byte, and another seed another one', async () => {
  const [one, again, other] = [await historyOf(5), await run(5), await historyOf(6)];
  expect(one.digest).toBe(again.digest);
  expect(one.digest).not.toBe(other.digest);
  expect(one.events).toBeGreaterThan(500);
});

test('a fork is known to all that spoke with the other half, and to nobody where hosts are silent', async () => {
  expect((await historyOf(5)).knowing).toBeGreaterThan(1);
  const silent = vi.spyOn(Lookout.prototype, 'hears').mockImplementation(() => undefined);
  onTestFinished(() => silent.mockRestore());
  const { knowing, faults } = await run(5);
  expect(knowing).toBe(0);
  expect(faults[0]).toMatch(/was shown another log, and does not know it/);
});

test.runIf(IS_THOROUGH)('words against a relay that has not forked yet are found', async () => {
  const refused = vi.spyOn(LogProofs.prototype, 'growth').mockReturnValue('bad sizes');
  onTestFinished(() => refused.mockRestore());
  const said: string[] = [];
  for (let seed = 1; seed <= 20 && !said.some((one) => one.includes('of an honest relay: unproven')); seed++)
    said.push(...(await run(seed)).faults);
  expect(said.at(-1)).toContain('a host says of an honest relay: unproven');
});

// What an oracle that finds nothing is worth: relays with one fault each.

const BROKEN_PROMISE =
  /lacks it|went back|was lost|got the seq|is doubled|new epoch began|ahead of the relay|beyond the head/;

/** Returns which of the first seeds finds what was planted, and what it says. */
async function found(plant: Plant): Promise<{ seed: number; result: RunResult }> {
  for (let seed = 1; seed <= 30; seed++) {
    const result = await run(seed, { plant });
    if (result.faults.length > 0) return { seed, result };
  }
  throw new Error('thirty seeds did not find it');
}

test('a disk that says it has synced and has not is found', async () => {
  const { result } = await found(({ disk }) => {
    disk.faults.lies = true;
  });
  expect(result.faults[0]).toMatch(BROKEN_PROMISE);
});

test('a relay that answers before the disk has synced is found', async () => {
  const early = vi
    .spyOn(EmbeddedLog.prototype, 'append')
    .mockImplementation((_batch, view, written) => view.write({ sync: false }).then(written));
  onTestFinished(() => early.mockRestore());
  const { result } = await found(() => undefined);
  expect(result.faults[0]).toMatch(BROKEN_PROMISE);
});

test('a relay that notes how far it came before the disk has synced is found', async () => {
  type Append = (this: EmbeddedLog, ...given: Parameters<EmbeddedLog['append']>) => Promise<void>;
  const append: Append = Reflect.get(EmbeddedLog.prototype, 'append');
  const withoutSync: Append = function (batch, view, written) {
    const unsynced = { put: view.put.bind(view), write: () => view.write({ sync: false }) };
    return append.call(this, batch, unsynced, written);
  };
  const early = vi.spyOn(EmbeddedLog.prototype, 'append').mockImplementation(withoutSync);
  onTestFinished(() => early.mockRestore());
  const { result } = await found(() => undefined);
  expect(result.faults[0]).toMatch(BROKEN_PROMISE);
});

const forgetsKnownItems: Plant = ({ store }) => {
  store.known = () => undefined;
};

test('a relay that forgets what it knows is found, and the run becomes a few steps', async () => {
  const plant = forgetsKnownItems;
  const { seed, result } = await found(plant);
  expect(result.faults[0]).toMatch(/is doubled|was answered with the seqs/);
  const steps = await shortened(seed, result, { plant });
  expect(steps.length).toBeLessThan(scheduleOf(seed).steps.length / 2);
  expect(kindOf(await run(seed, { plant, steps }))).toBe(kindOf(result));
});
