/**
 * Tests what a key that a host gave up is still good for over a relay: what was pushed before, and nothing of a
 * thief's.
 */
import { expect, test } from 'vitest';
import { timeMsOf } from '../../../src/protocol/time.ts';
import { rotateOwnKey } from '../../../src/host/peers/identity.ts';
import { learnRotation } from '../../../src/host/peers/peers.ts';
import { listQuarantine } from '../../../src/host/inbound/quarantine.ts';
import type { RelayContext } from '../../support/relay-contexts.ts';
import { WORLD_TEST_MS, inState, ready, until, usedRelayWorld } from '../../support/relay-world.ts';

/** `here` is told of it over the LAN. */
async function learns(here: RelayContext, rotated: RelayContext): Promise<void> {
  const identity = await rotated.store.read((reader) => reader.get('identity'));
  for (const rotation of identity?.rotations ?? []) {
    await here.store.transact((tx) => learnRotation(tx, here.context, rotation));
  }
}

const quarantined = async ({ context }: RelayContext): Promise<string[]> =>
  (await listQuarantine(context, {})).items.map(({ reason }) => reason);

const refsAt = async (host: RelayContext, agent: string): Promise<string[]> =>
  (await host.mailOf(agent)).map(({ ref }) => ref);

test(
  'a copy of the old home, started after the rotation, is refused by the relay that knows of it',
  async () => {
    const { alice, bob } = await usedRelayWorld();
    const thief = await bob.copy();
    await rotateOwnKey(bob.context);
    await ready(bob);
    thief.start();
    const stolen = await thief.sendTo(alice, 'bert', ['anna']);
    await until(async () => expect((await thief.status()).problem).not.toBeNull());
    const sent = await bob.sendTo(alice, 'bert', ['anna']);
    await inState(bob, sent, 'done');
    expect(await refsAt(alice, 'anna')).toEqual([sent.ref]);
    expect(await thief.rowOf(stolen)).toMatchObject({ state: 'pending', firstPushAtMs: null });
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'and by one that does not: the list of senders of a host that has learned of it holds the keys of now alone',
  async () => {
    const { alice, bob } = await usedRelayWorld();
    const thief = await bob.copy();
    // The relay never hears of the rotation.
    await bob.side?.unset();
    const { publicKey: old } = bob.context.identity().signer;
    await rotateOwnKey(bob.context);
    const listed = (await alice.status()).enrolment?.senders;
    await learns(alice, bob);
    const before = timeMsOf(listed?.iat ?? '');
    await until(async () =>
      expect(timeMsOf((await alice.status()).enrolment?.senders?.iat ?? '')).toBeGreaterThan(before),
    );
    thief.start();
    const stolen = await thief.sendTo(alice, 'bert', ['anna']);
    expect(thief.key).toBe(old);
    await until(async () => {
      expect((await thief.rowOf(stolen)).lastError).toBe('rejected:sender not accepted by target');
    });
    expect(await refsAt(alice, 'anna')).toEqual([]);
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'what was pushed before the rotation is delivered, however it was learned, and so is what is pushed afterwards',
  async () => {
    const { alice, bob, proxy, relay } = await usedRelayWorld();
    await alice.stop();
    const pushed = await bob.sendTo(alice, 'bert', ['anna']);
    await inState(bob, pushed, 'relay-accepted');
    // Sealed and signed before the rotation, and pushed after it.
    proxy.cut = (_method, target) => (target === '/v2/relay/items' ? 'request' : undefined);
    const written = await bob.sendTo(alice, 'bert', ['anna']);
    await until(async () => expect((await bob.rowOf(written)).relayAttempts).toBeGreaterThan(0));
    await rotateOwnKey(bob.context);
    proxy.cut = () => undefined;
    // Else the receipt waits until the relay is asked about the new key once more.
    await ready(bob);
    await learns(alice, bob);
    alice.start();
    await inState(bob, pushed, 'done');
    relay.clock.move(900_000);
    await bob.pass();
    await inState(bob, written, 'done');
    expect(await refsAt(alice, 'anna')).toEqual([pushed.ref, written.ref]);
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);
