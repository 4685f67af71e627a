/** Two hosts that both use two relays: mail goes over the first, and when that is away over the second. */
import { expect, test } from 'vitest';
import { copiesOf } from '../../../src/host/core/outbox-row.ts';
import type { RelayContext } from '../../support/relay-contexts.ts';
import { inState, type SentMessage, until, WORLD_TEST_MS } from '../../support/relay-world.ts';
import { addTo, inStates, pairedHosts, RELAYS, relayNumbered } from '../../support/several-relays.ts';

const nameOf = (key: string): string => (key === RELAYS[0].key ? 'first' : 'second');

async function copies(host: RelayContext, sent: SentMessage): Promise<string[]> {
  const row = await host.rowOf(sent);
  return row ? copiesOf(row).map(({ acceptance }) => nameOf(acceptance.relayPubkey)) : [];
}

test.each([
  ['gone', 3_000],
  ['silent', 12_000],
] as const)(
  'a relay that is %s: mail takes the other one within %i ms, and is delivered once and in order',
  async (isAway, withinMs) => {
    const [first, second] = [await relayNumbered(1), await relayNumbered(2)];
    const { alice, bob } = await pairedHosts();
    for (const host of [alice, bob]) {
      await host.use(first.proxy.url);
      await addTo(host, { url: second.proxy.url });
      await inStates(host, ['ready', 'ready']);
    }
    const one = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, one, 'done');
    expect(await copies(alice, one)).toEqual(['first']);
    first.proxy.isAway = isAway;
    first.proxy.cutAll();
    const beganMs = Date.now();
    const two = await alice.sendTo(bob, 'anna', ['bert']);
    const three = await alice.sendTo(bob, 'anna', ['bert']);
    await until(async () => expect(await copies(alice, three)).toContain('second'));
    // A machine that is busy is no slower relay.
    expect(Date.now() - beganMs).toBeLessThan(withinMs * 3);
    for (const sent of [two, three]) await inState(alice, sent, 'done');
    const mail = await bob.mailOf('bert');
    expect(mail.map(({ ref }) => ref)).toEqual([one, two, three].map(({ ref }) => ref));
  },
  WORLD_TEST_MS,
);
