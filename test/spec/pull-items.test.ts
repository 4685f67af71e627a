/** "GET /v2/relay/items", rules 1 and 2. Rule 3 shows over HTTP only. */
import { expect, test } from 'vitest';
import { pushOf } from '../support/commands.ts';
import { alice, bob } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, openTestRelay } from '../support/test-relay.ts';

/** Items of these sizes wait for bob, with the sequence numbers from NOON_MS on. */
async function relayWith(sizes: readonly number[], limits = {}): Promise<TestRelay> {
  const relay = await openTestRelay({ limits, hosts: [bob] });
  await relay.push(...sizes.map((size, at) => pushOf(alice, `m${at}`, [[bob, Buffer.alloc(size)]])));
  return relay;
}

test('pull rule 1: head_seq is the last seq allocated for the caller, wherever the page ends', async () => {
  const relay = await relayWith([1, 1, 1]);
  const seqs = async (after: number, limit: number) => {
    const { rows, headSeq, more } = await relay.engine.page(bob.key, after, limit);
    return { seqs: rows.map(({ seq }) => seq - NOON_MS), head: headSeq - NOON_MS, more };
  };
  expect(await seqs(0, 2)).toEqual({ seqs: [0, 1], head: 2, more: true });
  expect(await seqs(NOON_MS + 1, 2)).toEqual({ seqs: [2], head: 2, more: false });
  expect(await seqs(NOON_MS + 2, 2)).toEqual({ seqs: [], head: 2, more: false });
  await relay.ack(bob, NOON_MS + 2);
  expect(await seqs(0, 2)).toEqual({ seqs: [], head: 2, more: false });
});

test('pull rule 1: the head of a caller that never got anything is 0', async () => {
  const relay = await relayWith([1]);
  expect(await relay.engine.page(alice.key, 0, 500)).toMatchObject({ headSeq: 0, rows: [], more: false });
});

test('pull rule 2: a page stops at max_pull items', async () => {
  const relay = await relayWith([1, 1, 1, 1]);
  const page = await relay.engine.page(bob.key, 0, 3);
  expect(page.rows).toHaveLength(3);
  expect(page.more).toBe(true);
});

test('pull rule 2: a page stops at about max_pull_bytes, counted in wire bytes', async () => {
  const relay = await relayWith([40, 40, 40, 10], { max_pull_bytes: 100 });
  const sizes = async (after: number) => (await relay.engine.page(bob.key, after, 500)).rows.map(({ bytes }) => bytes);
  expect(await sizes(0)).toEqual([40, 40]);
  expect(await sizes(NOON_MS + 1)).toEqual([40, 10]);
});

test('pull rule 2: a page holds at least one item, however large', async () => {
  const relay = await relayWith([300, 1], { max_pull_bytes: 100 });
  const page = await relay.engine.page(bob.key, 0, 500);
  expect(page.rows.map(({ bytes }) => bytes)).toEqual([300]);
  expect(page.more).toBe(true);
});
