/** The dispatcher with a relay alone: the test plays the link, the relay, and what the relay knows of targets. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SLOW_MS, RelayCarrier } from '../../../../src/host/relay/push-batch.ts';
import type { MessageRow } from '../../../../src/host/core/rows.ts';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import type { ItemToPush } from '../../../../src/host/relay/relay-forms.ts';
import { RelayCallFailed } from '../../../../src/host/relay/relay-request.ts';
import { putOutboxRow, afterPeerChange } from '../../../../src/host/outbox/outbox.ts';
import { LanCarrier } from '../../../../src/host/lan/send-batch.ts';
import { LanClient } from '../../../../src/host/lan/lan-client.ts';
import { OutboxDispatcher } from '../../../../src/host/outbox/dispatcher.ts';
import type { RelayLink } from '../../../../src/host/relay/relay-link.ts';
import type { RelaySession } from '../../../../src/host/relay/register-host.ts';
import type { PeersAtRelay } from '../../../../src/host/relay/peers-at-relay.ts';
import { DEFAULT_LIMITS, type Limits } from '../../../../src/protocol/limits.ts';
import { relay } from '../../../support/hosts.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const RETRY_MS = 900_000;

/** The answer of `push`, or the reason why there is none. */
type Answering = (items: readonly ItemToPush[], session: RelaySession) => Promise<unknown>;

async function given(messages: number, push: Answering, ask?: () => Promise<void>, limits: Partial<Limits> = {}) {
  const clock = { wallMs: NOON_MS, steadyMs: 0 };
  const now = { nowMs: () => clock.wallMs, steadyMs: () => clock.steadyMs };
  const alice = await RelayContext.open('alice', now);
  const bob = await RelayContext.open('bob', now);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  const sent: MessageRow[] = [];
  for (let at = 0; at < messages; at++) sent.push(await alice.sendTo(bob, 'anna', ['bert']));
  const failures: RelayCallFailed[] = [];
  const session = {
    protocol: 2,
    client: { push: (items: readonly ItemToPush[]) => push(items, session) },
    scope: { relayPubkey: relay.key, epoch: 'FIRST', hostPubkey: alice.key },
    limits: { ...DEFAULT_LIMITS, ...limits },
    retentionMs: 14 * 86_400_000,
    ending: new AbortController(),
  } as unknown as RelaySession;
  const link = {
    relayPubkey: relay.key,
    health: { isDown: false, unheardMs: 0 },
    session: session as RelaySession | undefined,
    get current() {
      return link.session?.scope.hostPubkey === alice.key ? link.session : undefined;
    },
    pauseMs: 0,
    worked: () => undefined,
    failed: (_session: RelaySession, error: RelayCallFailed) => Promise.resolve(void failures.push(error)),
  };
  const peersAtRelay = {
    isEnrolled: () => (ask ? undefined : true),
    ask,
    noteAbsent: () => undefined,
    forget: () => undefined,
  };
  const relayCarrier = new RelayCarrier({
    context: alice.context,
    link: link as unknown as RelayLink,
    peers: peersAtRelay as unknown as PeersAtRelay,
    looks: { accepted: () => undefined },
  });
  const client = new LanClient(alice.context, new AbortController().signal);
  const lan = new LanCarrier({ context: alice.context, client, onDoubt: () => undefined });
  const outbox = new OutboxDispatcher({ context: alice.context, lan, relays: { all: [relayCarrier] } });
  onTestFinished(() => outbox.stop());
  return { alice, bob, clock, link, outbox, sent, failures };
}

test('batching: after slow and failed pushes fewer items go at once, and more again after quick ones', async () => {
  const sizes: number[] = [];
  const world = await given(4, (items) => {
    sizes.push(items.length);
    if (sizes.length <= 3) return Promise.reject(new RelayCallFailed('no answer'));
    if (sizes.length <= 7) world.clock.steadyMs += SLOW_MS + 1;
    const results = items.map(({ item_id }) => ({ item_id, status: 'rejected:conflict' }));
    return Promise.resolve({ epoch: 'FIRST', results });
  });
  const { alice, clock, outbox } = world;
  while (sizes.reduce((sum, size) => sum + size, 0) < 8 * 4) {
    const before = sizes.length;
    await outbox.wakeAll();
    await expect.poll(() => sizes.length, { interval: 5 }).toBeGreaterThan(before);
    await expect
      .poll(async () => (await alice.outbox()).every(({ nextAtMs }) => (nextAtMs ?? 0) > clock.wallMs), { interval: 5 })
      .toBe(true);
    clock.wallMs += RETRY_MS;
  }
  // 200 items, halved at each of seven, are one; a quick answer doubles them.
  expect(sizes).toEqual([4, 4, 4, 4, 4, 4, 3, 1, 2, 2]);
});

test('sender outbox row: an item larger than the relay takes never leaves, and its sender hears at once', async () => {
  const pushed: unknown[] = [];
  const push: Answering = async (items) => void pushed.push(items);
  const { alice, outbox, sent } = await given(1, push, undefined, { max_item_bytes: 500 });
  await outbox.wakeAll();
  await expect.poll(() => alice.mailOf('anna')).toMatchObject([{ subject: 'Undelivered to bob' }]);
  const row = await alice.rowOf(sent[0]!);
  expect(row).toMatchObject({ state: 'pending', lastError: 'rejected:too large', firstPushAtMs: null });
  expect(pushed).toEqual([]);
});

