/** Mail that something took over the LAN at the address of a peer, and that the peer never confirmed. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { LAN_DOUBT_MS } from '../../../src/host/core/outbox-row.ts';
import { setAddress } from '../../../src/host/peers/peers.ts';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import type { RelayContext } from '../../support/relay-contexts.ts';
import { WORLD_TEST_MS, bothUse, inState, ready, relayWorld, until } from '../../support/relay-world.ts';

/** Says `accepted` to everything that `there` is sent by `here`, and keeps it; how often that was. */
async function somebodyAtTheAddressOf(there: RelayContext, here: RelayContext): Promise<{ took: () => number }> {
  let took = 0;
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { items = [] } = (body === '' ? {} : JSON.parse(body)) as { items?: { item_id: string }[] };
      took += items.length;
      const results = items.map(({ item_id }) => ({ item_id, status: 'accepted' }));
      response.writeHead(200, { 'content-type': 'application/json', connection: 'close' });
      response.end(JSON.stringify({ results, agents: [], host_pubkey: there.key }));
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const moved = await setAddress(here.context, there.name, `127.0.0.1:${port}`);
  if (isRefusal(moved)) throw new Error(moved.message);
  return { took: () => took };
}

test(
  'what a peer took over the LAN and has not confirmed after five minutes goes over the relay too',
  async () => {
    const w = await relayWorld();
    const { alice, bob, relay } = w;
    await bothUse(w);
    const thief = await somebodyAtTheAddressOf(bob, alice);
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'lan-accepted');
    expect(await alice.rowOf(sent)).toMatchObject({
      nextAtMs: relay.clock.nowMs() + LAN_DOUBT_MS,
      firstPushAtMs: null,
    });
    relay.clock.move(LAN_DOUBT_MS - 1);
    await alice.pass();
    expect(await alice.rowOf(sent)).toMatchObject({ state: 'lan-accepted', firstPushAtMs: null });
    relay.clock.move(1);
    await alice.pass();
    await inState(alice, sent, 'done');
    expect((await bob.mailOf('bert')).map(({ ref }) => ref)).toEqual([sent.ref]);
    expect(thief.took()).toBe(1);
  },
  WORLD_TEST_MS,
);

test(
  'while the relay knows nothing of the peer it is shown to the peer again, after as long as it waited already',
  async () => {
    const w = await relayWorld();
    const { alice, bob, relay, proxy } = w;
    await alice.use(proxy.url);
    await ready(alice);
    const thief = await somebodyAtTheAddressOf(bob, alice);
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'lan-accepted');
    const startMs = relay.clock.nowMs();
    for (const [times, waitedMs, nextMs] of [
      [2, LAN_DOUBT_MS, 2 * LAN_DOUBT_MS],
      [3, 2 * LAN_DOUBT_MS, 4 * LAN_DOUBT_MS],
    ] as const) {
      relay.clock.move(startMs + waitedMs - relay.clock.nowMs());
      await alice.pass();
      await until(async () => expect(await alice.rowOf(sent)).toMatchObject({ nextAtMs: startMs + nextMs }));
      expect(thief.took()).toBe(times);
    }
  },
  WORLD_TEST_MS,
);
