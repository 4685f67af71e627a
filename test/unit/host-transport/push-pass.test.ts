/** The pass over a relay alone: the link, the relay and what it knows of targets are told by the test. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SLOW_MS } from '../../../src/host/core/batch-size.ts';
import type { MessageRow } from '../../../src/host/core/rows.ts';
import type { ItemToPush } from '../../../src/host/transport/relay-client.ts';
import { RelayCallFailed } from '../../../src/host/transport/relay-request.ts';
import { PushPass } from '../../../src/host/transport/relay-side/push-pass.ts';
import type { RelayLink } from '../../../src/host/transport/relay-side/relay-link.ts';
import type { RelaySession } from '../../../src/host/transport/relay-side/relay-session.ts';
import type { Targets } from '../../../src/host/transport/relay-side/targets.ts';
import { DEFAULT_LIMITS, type Limits } from '../../../src/protocol/limits.ts';
import { relay } from '../../support/hosts.ts';
import { RelayOffice, pinEachOther } from '../../support/relay-offices.ts';
import { NOON_MS } from '../../support/test-clock.ts';

const RETRY_MS = 900_000;

/** What `push` answers, or why it does not. */
type Answering = (items: readonly ItemToPush[], session: RelaySession) => Promise<unknown>;

async function given(
  messages: number,
  push: Answering,
  isEnrolled = () => Promise.resolve(true),
  limits: Partial<Limits> = {},
) {
  const clock = { wallMs: NOON_MS, steadyMs: 0 };
  const now = { nowMs: () => clock.wallMs, steadyMs: () => clock.steadyMs };
  const alice = await RelayOffice.open('alice', now);
  const bob = await RelayOffice.open('bob', now);
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
    session: session as RelaySession | undefined,
    pauseMs: 0,
    worked: () => undefined,
    failed: (_session: RelaySession, error: RelayCallFailed) => Promise.resolve(void failures.push(error)),
  };
  const targets = { isEnrolled, noteAbsent: () => undefined };
  const pass = new PushPass({
    office: alice.office,
    link: link as unknown as RelayLink,
    targets: targets as unknown as Targets,
  });
  onTestFinished(() => pass.stop());
  return { alice, clock, link, pass, sent, failures };
}

test('batching: after slow pushes fewer items go at once, and more again after quick ones', async () => {
  const sizes: number[] = [];
  const world = await given(4, (items) => {
    sizes.push(items.length);
    if (sizes.length <= 7) world.clock.steadyMs += SLOW_MS + 1;
    const results = items.map(({ item_id }) => ({ item_id, status: 'rejected:quota:queue_items' }));
    return Promise.resolve({ epoch: 'FIRST', results });
  });
  const { alice, clock, pass } = world;
  while (sizes.reduce((sum, size) => sum + size, 0) < 8 * 4) {
    const before = sizes.length;
    pass.begin();
    await expect.poll(() => sizes.length, { interval: 5 }).toBeGreaterThan(before);
    await expect
      .poll(async () => (await alice.outbox()).every(({ nextAtMs }) => (nextAtMs ?? 0) > clock.wallMs), { interval: 5 })
      .toBe(true);
    clock.wallMs += RETRY_MS;
  }
  // 200 items, halved at each of seven, are one; a quick answer doubles them.
  expect(sizes).toEqual([4, 4, 4, 4, 4, 4, 3, 1, 2, 2]);
});

test.each([
  ['max_batch', { max_batch: 3 }, [3, 3, 1]],
  // Of wire bytes, so that a page holds what one request brought; each row has some 700.
  ['max_pull_bytes', { max_pull_bytes: 2000 }, [2, 2, 2, 1]],
])("batching: a request holds no more than the relay's %s", async (_name, limits, expected) => {
  const sizes: number[] = [];
  const { alice, pass } = await given(
    7,
    (items) => {
      sizes.push(items.length);
      return Promise.resolve({ epoch: 'FIRST', results: items.map(() => ({ status: 'rejected:quota:queue_items' })) });
    },
    undefined,
    limits,
  );
  for (const { wireBytes } of await alice.outbox()) expect(wireBytes).toBeGreaterThan(667);
  for (const { wireBytes } of await alice.outbox()) expect(wireBytes).toBeLessThan(1000);
  pass.begin();
  await expect.poll(async () => (await alice.outbox()).every(({ relayAttempts }) => relayAttempts === 1)).toBe(true);
  expect(sizes).toEqual(expected);
});

test('a request that this host itself ended counts for nothing: its rows are as due as before', async () => {
  const { alice, clock, pass, link, sent, failures } = await given(1, (_items, session) => {
    link.session = undefined;
    session.ending.abort();
    return Promise.reject(new RelayCallFailed('the relay did not answer'));
  });
  pass.begin();
  await expect.poll(() => link.session).toBeUndefined();
  await pass.stop();
  const [message] = sent;
  if (!message) throw new Error('a message was sent');
  expect(await alice.rowOf(message)).toMatchObject({ state: 'pending', relayAttempts: 0, nextAtMs: clock.wallMs });
  expect(failures).toEqual([]);
});

test('a pass that broke is begun again by itself', async () => {
  const { alice, pass } = await given(
    1,
    () => Promise.reject(new Error('nothing is pushed')),
    () => Promise.reject(new Error('it broke')),
  );
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const broken = (): number => alice.said.filter(({ message }) => message === 'nothing could be pushed').length;
  pass.begin();
  while (broken() < 1) await nextTurn();
  vi.advanceTimersByTime(60_000);
  while (broken() < 2) await nextTurn();
  expect(vi.getTimerCount()).toBe(1);
});
