/** "POST /v2/relay/rotate", rules 1 to 3 and what is said beside them; docs/protocol.md, "Keys that change". */
import { describe, expect, test } from 'vitest';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import {
  accountEnrolOf,
  denyOf,
  encKeyOf,
  enrolOf,
  pushOf,
  revokeOf,
  rotateOf,
  sendersOf,
} from '../support/commands.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { expectReplayed } from '../support/replay.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../support/test-relay.ts';

const DAY_MS = 86_400_000;
const RETENTION_MS = 14 * DAY_MS;
const HORIZON_MS = RETENTION_MS + 7 * DAY_MS;
const NOT_ACCEPTED = 'rejected:sender not accepted by target';

const open = (): Promise<TestRelay> => enrolledTestRelay(alice, bob);

async function verdictOf(relay: TestRelay, from: TestHost, itemId: string, to: TestHost, wire = 'x'): Promise<string> {
  return (await relay.pushOne(pushOf(from, itemId, [[to, wire]]))).verdict;
}

describe('rotate rule 1', () => {
  test('rotate rule 1: name and account move to the new key', async () => {
    const relay = await open();
    await relay.enrol(accountEnrolOf(bob, 'acme'));
    await relay.rotate(rotateOf(bob, carol));
    expect(relay.engine.directory.get(carol.key)).toMatchObject({
      hostName: 'bob',
      account: 'acme',
      revokedAtMs: null,
    });
    expect(relay.engine.directory.findByName(bob.name, null)).toMatchObject({ hostPubkey: carol.key });
    expect(relay.engine.directory.liveCount).toBe(2);
  });

  test('rotate rule 1: queued items move, re-sequenced in order', async () => {
    const relay = await open();
    for (const id of ['m1', 'm2', 'm3']) await relay.pushOne(pushOf(alice, id, [[bob, id]]));
    await relay.ack(bob, NOON_MS);
    relay.clock.move(1000);
    expect(await relay.rotate(rotateOf(bob, carol))).toEqual({
      type: 'KeyRotated',
      hostPubkey: carol.key,
      movedItems: 2,
      headSeq: NOON_MS + 1001,
    });
    const queue = await relay.queue(carol);
    expect(queue.map(({ itemId, seq }) => [itemId, seq])).toEqual([
      ['m2', NOON_MS + 1000],
      ['m3', NOON_MS + 1001],
    ]);
    expect(await relay.wires(carol)).toEqual(['m2', 'm3']);
    expect(relay.engine.head(carol.key)).toMatchObject({ ackedThrough: 0, queueItems: 2 });
  });

  test('rotate rule 1: dedup rows are kept, for what waits and for what was acked', async () => {
    const relay = await open();
    for (const id of ['m1', 'm2']) await relay.pushOne(pushOf(alice, id, [[bob, 'x']]));
    await relay.ack(bob, NOON_MS);
    await relay.rotate(rotateOf(bob, carol));
    for (const [at, id] of ['m1', 'm2'].entries()) {
      const again = await relay.pushOne(pushOf(alice, id, [[carol, 'x']]));
      expect(again).toEqual({ verdict: 'duplicate', seqs: [NOON_MS + at] });
      expect(await verdictOf(relay, alice, id, carol, 'y')).toBe('rejected:conflict');
    }
    expect(await relay.queue(carol)).toHaveLength(1);
  });

  test('rotate rule 1: an item keeps its deadline, whatever was rotated since', async () => {
    const relay = await open();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    relay.clock.move(RETENTION_MS - 1);
    await relay.rotate(rotateOf(bob, carol));
    await relay.sweep();
    expect(await relay.queue(carol)).toHaveLength(1);
    await relay.sweepAfter(1);
    expect(await relay.queue(carol)).toEqual([]);
    const [notice] = await relay.queue(alice);
    expect(notice?.itemId).toBe(`expired:m1:${bob.key}`);
    expect(await verdictOf(relay, alice, 'm1', carol)).toBe('duplicate');
  });
});

