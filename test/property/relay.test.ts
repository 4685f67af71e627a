/**
 * The relay against a model without cleverness, over a real LevelDB: any commands, any order, stops in the middle, on
 * a machine of any speed.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { verified } from '../support/audits.ts';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { expectReplayed } from '../support/replay.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';

const DAY_MS = 86_400_000;

/** Two hosts of one account, and two of none, each with an invite that is at hand. */
const FIRST_STEPS = [0, 1, 2, 3].flatMap((host): Step[] => {
  const account = host < 2 ? 0 : null;
  return [
    { type: 'invite', invite: 0, forMs: 1 },
    { type: 'enrol', host, name: 2, account, isAdmitted: true, validForMs: null, invite: 0 },
  ];
});

const admission = fc.constantFrom('open' as const, 'invite' as const);

/** The clock goes on, or back. */
function days(count: number): Step {
  return { type: 'clock', byMs: count * DAY_MS };
}

/** Takes every step with both, fails where they say or keep something else, and answers how many it took. */
async function takenAlike(
  steps: readonly Step[],
  { admitted = 'open', passingMs = 0 }: { admitted?: 'open' | 'invite'; passingMs?: number } = {},
): Promise<number> {
  const { folder, remove } = await disposableFolder();
  const monotonicMs = lookedAtClock(passingMs);
  const relay = new TestRelay(folder, { ...SMALL_SETTINGS, admission: admitted, monotonicMs });
  await relay.open();
  try {
    const comparison = new Comparison(relay);
    let taken = 0;
    for (const one of [...FIRST_STEPS, ...steps]) {
      const place = `step ${taken++ - FIRST_STEPS.length}, ${JSON.stringify(one)}`;
      const { seen, expected } = await comparison.take(one);
      expect(seen, `answer to ${place}`).toEqual(expected);
      const state = await comparison.state();
      expect(state.seen, `rows after ${place}`).toEqual(state.expected);
    }
    await expectReplayed(relay.store);
    expect(relay.failures).toEqual([]);
    await relay.close();
    expect((await verified(folder)).findings).toEqual([]);
    return taken - FIRST_STEPS.length;
  } finally {
    await relay.close();
    await remove();
  }
}

test('the relay does what the model does, whatever is asked and whenever it stops', async () => {
  await fc.assert(
    fc.asyncProperty(anySteps, admission, anyPassingMs, async (steps, admitted, passingMs) => {
      expect(await takenAlike(steps, { admitted, passingMs })).toBe(steps.length);
    }),
    { numRuns: share(120, 24), ...inTime(240_000) },
  );
});

test('a request that pauses comes in several batches, and expires as one batch does', async () => {
  const item = { sender: 0, size: 4, verdict: 'ok', isV1: false, isLiteral: false } as const;
  const first = { ...item, id: 0, targets: [0] };
  const second = { ...item, id: 1, targets: [1, 0] };
  const steps: Step[] = [{ type: 'push', items: [first, second] }, days(14), { type: 'sweep' }];
  expect(await takenAlike(steps, { passingMs: 0 })).toBe(3);
  expect(await takenAlike(steps, { passingMs: 10 })).toBe(3);
});

test('hosts that a deny entry means again, when the clock went back, are revoked by the next opening', async () => {
  const steps: Step[] = [
    { type: 'deny', selectors: { host: 7, client: null, account: null, org: null } },
    days(2),
    { type: 'enrol', host: 7, name: 2, account: null, isAdmitted: true, validForMs: null, invite: 0 },
    days(-2),
    { type: 'reopen' },
  ];
  expect(await takenAlike(steps)).toBe(5);
});

test('a deny entry that comes again, when the clock went back, ends no sooner', async () => {
  const entry: Step = { type: 'deny', selectors: { host: 3, client: null, account: null, org: null } };
  expect(await takenAlike([entry, { type: 'clock', byMs: -1 }, entry])).toBe(3);
});

test('an item pushed after the clock went back is known, however far ahead things were forgotten', async () => {
  const item = { sender: 0, size: 4, verdict: 'ok', isV1: false, isLiteral: false } as const;
  const push = (id: number): Step => ({ type: 'push', items: [{ ...item, targets: [1], id }] });
  const ack: Step = { type: 'ack', target: 1, where: 1, isStale: false };
  const forgotten: Step[] = [push(0), ack, days(35), { type: 'sweep' }];
  const known: Step[] = [days(-36), push(1), push(1), ack, push(1)];
  // Until a millisecond after what was forgotten, with both.
  const until: Step[] = [days(36), { type: 'sweep' }, { type: 'clock', byMs: 1 }, { type: 'sweep' }];
  expect(await takenAlike([...forgotten, ...known, ...until])).toBe(13);
});
