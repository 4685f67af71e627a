/** Tests how long a relay is left alone: what the link makes of what its users bring back. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { RelayCallFailed, RelayProblem } from '../../../../src/host/relay/relay-request.ts';
import { RelayLink } from '../../../../src/host/relay/relay-link.ts';
import { RELAY_TIMING } from '../../../../src/host/relay/relay-timing.ts';
import type { RelaySession } from '../../../../src/host/relay/register-host.ts';
import { problemDocument } from '../../../../src/protocol/problem.ts';
import { FIRST_ADAPTER } from '../../../support/adapters.ts';
import { relay as relayHost } from '../../../support/hosts.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { RelayContext } from '../../../support/relay-contexts.ts';

/** So many that the pause between two is long. */
const FAILURES = 7;

/** Makes the link of a host that knows a relay; the clock of its pauses stands still. */
async function linkForTest({
  isOneOfMany = false,
}: {
  isOneOfMany?: boolean;
} = {}): Promise<{ host: RelayContext; link: RelayLink; session: () => Promise<RelaySession> }> {
  const relay = await relayForTest(FIRST_ADAPTER);
  const host = await RelayContext.open('alice', { nowMs: () => relay.clock.nowMs(), steadyMs: () => 0 });
  await host.use(relay.url);
  await host.stop();
  const stopping = new AbortController();
  const { context } = host;
  const link = new RelayLink({
    context,
    relayPubkey: relayHost.key,
    timing: RELAY_TIMING,
    stopping: stopping.signal,
    isOneOfMany: () => isOneOfMany,
    entered: () => undefined,
  });
  onTestFinished(async () => {
    stopping.abort();
    await link.stop();
  });
  link.refresh();
  const session = async (): Promise<RelaySession> => {
    const made = await link.ready();
    if (!made) throw new Error('the link was stopped');
    return made;
  };
  return { host, link, session };
}

test('a session of a key that this host gave up is there until the next one, and is not its present one', async () => {
  const { host, link, session } = await linkForTest();
  const made = await session();
  expect(link.current).toBe(made);
  await rotateOwnKey(host.context);
  expect([link.session, link.current]).toEqual([made, undefined]);
  link.refresh();
  await vi.waitFor(() => expect(link.current?.scope.hostPubkey).toBe(host.key), { timeout: PATIENCE_MS });
});

test('one of several relays is looked for often, however long it was away', async () => {
  const { link, session } = await linkForTest({ isOneOfMany: true });
  const made = await session();
  for (let failures = 0; failures < FAILURES; failures++) await link.failed(made, new RelayCallFailed(''));
  expect(link.pauseMs).toBeGreaterThan(7_000);
  expect(link.pauseMs).toBeLessThanOrEqual(15_000);
});

test('a relay that asked to be left alone is, whatever else fails meanwhile', async () => {
  const { link, session } = await linkForTest();
  const made = await session();
  await link.failed(made, new RelayCallFailed('', 429, {}, { retryAfterMs: 600_000 }));
  await link.failed(made, new RelayCallFailed(''));
  expect(link.pauseMs).toBe(600_000);
});

test('a relay that answers from another epoch than its own is asked again at once, and then left alone', async () => {
  const { link, session } = await linkForTest();
  const first = await session();
  link.ended(first);
  expect(link.pauseMs).toBe(0);
  const second = await session();
  expect(second).not.toBe(first);
  link.ended(second);
  expect(link.pauseMs).toBeGreaterThan(0);
  expect(link.problem).toMatchObject({ message: expect.stringContaining('another epoch') });
});

test('a relay that comes back in another epoch is asked again at once, however long it gave no answer', async () => {
  const { link, session } = await linkForTest();
  const first = await session();
  for (let failures = 0; failures < FAILURES; failures++) await link.failed(first, new RelayCallFailed(''));
  expect(link.pauseMs).toBeGreaterThan(30_000);
  const { resumed } = link;
  await link.failed(first, new RelayProblem(409, problemDocument('EPOCH_CHANGED', 'another one')));
  expect([link.pauseMs, resumed.aborted]).toEqual([0, true]);
  expect(await session()).not.toBe(first);
});

test('a relay that ends each new session is left alone for longer and longer', async () => {
  const { link, session } = await linkForTest();
  const pauses: number[] = [];
  const over = new RelayProblem(409, problemDocument('EPOCH_CHANGED', 'another one'));
  const first = await session();
  await link.failed(first, over);
  const second = await session();
  await link.failed(second, over);
  pauses.push(link.pauseMs);
  link.answered();
  const third = await session();
  await link.failed(third, over);
  pauses.push(link.pauseMs);
  expect(pauses[0]).toBeGreaterThanOrEqual(1_000);
  expect(pauses[1]).toBeGreaterThanOrEqual(2_000);
});

test('one answered request ends the pause after another, but not one that the relay asked for', async () => {
  const { link, session } = await linkForTest();
  const made = await session();
  for (let failures = 0; failures < FAILURES; failures++) await link.failed(made, new RelayCallFailed(''));
  const { resumed } = link;
  link.worked();
  expect([link.pauseMs, resumed.aborted]).toEqual([0, true]);
  await link.failed(made, new RelayCallFailed('', 429, {}, { retryAfterMs: 600_000 }));
  link.worked();
  expect(link.pauseMs).toBe(600_000);
});