describe('rotate rule 2', () => {
  test("rotate rule 2: the old key's own allowlist moves", async () => {
    const relay = await open();
    await relay.enrolAll(dave);
    await relay.publishSenders(sendersOf(bob, [alice]));
    await relay.rotate(rotateOf(bob, carol));
    expect(await verdictOf(relay, alice, 'm1', carol)).toBe('accepted');
    expect(await verdictOf(relay, dave, 'm1', carol)).toBe(NOT_ACCEPTED);
  });

  test("rotate rule 2: in other targets' allowlists the new key counts for the old one", async () => {
    const relay = await open();
    await relay.publishSenders(sendersOf(bob, [alice]));
    expect(await verdictOf(relay, carol, 'm1', bob)).toBe(NOT_ACCEPTED);
    await relay.rotate(rotateOf(alice, carol));
    expect(await verdictOf(relay, carol, 'm1', bob)).toBe('accepted');
    await relay.rotate(rotateOf(carol, dave));
    expect(await verdictOf(relay, dave, 'm2', bob)).toBe('accepted');
    // Also in a list that still names the retired key and comes later.
    await relay.publishSenders(sendersOf(bob, [alice], { iatMs: NOON_MS + 1 }));
    expect(await verdictOf(relay, dave, 'm3', bob)).toBe('accepted');
  });

  test.each([
    { whose: 'old', taken: alice, refused: dave },
    { whose: 'new', taken: dave, refused: alice },
  ])('rotate rule 2: of two lists the newer one stays, here that of the $whose key', async ({ taken, refused }) => {
    const relay = await open();
    await relay.enrolAll(carol, dave);
    const iatMs = (sender: TestHost): number => NOON_MS - (sender === taken ? 1 : 2);
    await relay.publishSenders(sendersOf(bob, [alice], { iatMs: iatMs(alice) }));
    await relay.publishSenders(sendersOf(carol, [dave], { iatMs: iatMs(dave) }));
    await relay.rotate(rotateOf(bob, carol));
    expect(await verdictOf(relay, taken, 'm1', carol)).toBe('accepted');
    expect(await verdictOf(relay, refused, 'm1', carol)).toBe(NOT_ACCEPTED);
    // And an older one does not come back.
    const older = sendersOf(carol, [refused], { iatMs: NOON_MS - 2 });
    expect(await relay.publishSenders(older)).toMatchObject({ code: 'STALE_LIST' });
  });
});

const keyOf = (turn: number): TestHost => hostNamed(`turn ${turn}`);

