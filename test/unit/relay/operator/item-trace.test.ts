/** The trace of items that rotations moved: as cheap as their rows allow, and what a reading of the whole log says. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type TraceOptions, itemPositions, traceItem } from '../../../../src/relay/operator/item-trace.ts';
import type { LogBack } from '../../../../src/relay/operator/log-search.ts';
import { pushOf, reportLostOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { disposableFolder } from '../../../support/temporary-folder.ts';
import { TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { share } from '../../../support/thorough.ts';

const DAY_MS = 86_400_000;

/** Counts the records that are read of the log. */
function countedLog({ store }: TestRelay): { log: LogBack; read: () => number } {
  let count = 0;
  const log: LogBack = {
    firstLsn: 1,
    lastLsn: store.lastLsn,
    readBack: (beforeLsn) => store.readBack(beforeLsn),
    entry: (lsn) => {
      count++;
      return store.entry(lsn);
    },
    read: async function* counted(fromLsn) {
      for await (const entry of store.read(fromLsn)) {
        count++;
        yield entry;
      }
    },
  };
  return { log, read: () => count };
}

function optionsOf(relay: TestRelay, log: LogBack = relay.store): TraceOptions {
  const shown = { nameOf: () => undefined, lastPull: () => undefined, monotonicMs: () => performance.now() };
  return { log, ...shown, ...itemPositions(relay.engine, relay.store) };
}

/** Reads the log alone. */
function plainOptionsOf(relay: TestRelay): TraceOptions {
  const nothing = { isWaiting: () => false, queuedAt: () => undefined, rotatedAtMs: () => undefined };
  return { ...optionsOf(relay), ...nothing };
}

async function acceptedLsns({ store }: TestRelay): Promise<number[]> {
  const lsns: number[] = [];
  for await (const { lsn, event } of store.read(1)) if (event.type === 'ItemAccepted') lsns.push(lsn);
  return lsns;
}

/** The trace of every item, and what a reading of the log alone says. */
async function traces(relay: TestRelay): Promise<[looked: unknown[], read: unknown[]]> {
  const [looked, read]: [unknown[], unknown[]] = [[], []];
  for (const lsn of await acceptedLsns(relay)) {
    looked.push(await traceItem(lsn, optionsOf(relay)));
    read.push(await traceItem(lsn, plainOptionsOf(relay)));
  }
  return [looked, read];
}

test('of an item that waits under its third key about nothing of a long log is read', async () => {
  const relay = await openTestRelay({
    limits: { max_queue_items: 100_000, max_sender_items: 100_000 },
    hosts: [alice, bob, carol],
  });
  const traffic = async (part: string): Promise<void> => {
    for (let at = 0; at < 12; at++) {
      relay.clock.move(10_000);
      await relay.push(
        ...Array.from({ length: 100 }, (_none, n) => pushOf(alice, `${part}-${at}-${n}`, [[carol, 'x']])),
      );
    }
  };
  await traffic('before');
  await relay.push(pushOf(alice, 'm1', [[bob, 'x']]), pushOf(alice, 'm2', [[bob, 'y']]));
  const lsn = relay.store.lastLsn;
  await traffic('between');
  const [second, third] = [hostNamed('bob-2'), hostNamed('bob-3')];
  await relay.rotate(rotateOf(bob, second));
  await traffic('on');
  await relay.rotate(rotateOf(second, third));
  await traffic('after');
  const { log, read } = countedLog(relay);
  const trace = await traceItem(lsn, optionsOf(relay, log));
  expect(read()).toBeLessThan(500);
  expect(trace?.targets).toMatchObject([{ state: 'waiting' }]);
  expect(trace?.targets[0]?.steps.map(({ what }) => what)).toEqual(['accepted', 'moved', 'moved']);
  expect(trace).toEqual(await traceItem(lsn, plainOptionsOf(relay)));
});

test('a clock that was set back costs a reading of the log, and says the same', async () => {
  const relay = await enrolledTestRelay(alice, bob, carol);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.clock.move(-10 * DAY_MS);
  await relay.rotate(rotateOf(bob, dave));
  relay.clock.move(10 * DAY_MS);
  for (let at = 0; at < 20; at++) await relay.pushOne(pushOf(alice, `c${at}`, [[carol, 'x']]));
  const [looked, read] = await traces(relay);
  expect(looked).toEqual(read);
});

type Step =
  | { what: 'push'; target: number; both: boolean }
  | { what: 'ack' | 'lose'; target: number; share: number }
  | { what: 'rotate'; target: number }
  | { what: 'pass'; ms: number }
  | { what: 'expire' };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ what: fc.constant('push'), target: fc.nat(1), both: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('ack'), target: fc.nat(1), share: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('lose'), target: fc.nat(1), share: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constant('rotate'), target: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('pass'), ms: fc.integer({ min: -DAY_MS, max: DAY_MS }) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('expire') }) },
);

/** Two hosts, under the keys that they have by now. */
class Hosts {
  readonly #keys: [TestHost, TestHost] = [bob, carol];
  #rotations = 0;

  present(at: number): TestHost {
    return this.#keys[at] ?? bob;
  }

  next(at: number): TestHost {
    return (this.#keys[at === 0 ? 0 : 1] = hostNamed(`next-${this.#rotations++}`));
  }
}

async function take(relay: TestRelay, hosts: Hosts, taken: Step, id: string): Promise<void> {
  switch (taken.what) {
    case 'push': {
      const targets = taken.both ? [hosts.present(0), hosts.present(1)] : [hosts.present(taken.target)];
      await relay.pushOne(
        pushOf(
          alice,
          id,
          targets.map((target) => [target, 'wire']),
        ),
      );
      return;
    }
    case 'ack':
    case 'lose': {
      const target = hosts.present(taken.target);
      const row = (await relay.queue(target))[taken.share];
      if (row && taken.what === 'ack') await relay.ack(target, row.seq);
      if (row && taken.what === 'lose') await relay.engine.lost.report(reportLostOf(target, row.seq));
      return;
    }
    case 'rotate': {
      const from = hosts.present(taken.target);
      await relay.rotate(rotateOf(from, hosts.next(taken.target)));
      return;
    }
    case 'pass':
      relay.clock.move(taken.ms);
      return;
    case 'expire':
      relay.clock.move(14 * DAY_MS);
      await relay.expire();
  }
}

test('whatever happened, the trace says what a reading of the whole log says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const { folder, remove } = await disposableFolder();
      const relay = new TestRelay(folder, {});
      await relay.open();
      try {
        await relay.enrolAll(alice, bob, carol);
        const hosts = new Hosts();
        for (const [at, taken] of steps.entries()) await take(relay, hosts, taken, `m${at}`);
        const [looked, read] = await traces(relay);
        expect(looked).toEqual(read);
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: share(160) },
  );
});
