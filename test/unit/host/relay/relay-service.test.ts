import { expect, test, vi } from 'vitest';
import { relayForTest } from '../../../support/http-relay.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };

test('mail goes to a paired host over the relay, and its receipt comes back', async () => {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  await alice.use(relay.url);
  await bob.use(relay.url);
  await vi.waitFor(async () => expect((await bob.status()).state).toBe('ready'), WITHIN);
  const sent = await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect(await alice.rowOf(sent)).toMatchObject({ state: 'done' }), WITHIN);
  expect(await bob.mailOf('bert')).toMatchObject([{ ref: sent.ref }]);
  expect(await alice.status()).toMatchObject({ state: 'ready', problem: null, outbox: { pending: 0 } });
});