test('rotate rule 2: the old key stays swapped in lists, deny entries and receipts, over many rotations', async () => {
  const relay = await openTestRelay();
  const TURNS = 70;
  await relay.enrolAll(keyOf(0), bob, carol);
  // The one named the first key, the other one in the middle: both are dropped of the lineage by then.
  await relay.publishSenders(sendersOf(bob, [keyOf(0)]));
  for (let turn = 0; turn < TURNS; turn++) {
    if (turn === 4) await relay.publishSenders(sendersOf(carol, [keyOf(4)], { iatMs: relay.clock.nowMs }));
    const rotated = await relay.rotate(rotateOf(keyOf(turn), keyOf(turn + 1), { iatMs: relay.clock.nowMs }));
    expect(rotated).toMatchObject({ type: 'KeyRotated' });
    relay.clock.move(DAY_MS);
  }
  const present = keyOf(TURNS);
  expect(relay.engine.lineage(present.key)).not.toContain(keyOf(4).key);
  const expectSwapped = async (id: string): Promise<void> => {
    for (const target of [bob, carol])
      expect((await relay.pushOne(pushOf(present, id, [[target, 'x']]))).verdict).toBe('accepted');
    expect((await relay.pushOne(pushOf(alice, id, [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  };
  await expectSwapped('m1');
  await relay.reopen();
  await expectSwapped('m2');
  expect(relay.engine.directory.keysOf(present.key).size).toBe(TURNS + 1);
  // Kept out by its first key, it does not come in by the next one.
  await relay.deny(denyOf({ hostFp: hostFingerprint(keyOf(0).key) }));
  expect(relay.engine.directory.get(present.key)?.revokedAtMs).toBe(relay.clock.nowMs);
});

describe('rotate rule 3', () => {
  test('rotate rule 3: the old key is revoked and stays so', async () => {
    const relay = await open();
    await relay.rotate(rotateOf(bob, carol));
    expect(relay.engine.directory.get(bob.key)?.revokedAtMs).toBe(NOON_MS);
    expect(await relay.enrol(enrolOf(bob))).toMatchObject({ code: 'ENROL_REFUSED' });
    expect(await verdictOf(relay, alice, 'm1', bob)).toBe('rejected:target revoked');
    await relay.reopen();
    expect(await relay.enrol(accountEnrolOf(bob, 'acme'))).toMatchObject({ code: 'ENROL_REFUSED' });
  });

  test('rotate rule 3: the new key MUST NOT be revoked', async () => {
    const relay = await open();
    await relay.enrolAll(carol);
    await relay.engine.admissions.revokeHost(revokeOf(carol));
    const { lastLsn } = relay.store;
    expect(await relay.rotate(rotateOf(bob, carol))).toMatchObject({ code: 'ENROL_REFUSED' });
    expect(relay.store.lastLsn).toBe(lastLsn);
    expect(relay.engine.directory.get(bob.key)?.revokedAtMs).toBeNull();
  });

  test('rotate rule 3: a circle is refused, however long', async () => {
    const relay = await open();
    await relay.rotate(rotateOf(bob, carol));
    await relay.rotate(rotateOf(carol, dave));
    for (const retired of [bob, carol]) {
      expect(await relay.rotate(rotateOf(dave, retired))).toMatchObject({ code: 'ENROL_REFUSED' });
    }
  });

  test('rotate rule 3: where the new key has items the old queue is appended after them', async () => {
    const relay = await open();
    await relay.enrolAll(carol);
    await relay.pushOne(pushOf(alice, 'old-1', [[bob, 'old-1']]));
    await relay.pushOne(pushOf(alice, 'new-1', [[carol, 'new-1']]));
    relay.clock.move(5);
    await relay.pushOne(pushOf(alice, 'new-2', [[carol, 'new-2']]));
    await relay.pushOne(pushOf(alice, 'old-2', [[bob, 'old-2']]));
    await relay.rotate(rotateOf(bob, carol));
    expect(await relay.wires(carol)).toEqual(['new-1', 'new-2', 'old-1', 'old-2']);
    const seqs = (await relay.queue(carol)).map(({ seq }) => seq);
    expect(seqs).toEqual([NOON_MS, NOON_MS + 5, NOON_MS + 6, NOON_MS + 7]);
  });

  test('rotate rule 3: the merged queue may pass the quota; nothing is dropped, nothing more is taken', async () => {
    const relay = await openTestRelay({ limits: { max_queue_items: 2 }, hosts: [alice, bob, carol] });
    for (const target of [bob, carol])
      for (const id of ['m1', 'm2']) await relay.pushOne(pushOf(alice, id + target.name, [[target, id]]));
    expect(await relay.rotate(rotateOf(bob, carol))).toMatchObject({ movedItems: 2 });
    expect(await relay.queue(carol)).toHaveLength(4);
    expect(await verdictOf(relay, alice, 'm3', carol)).toBe('rejected:quota:queue_items');
    const third = (await relay.queue(carol))[2]!;
    await relay.ack(carol, third.seq);
    expect(await verdictOf(relay, alice, 'm3', carol)).toBe('accepted');
  });
});

test('rotate: the encryption key is the new key’s own, and until it has one there is none', async () => {
  const relay = await open();
  await relay.engine.publishEncKey(encKeyOf(bob, 'old'));
  await relay.rotate(rotateOf(bob, carol));
  expect(await relay.engine.encKey(bob.key)).toBeUndefined();
  expect(await relay.engine.encKey(carol.key)).toBeUndefined();
  await relay.engine.publishEncKey(encKeyOf(carol, 'new'));
  expect(await relay.engine.encKey(carol.key)).toMatchObject({ encPub: 'new' });
});

test('rotate: the same rotation again answers moved_items 0, also after an ack and after a restart', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.rotate(rotateOf(bob, carol));
  await relay.ack(carol, NOON_MS + 1);
  await relay.reopen();
  const { lastLsn } = relay.store;
  relay.clock.move(DAY_MS);
  for (const iatMs of [NOON_MS, NOON_MS + 1]) {
    const again = await relay.rotate(rotateOf(bob, carol, { iatMs }));
    expect(again).toMatchObject({ movedItems: 0, headSeq: NOON_MS + 1 });
  }
  expect(relay.store.lastLsn).toBe(lastLsn);
});

test('rotate: a restored client posts its whole chain, oldest first', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const chain = [rotateOf(bob, carol), rotateOf(carol, dave)];
  expect(await relay.rotate(chain[1]!)).toMatchObject({ code: 'NOT_ENROLLED' });
  for (const rotation of [...chain, ...chain])
    expect(await relay.rotate(rotation)).toMatchObject({ type: 'KeyRotated' });
  expect(await relay.wires(dave)).toEqual(['x']);
});

describe('lineage', () => {
  test('lineage: a pusher that rotated between two attempts gets duplicate with the original seq', async () => {
    const relay = await open();
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(alice, carol));
    relay.clock.move(1000);
    expect(await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).toEqual({ verdict: 'duplicate', seqs });
    expect(await verdictOf(relay, carol, 'm1', bob, 'y')).toBe('rejected:conflict');
    expect(await relay.queue(bob)).toHaveLength(1);
  });

  test('lineage: an item stored for the old key of a target is duplicate for its new key', async () => {
    const relay = await open();
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(bob, carol));
    expect(await relay.pushOne(pushOf(alice, 'm1', [[carol, 'x']]))).toEqual({ verdict: 'duplicate', seqs });
  });

  test('lineage: both may have rotated, several times; the keys of the answer are those of the request', async () => {
    const relay = await open();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    const keys = ['a2', 'a3', 'b2', 'b3'].map((name) => hostNamed(name));
    const [a2, a3, b2, b3] = keys as [TestHost, TestHost, TestHost, TestHost];
    for (const [from, to] of [
      [alice, a2],
      [bob, b2],
      [b2, b3],
      [a2, a3],
    ] as const)
      await relay.rotate(rotateOf(from, to));
    const [outcome] = await relay.push(pushOf(a3, 'm1', [[b3, 'x']]));
    expect(outcome).toMatchObject({
      status: 'duplicate',
      atMs: NOON_MS,
      targets: [{ hostPubkey: b3.key, seq: NOON_MS }],
    });
    const v1 = pushOf(a3, 'm1', [[b3, 'sealed anew']], { isKnownById: true });
    expect((await relay.pushOne(v1)).verdict).toBe('duplicate');
    expect(await relay.wires(b3)).toEqual(['x']);
  });

  test('lineage: where both keys of a host had the id, either bytes are a duplicate, others a conflict', async () => {
    const relay = await open();
    await relay.enrolAll(carol);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'for bob']]));
    await relay.pushOne(pushOf(alice, 'm1', [[carol, 'for carol']]));
    await relay.rotate(rotateOf(bob, carol));
    expect(await verdictOf(relay, alice, 'm1', carol, 'for bob')).toBe('duplicate');
    expect(await verdictOf(relay, alice, 'm1', carol, 'for carol')).toBe('duplicate');
    expect(await verdictOf(relay, alice, 'm1', carol, 'for both')).toBe('rejected:conflict');
    expect(await relay.wires(carol)).toEqual(['for carol', 'for bob']);
  });

  test('lineage: another host is no duplicate of it, and may use the same ids', async () => {
    const relay = await open();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(alice, carol));
    expect(await verdictOf(relay, dave, 'm1', bob, 'another')).toBe('accepted');
  });

  test('lineage: what was known is forgotten at its horizon, whatever was rotated since', async () => {
    const relay = await open();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(bob, carol));
    await relay.rotate(rotateOf(alice, dave));
    await relay.ack(carol, NOON_MS + 1);
    await relay.sweepAfter(RETENTION_MS + HORIZON_MS - 1);
    expect(await verdictOf(relay, dave, 'm1', carol)).toBe('duplicate');
    await relay.sweepAfter(1);
    expect(relay.dedupRows(alice)).toBe(0);
    expect(await verdictOf(relay, dave, 'm1', carol)).toBe('accepted');
    await expectReplayed(relay.store);
  });

  test('lineage: the sender of an expired item is told under the key that it has now', async () => {
    const relay = await open();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(alice, carol));
    await relay.rotate(rotateOf(carol, dave));
    await relay.sweepAfter(RETENTION_MS);
    expect(await relay.queue(alice)).toEqual([]);
    expect((await relay.queue(dave)).map(({ itemId, kind }) => [itemId, kind])).toEqual([
      [`expired:m1:${bob.key}`, 'expired'],
    ]);
  });
});
