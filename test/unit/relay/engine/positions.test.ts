/**
 * While the position of one batch is being noted, the next batches are written: nobody is told or shown anything of
 * them.
 */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { StoreFailed } from '../../../../src/relay/engine/committer.ts';
import { EmbeddedLog } from '../../../../src/relay/store/durable-log.ts';
import { type Position, PositionFile } from '../../../../src/relay/store/position.ts';
import { pushOf, reportLostOf } from '../../../support/commands.ts';
import { type Deferred, deferred, lookedAtLater } from '../../../support/deferred.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { settled } from '../../../support/settled.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { found } from '../../../support/found.ts';

const EIO = new Error('EIO');

type Append = (this: EmbeddedLog, ...given: Parameters<EmbeddedLog['append']>) => Promise<void>;
type WritePosition = (this: PositionFile, position: Position) => Promise<void>;

/** The disk of every relay of the test: it does each step when the test lets it, and tells which it did. */
class ScriptedDisk {
  /** `log` and `position` begin to be written through a record, or are `synced` through it. */
  readonly steps: string[] = [];
  readonly #held = new Map<string, Deferred & { error?: Error }>();
  readonly #awaited: { step: string; reached: () => void }[] = [];

  constructor() {
    const does = (step: string, work: () => Promise<void>): Promise<void> => this.#does(step, work);
    const append: Append = Reflect.get(EmbeddedLog.prototype, 'append');
    const write: WritePosition = Reflect.get(PositionFile.prototype, 'write');
    const scriptedAppend: Append = function (batch, view, written) {
      const put = view.put.bind(view);
      const writeView = (options: { sync: boolean }): Promise<void> =>
        does(`log ${batch.lastLsn}`, () => view.write(options));
      return append.call(this, batch, { put, write: writeView }, written);
    };
    const scriptedWrite: WritePosition = function (position) {
      return does(`position ${position.lsn}`, () => write.call(this, position));
    };
    const ofLog = vi.spyOn(EmbeddedLog.prototype, 'append').mockImplementation(scriptedAppend);
    const ofPosition = vi.spyOn(PositionFile.prototype, 'write').mockImplementation(scriptedWrite);
    onTestFinished(() => {
      for (const step of this.#held.keys()) this.lets(step);
      ofLog.mockRestore();
      ofPosition.mockRestore();
    });
  }

  holds(step: string): void {
    this.#held.set(step, deferred());
  }

  lets(step: string): void {
    this.#held.get(step)?.resolve();
    this.#held.delete(step);
  }

  fails(step: string): void {
    const held = found(this.#held.get(step), `${step} is not held`);
    held.error = EIO;
    this.lets(step);
  }

  async reached(step: string): Promise<void> {
    if (this.steps.includes(step)) return;
    await new Promise<void>((reached) => this.#awaited.push({ step, reached }));
  }

  /** Returns what was done with positions, in order. */
  get positions(): string[] {
    return this.steps.filter((step) => step.startsWith('position'));
  }

  async #does(step: string, work: () => Promise<void>): Promise<void> {
    this.#note(step);
    const held = this.#held.get(step);
    await held?.promise;
    if (held?.error) throw held.error;
    await work();
    this.#note(`${step} synced`);
  }

  #note(step: string): void {
    this.steps.push(step);
    for (const { reached } of this.#awaited.filter((one) => one.step === step)) reached();
  }
}

/** A relay with three records, the position of its next one held. */
async function heldRelay(): Promise<{ relay: TestRelay; disk: ScriptedDisk }> {
  const relay = await enrolledTestRelay(alice, bob);
  expect(relay.store.lastLsn).toBe(3);
  const disk = new ScriptedDisk();
  disk.holds('position 4');
  return { relay, disk };
}

/** Pushes items one after another, each when the one before is in the log; what waits for them has no answer yet. */
async function pushed(
  relay: TestRelay,
  disk: ScriptedDisk,
  ...ids: string[]
): Promise<Record<string, Promise<unknown>>> {
  const answers: Record<string, Promise<unknown>> = {};
  for (const [at, id] of ids.entries()) {
    const answer = lookedAtLater(relay.pushOne(pushOf(alice, id, [[bob, id]])));
    answers[id] = answer;
    await disk.reached(`log ${4 + at} synced`);
  }
  return answers;
}

describe('while the position of a batch is being noted', () => {
  test('the next batches are written, and nothing of any of them is answered or shown', async () => {
    const { relay, disk } = await heldRelay();
    const before = { checkpoint: relay.engine.log.checkpoint(), lastLsn: relay.store.lastLsn };
    const answers = await pushed(relay, disk, 'm1', 'm2');
    const durable = relay.engine.durable();
    const beat = relay.engine.heartbeat(NOON_MS);
    const snapshot = relay.engine.snapshot();
    const duplicate = relay.pushOne(pushOf(alice, 'm1', [[bob, 'm1']]));
    // LevelDB holds both.
    expect(relay.store.get('target', bob.key)?.headSeq).toBe(NOON_MS + 1);
    expect(await settled({ ...answers, durable, beat, snapshot, duplicate })).toEqual([]);
    expect(await relay.engine.page(bob.key, 0, 500)).toMatchObject({ headSeq: 0, rows: [], more: false });
    expect({ checkpoint: relay.engine.log.checkpoint(), lastLsn: relay.store.lastLsn }).toEqual(before);
    disk.lets('position 4');
    expect(await answers['m2']).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 1] });
    expect(await duplicate).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
    await Promise.all([durable, beat]);
    expect((await snapshot).lsn).toBe(5);
    await (await snapshot).close();
    expect(await relay.wires(bob)).toEqual(['m1', 'm2']);
  });

