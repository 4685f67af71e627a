/** "Sequence rules", 1 to 3. */
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { pushOf } from '../support/commands.ts';
import { alice, bob } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../support/test-relay.ts';

async function seqOfPush(relay: TestRelay, id: string): Promise<number> {
  return (await relay.pushOne(pushOf(alice, id, [[bob, id]]))).seqs[0]!;
}

test('sequence rule 1: sequence numbers never restart and are never reused', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs: number[] = [];
  const pushOne = async (): Promise<void> => void seqs.push(await seqOfPush(relay, `m${seqs.length}`));
  await pushOne();
  await relay.ack(bob, seqs.at(-1)!);
  // Neither an empty queue, nor a restart, nor a clock that goes back brings an old number.
  await pushOne();
  await relay.reopen();
  await pushOne();
  relay.clock.move(-86_400_000);
  await pushOne();
  await relay.ack(bob, seqs.at(-1)!);
  await relay.reopen();
  await pushOne();
  expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  expect(new Set(seqs).size).toBe(5);
});

test('sequence rule 2: a new seq is max(next sequence for the target, now)', async () => {
  const relay = await enrolledTestRelay(bob);
  expect(await seqOfPush(relay, 'm1')).toBe(NOON_MS);
  expect(await seqOfPush(relay, 'm2')).toBe(NOON_MS + 1);
  relay.clock.move(1);
  expect(await seqOfPush(relay, 'm3')).toBe(NOON_MS + 2);
  relay.clock.move(1000);
  expect(await seqOfPush(relay, 'm4')).toBe(NOON_MS + 1001);
  relay.clock.move(-2000);
  expect(await seqOfPush(relay, 'm5')).toBe(NOON_MS + 1002);
});

test('sequence rule 2: a store restored from an older copy allocates above anything it issued before', async () => {
  const relay = await enrolledTestRelay(bob);
  await seqOfPush(relay, 'm1');
  await relay.close();
  const levelFolder = join(relay.folder, LEVEL_FOLDER);
  await cp(levelFolder, `${levelFolder}.copy`, { recursive: true });
  await relay.open();
  relay.clock.move(5000);
  const lastBefore = await seqOfPush(relay, 'm2');
  await relay.close();
  await rm(levelFolder, { recursive: true });
  await rename(`${levelFolder}.copy`, levelFolder);
  relay.clock.move(1000);
  await relay.open();
  expect(relay.engine.head(bob.key).headSeq).toBe(NOON_MS);
  expect(await seqOfPush(relay, 'm3')).toBeGreaterThan(lastBefore);
});

test('sequence rule 3: the relay remembers acked_through, per target', async () => {
  const relay = await enrolledTestRelay(bob, alice);
  await relay.push(pushOf(alice, 'm1', [[bob, 'x']]), pushOf(alice, 'm2', [[bob, 'x']]));
  await relay.push(pushOf(alice, 'm3', [[alice, 'x']]));
  await relay.ack(bob, NOON_MS);
  await relay.reopen();
  expect(relay.engine.head(bob.key)).toMatchObject({ ackedThrough: NOON_MS, headSeq: NOON_MS + 1 });
  expect(relay.engine.head(alice.key)).toMatchObject({ ackedThrough: 0 });
});
