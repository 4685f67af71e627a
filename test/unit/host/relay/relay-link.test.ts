/** How long a relay is left alone: what the link makes of what its users bring back. */
import { expect, onTestFinished, test } from 'vitest';
import { RelayCallFailed } from '../../../../src/host/relay/relay-request.ts';
import { RELAY_TIMING, RelayLink } from '../../../../src/host/relay/relay-link.ts';
import type { RelaySession } from '../../../../src/host/relay/relay-session.ts';
import { FIRST_ADAPTER } from '../../../support/adapters.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { RelayContext } from '../../../support/relay-contexts.ts';

/** Of a host that knows a relay; the clock of its pauses stands still. */
async function linkForTest(): Promise<{ link: RelayLink; session: () => Promise<RelaySession> }> {
  const relay = await relayForTest(FIRST_ADAPTER);
  const host = await RelayContext.open('alice', { nowMs: () => relay.clock.nowMs(), steadyMs: () => 0 });
  await host.use(relay.url);
  await host.stop();
  const stopping = new AbortController();
  const { context } = host;
  const link = new RelayLink({ context, timing: RELAY_TIMING, stopping: stopping.signal });
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
  return { link, session };
}

test('a relay that asked to be left alone is, whatever else fails meanwhile', async () => {
  const { link, session } = await linkForTest();
  const made = await session();
  await link.failed(made, new RelayCallFailed('', 429, {}, { retryAfterMs: 600_000 }));
  await link.failed(made, new RelayCallFailed(''));
  expect(link.pauseMs).toBe(600_000);
});

test('a relay that answers from another epoch than it says it is in is asked again at once, and then left alone', async () => {
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
