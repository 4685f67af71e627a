import { expect, test } from 'vitest';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { pushOf, reportLostOf } from '../../../support/commands.ts';
import { deferred } from '../../../support/deferred.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { withoutRun } from '../../../support/queue-rows.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { microtasks } from '../../../support/slow-disk.ts';

/** Compares what the rows say is queued for bob with what the queue holds: they must agree whatever raced. */
async function expectCountsOfBob(relay: TestRelay): Promise<void> {
  const queue = await relay.queue(bob);
  const bytes = queue.reduce((sum, row) => sum + row.bytes, 0);
  expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: queue.length, queueBytes: bytes });
}

test('a push and the first ack of a queue may meet at any moment', async () => {
  const relay = await enrolledTestRelay(bob);
  for (let delay = 0; delay < 16; delay++) {
    // A fresh start: no index is in memory.
    await relay.reopen();
    const head = relay.engine.head(bob.key).headSeq;
    const pushes = [relay.pushOne(pushOf(alice, `m${delay}`, [[bob, 'early']]))];
    await microtasks(delay);
    const ack = relay.ack(bob, head);
    pushes.push(relay.pushOne(pushOf(alice, `n${delay}`, [[bob, 'late']])));
    await Promise.all([ack, ...pushes]);
    await expectCountsOfBob(relay);
    const all = await relay.ack(bob, relay.engine.head(bob.key).headSeq);
    expect(all).toMatchObject({ deleted: 2 });
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  }
});

test('a request of many items and the first ack of the queue may meet between any two of them', async () => {
  const relay = await enrolledTestRelay(bob);
  for (let delay = 0; delay < 12; delay++) {
    await relay.reopen();
    const head = relay.engine.head(bob.key).headSeq;
    const items = Array.from({ length: 4 }, (_none, at) => pushOf(alice, `m${delay}-${at}`, [[bob, `${at}`]]));
    const request = relay.push(...items);
    await microtasks(delay);
    await Promise.all([relay.ack(bob, head), request]);
    expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ deleted: 4 });
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  }
});

test.each(['report', 'ack'] as const)(
  'a report of a lost item and the first ack may meet, the %s first',
  async (first) => {
    const relay = await enrolledTestRelay(bob);
    for (let delay = 0; delay < 12; delay++) {
      await relay.push(pushOf(alice, `m${delay}`, [[bob, 'x']]), pushOf(alice, `n${delay}`, [[bob, 'x']]));
      await relay.reopen();
      const { headSeq, ackedThrough } = relay.engine.head(bob.key);
      const report = (): Promise<unknown> => relay.engine.lost.report(reportLostOf(bob, headSeq));
      const ack = (): Promise<unknown> => relay.ack(bob, ackedThrough);
      const running = [first === 'report' ? report() : ack()];
      await microtasks(delay);
      running.push(first === 'report' ? ack() : report());
      await Promise.all(running);
      expect(await relay.ack(bob, headSeq)).toMatchObject({ deleted: 1 });
      expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
    }
  },
);

test('pushes to a queue whose index loads wait for it; pushes to others do not', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.reopen();
  // Holds the load where it reads the rows.
  const readRows = relay.store.queueRows.bind(relay.store);
  const held = deferred();
  const reading = deferred();
  relay.store.queueRows = async (...range) => {
    reading.resolve();
    await held.promise;
    return readRows(...range);
  };
  const ack = relay.ack(bob, relay.engine.head(bob.key).headSeq);
  await reading.promise;
  const order: string[] = [];
  const toBob = relay.pushOne(pushOf(alice, 'm2', [[bob, 'y']])).then(() => order.push('bob'));
  const toCarol = relay.pushOne(pushOf(alice, 'm2', [[carol, 'y']])).then(() => order.push('carol'));
  await toCarol;
  expect(order).toEqual(['carol']);
  held.resolve();
  await toBob;
  expect(await ack).toMatchObject({ deleted: 1 });
  expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ deleted: 1 });
});

test('acks that race for one index release every item once', async () => {
  const relay = await enrolledTestRelay(bob);
  for (const id of ['m1', 'm2', 'm3']) await relay.pushOne(pushOf(alice, id, [[bob, id]]));
  await relay.reopen();
  const seqs = (await relay.queue(bob)).map(({ seq }) => seq);
  const throughs = [seqs[1], seqs[2], seqs[0], seqs[2]].map((seq) => seq ?? 0);
  const acks = await Promise.all(throughs.map((through) => relay.ack(bob, through)));
  expect(acks).toMatchObject([{ deleted: 2 }, { deleted: 1 }, { deleted: 0 }, { deleted: 0 }]);
});

test('the log replays to the rows after all of that', async () => {
  const relay = await enrolledTestRelay(bob);
  for (let delay = 0; delay < 6; delay++) {
    await relay.reopen();
    const push = relay.push(...['a', 'b'].map((id) => pushOf(alice, `${id}${delay}`, [[bob, id]])));
    await microtasks(delay);
    await Promise.all([push, relay.ack(bob, relay.engine.head(bob.key).headSeq)]);
  }
  const rows = new MapRows();
  for await (const { event } of relay.store.read(1)) rows.apply(event);
  expect(rows.get('target', bob.key)).toEqual(relay.engine.head(bob.key));
  expect(rows.queue(bob.key)).toEqual((await relay.queue(bob)).map(withoutRun));
});
