/** Rows of a queue that vanish from the disk without a trace: no host acks what it was never handed. */
import { describe, expect, test, vi } from 'vitest';
import { queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { rebuilt, verified } from '../../../support/audits.ts';
import { pushOf, reportLostOf, rotateOf } from '../../../support/commands.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { type QueueForm, writeQueues } from '../../../support/queue-forms.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, type TestRelayOptions, openTestRelay } from '../../../support/test-relay.ts';

const REFUSED = { type: 'Refusal', code: 'UNAVAILABLE' };
const FIRST = ['m1', 'm2', 'm3'];
const ALL = [...FIRST, 'm4', 'm5'];

function pushesTo(target: typeof bob, ids: readonly string[]) {
  return ids.map((id) => pushOf(alice, id, [[target, `wire of ${id}`]]));
}

function wiresOf(ids: readonly string[]): string[] {
  return ids.map((id) => `wire of ${id}`);
}

/** Five items of alice's wait for bob, of which the first three vanish together where they lie in a run. */
async function relayBefore(form: QueueForm, options: TestRelayOptions = {}): Promise<TestRelay> {
  const relay = await openTestRelay({ ...options, hosts: [alice, bob, carol] });
  await relay.push(...pushesTo(bob, FIRST), pushOf(alice, 'other', [[carol, 'wire of other']]));
  await relay.altered((level) => writeQueues(level, form));
  relay.clock.move(1000);
  await relay.push(...pushesTo(bob, ALL.slice(3)));
  return relay;
}

/** What hides the first row or run of bob's queue. */
const HIDE = {
  deleted: async (level: Level): Promise<void> => level.del(await firstOfBob(level)),
  'under the key of another target': async (level: Level): Promise<void> => {
    const key = await firstOfBob(level);
    const other = Buffer.from(key);
    other.writeUInt8(key.readUInt8(3) ^ 4, 3);
    const value = (await level.get(key)) as Buffer;
    await level.batch().del(key).put(other, value).write();
  },
};

async function firstOfBob(level: Level): Promise<Buffer> {
  const [key] = await level.keys({ gte: queueKey(bob.key, 0), limit: 1 }).all();
  return key as Buffer;
}

const gone = (form: QueueForm): number => (form === 'alone' ? 1 : 3);

const KINDS = (['alone', 'in runs'] as const).flatMap((form) =>
  (Object.keys(HIDE) as (keyof typeof HIDE)[]).map((how) => ({ form, how })),
);

async function expectMended(relay: TestRelay, form: QueueForm): Promise<void> {
  const { epoch } = relay.engine;
  const head = relay.engine.head(bob.key).headSeq;
  expect(await relay.ack(bob, head)).toMatchObject(REFUSED);
  expect(await relay.ack(carol, relay.engine.head(carol.key).headSeq)).toMatchObject({ deleted: 1 });
  // What was told is told once.
  expect([relay.engine.epoch, relay.vanished.length]).toEqual([epoch, 1]);
  expect(relay.vanished[0]).toMatch(form === 'alone' ? /^1 item of it is gone/ : /^3 items of it are gone/);
  expect(relay.engine.brokenQueues).toMatchObject([{ targetPubkey: bob.key }]);
  expect(await relay.wires(bob)).toEqual(wiresOf(ALL.slice(gone(form))));
  // Every sender pushes everything again.
  relay.clock.move(1000);
  const outcomes = await relay.push(...pushesTo(bob, ALL));
  const accepted = outcomes.map((outcome) => outcome.type === 'ItemStored' && outcome.status === 'accepted');
  expect(accepted).toEqual(ALL.map((_id, at) => at < gone(form)));
  expect(await relay.wires(bob)).toEqual([...wiresOf(ALL.slice(gone(form))), ...wiresOf(ALL.slice(0, gone(form)))]);
  expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ deleted: ALL.length });
  expect(relay.engine.brokenQueues).toEqual([]);
  expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  const known = await relay.push(...pushesTo(bob, ALL));
  expect(known).toMatchObject(ALL.map(() => ({ status: 'duplicate' })));
  expect(relay.failures).toEqual([]);
}

describe.each(KINDS)('rows $form, $how', ({ form, how }) => {
  test('before an open: the first ack is refused, senders push again, and the queue is acked', async () => {
    const relay = await relayBefore(form);
    await relay.altered(HIDE[how]);
    const { epoch } = relay.engine;
    expect(await relay.wires(bob)).toEqual(wiresOf(ALL.slice(gone(form))));
    // This ack still names the epoch that ends.
    expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ code: 'EPOCH_CHANGED' });
    expect(relay.engine.epoch).not.toBe(epoch);
    await expectMended(relay, form);
  });

  test('under a relay that serves, whose index is in memory: the page that passes over them tells', async () => {
    const relay = await relayBefore(form);
    await relay.ack(bob, 0);
    // The index comes with an ack that releases something or nothing, and rows are decoded by a push that is known.
    expect(await relay.ack(bob, NOON_MS - 1)).toMatchObject({ deleted: 0 });
    await relay.push(...pushesTo(bob, ALL));
    await HIDE[how](relay.store.level);
    const { epoch } = relay.engine;
    const page = await relay.engine.page(bob.key, 0, 500);
    expect(page.rows.map(({ itemId }) => itemId)).toEqual(ALL.slice(gone(form)));
    expect(page.epoch).toBe(relay.engine.epoch);
    expect(page.epoch).not.toBe(epoch);
    await expectMended(relay, form);
  });

  test('under a relay that serves, before the index is in memory', async () => {
    const relay = await relayBefore(form);
    await HIDE[how](relay.store.level);
    await relay.wires(bob);
    expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ code: 'EPOCH_CHANGED' });
    await expectMended(relay, form);
  });

  test('a rebuild makes them anew, and nothing is missed any more', async () => {
    const relay = await relayBefore(form);
    await relay.atRest(HIDE[how]);
    expect((await verified(relay.folder)).findings.map(({ code }) => code)).toContain('ROW_MISSING');
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
    await relay.open();
    expect(await relay.wires(bob)).toEqual(wiresOf(ALL));
    expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ deleted: ALL.length });
    expect(relay.vanished).toEqual([]);
  });
});