test.each([
  ['max_batch', { max_batch: 3 }, [3, 3, 1]],
  // Of wire bytes, so that a page holds what one request brought; each row has some 700.
  ['max_pull_bytes', { max_pull_bytes: 2000 }, [2, 2, 2, 1]],
])("batching: a request holds no more than the relay's %s", async (_name, limits, expected) => {
  const sizes: number[] = [];
  const { alice, outbox } = await given(
    7,
    (items) => {
      sizes.push(items.length);
      return Promise.resolve({ epoch: 'FIRST', results: items.map(() => ({ status: 'rejected:conflict' })) });
    },
    undefined,
    limits,
  );
  for (const { wireBytes } of await alice.outbox()) expect(wireBytes).toBeGreaterThan(667);
  for (const { wireBytes } of await alice.outbox()) expect(wireBytes).toBeLessThan(1000);
  await outbox.wakeAll();
  await expect.poll(async () => (await alice.outbox()).every(({ relayAttempts }) => relayAttempts === 1)).toBe(true);
  expect(sizes).toEqual(expected);
});

test('a request that this host itself ended counts for nothing: its rows are as due as before', async () => {
  const { alice, clock, outbox, link, sent, failures } = await given(1, (_items, session) => {
    link.session = undefined;
    session.ending.abort();
    return Promise.reject(new RelayCallFailed('the relay did not answer'));
  });
  await outbox.wakeAll();
  await expect.poll(() => link.session).toBeUndefined();
  await outbox.stop();
  const [message] = sent;
  if (!message) throw new Error('a message was sent');
  expect(await alice.rowOf(message)).toMatchObject({ state: 'pending', relayAttempts: 0, nextAtMs: clock.wallMs });
  expect(failures).toEqual([]);
});

test('a look that broke is repeated by itself', async () => {
  const { alice, clock, outbox } = await given(
    1,
    () => Promise.reject(new Error('nothing is pushed')),
    () => Promise.reject(new Error('it broke')),
  );
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const broken = (): number => alice.said.filter(({ message }) => message === 'the outbox could not be sent').length;
  await outbox.wakeAll();
  while (broken() < 1) await nextTurn();
  clock.wallMs += 60_000;
  vi.advanceTimersByTime(60_000);
  while (broken() < 2) await nextTurn();
  expect(vi.getTimerCount()).toBe(1);
});

test('order: an earlier message that had no answer goes with a later one that is due', async () => {
  const pushed: string[][] = [];
  const { alice, clock, outbox, sent } = await given(2, (items) => {
    pushed.push(items.map(({ item_id }) => item_id));
    return Promise.reject(new RelayCallFailed('the relay did not answer'));
  });
  await alice.store.transact((tx) => {
    const row = tx.get('outbox', 1)!;
    const waiting = { lastError: 'the relay did not answer', relayAttempts: 5, nextAtMs: clock.wallMs + RETRY_MS };
    putOutboxRow(tx, row, { ...row, ...waiting });
  });
  await outbox.wakeAll();
  await expect.poll(() => pushed.length, { interval: 5 }).toBeGreaterThan(0);
  await outbox.stop();
  expect(pushed[0]).toEqual(sent.map(({ id }) => id));
});

test('order: behind a message that the relay has no room for, later ones wait until it is tried again', async () => {
  const pushed: string[][] = [];
  const { alice, bob, clock, outbox, sent } = await given(3, (items) => {
    pushed.push(items.map(({ item_id }) => item_id));
    return Promise.resolve({
      epoch: 'FIRST',
      results: items.map(({ item_id }) => ({ item_id, status: 'rejected:quota:queue_items' })),
    });
  });
  await outbox.wakeAll();
  const allWait = async (): Promise<boolean> =>
    (await alice.outbox()).every(({ nextAtMs }) => (nextAtMs ?? 0) > clock.wallMs);
  await expect.poll(allWait, { interval: 5 }).toBe(true);
  const later = await alice.sendTo(bob, 'anna', ['bert']);
  const lastMs = Math.max(...(await alice.outbox()).slice(0, 3).map(({ nextAtMs }) => nextAtMs ?? 0));
  await outbox.wakeAll();
  await expect.poll(allWait, { interval: 5 }).toBe(true);
  expect((await alice.rowOf(later)).nextAtMs).toBe(lastMs);
  clock.wallMs = lastMs;
  await outbox.wakeAll();
  await expect.poll(() => pushed.length, { interval: 5 }).toBeGreaterThan(1);
  await outbox.stop();
  expect(pushed.slice(0, 2)).toEqual([sent.map(({ id }) => id), [...sent, later].map(({ id }) => id)]);
});

test('nothing is pushed under a key that this host gave up: it waits for the session of the new one', async () => {
  const under: string[] = [];
  const answer = (items: readonly ItemToPush[], key: string): Promise<unknown> => {
    under.push(key);
    const results = items.map(({ item_id }) => ({ item_id, status: 'rejected:quota:queue_items' }));
    return Promise.resolve({ epoch: 'FIRST', results });
  };
  const { alice, link, outbox } = await given(1, (items) => answer(items, 'the former key'));
  const former = link.session as RelaySession;
  await rotateOwnKey(alice.context);
  await outbox.wakeAll();
  for (let turn = 0; turn < 50; turn++) {
    await alice.store.read(() => undefined);
    await nextTurn();
  }
  link.session = {
    ...former,
    client: { push: (items: readonly ItemToPush[]) => answer(items, 'the new key') },
    scope: { ...former.scope, hostPubkey: alice.key },
  } as unknown as RelaySession;
  const { peerId } = (await alice.outbox())[0]!;
  const ready = { type: 'relay-ready', relayPubkey: relay.key, epoch: former.scope.epoch } as const;
  await alice.store.transact((tx) => afterPeerChange(tx, alice.context, peerId, ready));
  await outbox.wakeAll();
  await expect.poll(() => under.length, { interval: 5 }).toBeGreaterThan(0);
  expect(under).toEqual(['the new key']);
});