  test('those that wait are noted by one write, after all are in the log, and answered in their order', async () => {
    const { relay, disk } = await heldRelay();
    const committed: number[] = [];
    relay.committed = ({ entries }) => void committed.push(...entries.map(({ lsn }) => lsn));
    disk.holds('position 6');
    const answers = await pushed(relay, disk, 'm1', 'm2', 'm3');
    disk.lets('position 4');
    await answers['m1'];
    expect(await settled(answers)).toEqual(['m1']);
    expect(committed).toEqual([4]);
    disk.lets('position 6');
    await Promise.all(Object.values(answers));
    expect(committed).toEqual([4, 5, 6]);
    expect(disk.positions).toEqual(['position 4', 'position 4 synced', 'position 6', 'position 6 synced']);
    expect(disk.steps.indexOf('log 6 synced')).toBeLessThan(disk.steps.indexOf('position 6'));
  });

  test('no position names a batch that is still being written', async () => {
    const { relay, disk } = await heldRelay();
    disk.holds('log 5');
    const first = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await disk.reached('log 4 synced');
    const second = relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
    await disk.reached('log 5');
    disk.lets('position 4');
    await first;
    expect(await settled({ second })).toEqual([]);
    expect(disk.positions).toEqual(['position 4', 'position 4 synced']);
    disk.lets('log 5');
    await second;
    expect(disk.positions.slice(2)).toEqual(['position 5', 'position 5 synced']);
  });

  test('at most four batches are not durable: what comes then shares the next', async () => {
    const { relay, disk } = await heldRelay();
    const answers = await pushed(relay, disk, 'm1', 'm2', 'm3', 'm4');
    const late = ['m5', 'm6'].map((id) => relay.pushOne(pushOf(alice, id, [[bob, id]])));
    await settled({});
    expect(disk.steps.findLast((step) => step.startsWith('log'))).toBe('log 7 synced');
    disk.lets('position 4');
    await Promise.all([...Object.values(answers), ...late]);
    expect(disk.steps).not.toContain('log 8');
    expect(disk.steps.findLast((step) => step.startsWith('log'))).toBe('log 9 synced');
  });

  test('a page without an item that was lost waits for the epoch that begins with the loss', async () => {
    const { relay, disk } = await heldRelay();
    disk.lets('position 4');
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    // The loss is record 5, its epoch 6.
    disk.holds('position 6');
    const reported = relay.engine.lost.report(reportLostOf(bob, NOON_MS));
    await disk.reached('log 6 synced');
    const page = relay.engine.page(bob.key, 0, 500);
    expect(await settled({ reported, page })).toEqual([]);
    disk.lets('position 6');
    expect(await page).toMatchObject({ epoch: relay.engine.epoch, rows: [] });
    expect(relay.engine.epoch).not.toBe(epochNumbered(1));
    expect(await reported).toBe(true);
  });

  test('a stop waits for it', async () => {
    const { relay, disk } = await heldRelay();
    const answers = await pushed(relay, disk, 'm1');
    const closed = relay.close();
    expect(await settled({ closed })).toEqual([]);
    disk.lets('position 4');
    await Promise.all([closed, ...Object.values(answers)]);
  });
});

describe('where a position cannot be noted', () => {
  test('nobody of its batch or those behind is answered, nothing is written again, a new start goes on', async () => {
    const { relay, disk } = await heldRelay();
    disk.holds('log 6');
    const answers = await pushed(relay, disk, 'm1', 'm2');
    const writing = relay.pushOne(pushOf(alice, 'm3', [[bob, 'm3']]));
    await disk.reached('log 6');
    const open = relay.pushOne(pushOf(alice, 'm4', [[bob, 'm4']]));
    const waiting = [...Object.values(answers), writing, open];
    disk.fails('position 4');
    for (const one of waiting) await expect(one).rejects.toBeInstanceOf(StoreFailed);
    expect(relay.failures.map(({ cause }) => cause)).toEqual([EIO]);
    disk.lets('log 6');
    await relay.reopen();
    expect(disk.steps).not.toContain('log 7');
    // Three batches are in the log, and the start notes them; the fourth never came there.
    expect(disk.positions).toEqual(['position 4', 'position 6', 'position 6 synced']);
    expect(relay.notices).toEqual([]);
    for (const [at, id] of ['m1', 'm2', 'm3'].entries())
      expect(await relay.pushOne(pushOf(alice, id, [[bob, id]]))).toEqual({
        verdict: 'duplicate',
        seqs: [NOON_MS + at],
      });
    expect((await relay.pushOne(pushOf(alice, 'm4', [[bob, 'm4']]))).verdict).toBe('accepted');
  });
});

test('a batch that cannot be written while the last is noted: neither is answered, the first is kept', async () => {
  const { relay, disk } = await heldRelay();
  disk.holds('log 5');
  const first = relay.pushOne(pushOf(alice, 'm1', [[bob, 'm1']]));
  await disk.reached('log 4 synced');
  const second = relay.pushOne(pushOf(alice, 'm2', [[bob, 'm2']]));
  await disk.reached('log 5');
  disk.fails('log 5');
  for (const one of [first, second]) await expect(one).rejects.toBeInstanceOf(StoreFailed);
  disk.lets('position 4');
  await relay.reopen();
  expect(relay.notices).toEqual([]);
  expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'm1']]))).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  expect((await relay.pushOne(pushOf(alice, 'm2', [[bob, 'm2']]))).verdict).toBe('accepted');
});