test('a page that ends before the gap, or begins behind it, says nothing of it', async () => {
  const relay = await relayBefore('alone');
  await relay.ack(bob, NOON_MS - 1);
  await relay.store.level.del(queueKey(bob.key, NOON_MS + 2));
  await relay.engine.page(bob.key, 0, 1);
  await relay.engine.page(bob.key, NOON_MS + 2, 500);
  expect(relay.vanished).toEqual([]);
  expect((await relay.engine.page(bob.key, 0, 2)).rows).toHaveLength(2);
  expect(relay.vanished).toHaveLength(1);
});

test('an item that is lost while another is missed is not missed, and begins no second epoch for that', async () => {
  const relay = await relayBefore('alone');
  await relay.store.level.del(queueKey(bob.key, NOON_MS + 1));
  await relay.ack(bob, NOON_MS + 2);
  expect(await relay.ack(bob, NOON_MS + 2)).toMatchObject(REFUSED);
  await relay.engine.lost.report(reportLostOf(bob, NOON_MS + 2));
  const { epoch } = relay.engine;
  expect(await relay.ack(bob, NOON_MS + 2)).toMatchObject(REFUSED);
  expect([relay.engine.epoch, relay.vanished]).toEqual([epoch, ['1 item of it is gone from the store']]);
  await relay.push(...pushesTo(bob, FIRST));
  expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq)).toMatchObject({ deleted: ALL.length });
});

test('while as much is missed as before it is searched for once a minute, however often its host acks', async () => {
  let monotonicMs = 0;
  const relay = await relayBefore('alone', { monotonicMs: () => monotonicMs });
  await relay.store.level.del(queueKey(bob.key, NOON_MS + 1));
  await relay.ack(bob, NOON_MS + 2);
  const searches = vi.spyOn(relay.store.due, 'seqsOf');
  const acks = async (): Promise<number> => {
    for (let time = 0; time < 3; time++) expect(await relay.ack(bob, NOON_MS + 2)).toMatchObject(REFUSED);
    return searches.mock.calls.length;
  };
  expect(await acks()).toBe(0);
  monotonicMs += 60_000;
  expect(await acks()).toBe(1);
  await relay.store.level.del(queueKey(bob.key, NOON_MS + 2));
  await relay.engine.page(bob.key, 0, 500);
  expect(await acks()).toBe(2);
  expect(relay.vanished).toEqual(['1 item of it is gone from the store', '2 items of it are gone from the store']);
});

test('what was passed over before anybody looked keeps nobody from acks', async () => {
  const relay = await relayBefore('alone');
  await relay.ack(bob, NOON_MS);
  // As an ack left it that passed over a second item: charged, and nowhere.
  const row = relay.store.get('target', bob.key)!;
  await relay.close();
  const key = rowKeyBytes('target', bob.key);
  const charged = { ...row, queueItems: row.queueItems + 1, queueBytes: row.queueBytes + 10 };
  await withRawLevel(relay.folder, (level) => level.put(key, encodeRow('target', key, charged)));
  await relay.open();
  expect(await relay.ack(bob, NOON_MS + 1)).toMatchObject({ deleted: 1 });
  expect(relay.vanished).toEqual([]);
  // And still something that vanishes is missed.
  await relay.store.level.del(queueKey(bob.key, NOON_MS + 2));
  await relay.reopen();
  await relay.ack(bob, NOON_MS + 2);
  expect(await relay.ack(bob, NOON_MS + 2)).toMatchObject(REFUSED);
  expect(relay.vanished).toEqual(['1 item of it is gone from the store']);
});

test('the operator hears of what vanished when its host changes its key, and the relay makes the change', async () => {
  const relay = await relayBefore('in runs');
  await relay.altered(HIDE.deleted);
  await relay.rotate(rotateOf(bob, dave));
  expect(relay.vanished).toHaveLength(1);
  await relay.push(...pushesTo(dave, ALL));
  expect(await relay.wires(dave)).toEqual([...wiresOf(ALL.slice(3)), ...wiresOf(FIRST)]);
  expect(await relay.ack(dave, relay.engine.head(dave.key).headSeq)).toMatchObject({ deleted: ALL.length });
  // Nothing waits under the old key, nor will.
  expect(relay.engine.brokenQueues).toEqual([]);
});
