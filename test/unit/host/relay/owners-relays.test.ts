/** What the owner makes of the relays of a host: each is added, preferred and removed as a whole, or refused. */
import { expect, test } from 'vitest';
import { displayFingerprint, type PublicKey } from '../../../../src/protocol/public-key.ts';
import { livePeers } from '../../../../src/host/peers/peers.ts';
import type { RelayAddInput } from '../../../../src/host/contract/relays.ts';
import type { RelayRole } from '../../../../src/host/core/relay-rows.ts';
import { ownRelays } from '../../../../src/host/outbox/homes.ts';
import { acceptance } from '../../../support/outbox-rows.ts';
import { afterAttempt } from '../../../../src/host/outbox/outbox.ts';
import { hostNamed } from '../../../support/hosts.ts';
import type { RelayContext } from '../../../support/relay-contexts.ts';
import { inState, until, WORLD_TEST_MS } from '../../../support/relay-world.ts';
import { addTo, inStates, pairedHosts, RELAYS, relayNumbered, viewsOf } from '../../../support/several-relays.ts';

const [KEY_1, KEY_2, KEY_3] = RELAYS.map(({ key }) => key);

/** The relays of a host, in its owner's order. */
async function ownOf(host: RelayContext): Promise<(readonly [string, RelayRole])[]> {
  return (await host.store.read(ownRelays)).map(({ row, role }) => [row.pubkey, role] as const);
}

/** Writes rows of relays that nobody runs, beside those that the host uses. */
function pretend(host: RelayContext, role: RelayRole, count: number): Promise<void> {
  return host.store.transact((tx) => {
    const row = tx.get('relay')!;
    for (let at = 0; at < count; at++) {
      const pubkey = hostNamed(`pretended-${role}-${at}`).key;
      const rank = at + (role === 'home' ? 1 : 100);
      tx.put('relayMore', [pubkey], { ...row, url: `https://${role}-${at}.example`, pubkey, rank, role });
    }
  });
}

async function threeRelays() {
  const { alice, bob } = await pairedHosts();
  const relays = [await relayNumbered(1), await relayNumbered(2), await relayNumbered(3)] as const;
  await alice.use(relays[0].proxy.url);
  const urls = relays.map(({ proxy }) => proxy.url) as [string, string, string];
  const add = (nth: 1 | 2 | 3, more: Partial<RelayAddInput> = {}) => alice.side!.add({ url: urls[nth - 1]!, ...more });
  return { alice, bob, relays, urls, add };
}

test(
  'homes stand before guests, in the order in which they were added; a preferred one comes first of its role',
  async () => {
    const { alice, add } = await threeRelays();
    expect(await add(2, { guest: true })).toMatchObject({ number: 2, role: 'guest', trust: 'first-use' });
    const key = displayFingerprint(KEY_3!);
    expect(await add(3, { key })).toMatchObject({
      number: 2,
      role: 'home',
      trust: 'named',
      relay: { relay_pubkey: KEY_3 },
    });
    expect(await ownOf(alice)).toEqual([
      [KEY_1, 'home'],
      [KEY_3, 'home'],
      [KEY_2, 'guest'],
    ]);
    expect(await alice.side?.prefer({ relay: '2' })).toMatchObject({
      relays: [{ relay: { relay_pubkey: KEY_3 } }, { relay: { relay_pubkey: KEY_1 } }, { role: 'guest' }],
    });
    expect(await alice.store.read((reader) => reader.get('relay')?.pubkey)).toBe(KEY_3);
    expect(await alice.side?.prefer({ relay: '3' })).toMatchObject({
      relays: [{}, {}, { relay: { relay_pubkey: KEY_2 } }],
    });
    expect(await alice.side?.prefer({ relay: '4' })).toMatchObject({ code: 'NO_RELAY' });
    expect(await alice.side?.prefer({ relay: 'https://nobody.example' })).toMatchObject({ code: 'NO_RELAY' });
    await inStates(alice, ['ready', 'ready', 'ready']);
  },
  WORLD_TEST_MS,
);

test(
  'the document of this host names its homes after each change; before there were two there is none',
  async () => {
    const { alice, urls, add } = await threeRelays();
    const named = () =>
      alice.store.read((reader) => reader.get('homeDocument')?.doc.relays.map((relay) => relay.relay_pubkey));
    expect(await named()).toBeUndefined();
    await add(3, { guest: true });
    expect(await named()).toEqual([KEY_1]);
    await add(2);
    expect(await named()).toEqual([KEY_1, KEY_2]);
    await alice.side?.prefer({ relay: '2' });
    expect(await named()).toEqual([KEY_2, KEY_1]);
    await alice.side?.remove({ relay: '3' });
    await alice.side?.remove({ relay: urls[0] });
    expect(await named()).toEqual([KEY_2]);
    await alice.side?.set({ url: urls[2] });
    expect(await named()).toEqual([KEY_3]);
    await alice.side?.unset();
    expect(await named()).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'RELAY_KNOWN: a key that is in use is not used twice, at its address or another one',
  async () => {
    const { alice, relays, add } = await threeRelays();
    expect(await add(1)).toMatchObject({ code: 'RELAY_KNOWN' });
    await addTo(alice, { url: relays[1].proxy.url });
    expect(await alice.side?.add({ url: relays[1].relay.url })).toMatchObject({
      code: 'RELAY_KNOWN',
      message: expect.stringContaining(displayFingerprint(KEY_2!)),
      details: { url: relays[1].proxy.url },
    });
    // Nor does the second take the place of the first.
    expect(await alice.side?.set({ url: relays[1].relay.url })).toMatchObject({ code: 'RELAY_KNOWN' });
    expect(await ownOf(alice)).toEqual([
      [KEY_1, 'home'],
      [KEY_2, 'home'],
    ]);
  },
  WORLD_TEST_MS,
);

test(
  'a guest becomes a home and a home a guest by adding it so; the last home stays one',
  async () => {
    const { alice, add } = await threeRelays();
    expect(await add(1, { guest: true })).toMatchObject({ code: 'RELAY_NEEDED' });
    await add(2, { guest: true });
    expect(await add(2)).toMatchObject({ number: 2, role: 'home', trust: 'same' });
    expect(await add(1, { guest: true })).toMatchObject({ number: 2, role: 'guest', trust: 'same' });
    expect(await ownOf(alice)).toEqual([
      [KEY_2, 'home'],
      [KEY_1, 'guest'],
    ]);
    await inStates(alice, ['ready', 'ready']);
  },
  WORLD_TEST_MS,
);

test(
  'TOO_MANY_RELAYS: four homes, and eight relays in all',
  async () => {
    const { alice, add } = await threeRelays();
    await pretend(alice, 'home', 3);
    expect(await add(2)).toMatchObject({ code: 'TOO_MANY_RELAYS', message: expect.stringContaining('--guest') });
    expect(await add(2, { guest: true, dry_run: true })).toMatchObject({ number: 5, role: 'guest' });
    await pretend(alice, 'guest', 4);
    expect(await add(2, { guest: true })).toMatchObject({
      code: 'TOO_MANY_RELAYS',
      message: expect.stringContaining('8'),
    });
    expect(await ownOf(alice)).toHaveLength(8);
  },
  WORLD_TEST_MS,
);

test(
  'a relay that would be added is shown, with its key, and none is added; one that is away, or has another key, is not',
  async () => {
    const { alice, add, relays } = await threeRelays();
    expect(await add(2, { dry_run: true })).toMatchObject({ number: 2, relay: { relay_pubkey: KEY_2 } });
    expect(await ownOf(alice)).toHaveLength(1);
    const wrong = displayFingerprint(KEY_3!);
    expect(await add(2, { key: wrong })).toMatchObject({ code: 'RELAY_KEY_MISMATCH' });
    expect(await add(2, { token_file: '/a', token_command: 'b' })).toMatchObject({ code: 'BAD_INPUT' });
    const long = `${relays[1].relay.url}/${'a'.repeat(256)}`;
    // The document that paired hosts are given holds no such address.
    expect(await alice.side?.add({ url: long })).toMatchObject({ code: 'BAD_INPUT', details: { field: 'url' } });
    expect(await alice.side?.add({ url: long, guest: true, dry_run: true })).toMatchObject({ role: 'guest' });
    relays[1].proxy.isAway = 'gone';
    expect(await add(2)).toMatchObject({ code: 'RELAY_UNREACHABLE' });
    expect(await ownOf(alice)).toHaveLength(1);
  },
  WORLD_TEST_MS,
);

test(
  'a relay that speaks only v1 is used alone: not beside another one, and none beside it',
  async () => {
    const { alice, add, relays, urls } = await threeRelays();
    relays[1].proxy.isV1Only = true;
    expect(await add(2)).toMatchObject({ code: 'RELAY_UNREACHABLE', message: expect.stringContaining('v1') });
    expect(await alice.side?.unset()).toMatchObject({ relay: { relay_pubkey: KEY_1 } });
    const named = await alice.side?.set({ url: urls[1], key: displayFingerprint(KEY_2!) });
    expect(named).toMatchObject({ code: 'RELAY_UNREACHABLE', message: expect.stringContaining('proves no key') });
    expect(await alice.side?.set({ url: urls[1] })).toMatchObject({ relay: { protocol: 1 } });
    expect(await add(3)).toMatchObject({ code: 'TOO_MANY_RELAYS', message: expect.stringContaining('v1') });
    expect(await add(3, { guest: true })).toMatchObject({ code: 'TOO_MANY_RELAYS' });
    // The relay of v2 takes its place, and is never used in v1 then.
    expect(await alice.side?.set({ url: urls[2] })).toMatchObject({ relay: { protocol: 2 } });
    relays[2].proxy.isV1Only = true;
    const fallen = await alice.side?.set({ url: urls[2] });
    expect(fallen).toMatchObject({ code: 'RELAY_UNREACHABLE', message: expect.stringContaining('spoke v2') });
    expect((await alice.status()).relay).toMatchObject({ protocol: 2 });
  },
  WORLD_TEST_MS,
);

test(
  'a guest that is the only relay is listed, and unset lets it go',
  async () => {
    const { alice, urls, add } = await threeRelays();
    await add(2, { guest: true });
    await alice.side?.remove({ relay: '1', last: true });
    expect(await alice.status()).toMatchObject({ relay: null, relays: [{ role: 'guest', relay: { url: urls[1] } }] });
    expect(await alice.side?.unset()).toMatchObject({ relay: { url: urls[1] } });
    expect(await ownOf(alice)).toEqual([]);
    expect(await alice.side?.unset()).toMatchObject({ code: 'NO_RELAY' });
  },
  WORLD_TEST_MS,
);

test(
  'a relay that is set again keeps its place and its role, and is given key and senders again',
  async () => {
    const { alice, relays, urls, add } = await threeRelays();
    await add(2);
    await add(3, { guest: true });
    await inStates(alice, ['ready', 'ready', 'ready']);
    const before = await ownOf(alice);
    for (const [at, { proxy }] of relays.entries()) {
      proxy.asked.length = 0;
      expect(await alice.side?.set({ url: urls[at]! })).toMatchObject({ trust: 'same' });
      await until(() =>
        expect(proxy.asked).toEqual(expect.arrayContaining(['POST /v1/relay/enc-key', 'POST /v2/relay/senders'])),
      );
    }
    expect(await ownOf(alice)).toEqual(before);
  },
  WORLD_TEST_MS,
);

test(
  'the first relay that is removed leaves its row to the next home; the last one is needed',
  async () => {
    const { alice, urls, add } = await threeRelays();
    await add(2);
    await add(3, { guest: true });
    await inStates(alice, ['ready', 'ready', 'ready']);
    expect(await alice.side?.unset()).toMatchObject({ code: 'TOO_MANY_RELAYS', details: { relays: urls } });
    expect(await alice.side?.remove({ relay: '1' })).toMatchObject({
      number: 1,
      role: 'home',
      relay: { relay_pubkey: KEY_1 },
      held_alone: 0,
      left_behind: 0,
    });
    expect((await alice.status()).relay).toMatchObject({ relay_pubkey: KEY_2 });
    expect(alice.side?.all.map(({ relayPubkey }) => relayPubkey)).toEqual([KEY_2, KEY_3]);
    const needed = { code: 'RELAY_NEEDED', message: expect.stringContaining('--last') };
    expect(await alice.side?.remove({ relay: urls[1] })).toMatchObject(needed);
    expect(await alice.side?.remove({ relay: urls[1], last: true })).toMatchObject({ relay: { relay_pubkey: KEY_2 } });
    expect(await ownOf(alice)).toEqual([[KEY_3, 'guest']]);
    expect(await alice.status()).toMatchObject({ relay: null, state: 'unset' });
    // A home is the first again, before the guest.
    expect(await alice.side?.set({ url: urls[0] })).toMatchObject({ relay: { relay_pubkey: KEY_1 } });
    expect(await ownOf(alice)).toEqual([
      [KEY_1, 'home'],
      [KEY_3, 'guest'],
    ]);
  },
  WORLD_TEST_MS,
);

test(
  'what waits at a relay that is removed is taken first; a relay that is away is removed all the same',
  async () => {
    const { alice, bob, urls, relays, add } = await threeRelays();
    await bob.use(urls[1]);
    await inStates(bob, ['ready']);
    // A guest is pulled rarely: what comes there after its first pull waits.
    await add(2, { guest: true });
    await inStates(alice, ['ready', 'ready']);
    await until(() => expect(relays[1].proxy.asked).toContain('GET /v2/relay/items'));
    await bob.addAgent('ben');
    const sent = await bob.sendTo(alice, 'ben', ['anna']);
    await inState(bob, sent, 'relay-accepted');
    expect(await alice.mailOf('anna')).toEqual([]);
    expect(await alice.side?.remove({ relay: '2' })).toMatchObject({ role: 'guest', left_behind: 0 });
    expect(await alice.mailOf('anna')).toMatchObject([{ ref: sent.ref }]);
    await add(3, { guest: true });
    await inStates(alice, ['ready', 'ready']);
    relays[2].proxy.isAway = 'gone';
    expect(await alice.side?.remove({ relay: '2' })).toMatchObject({ left_behind: null });
    expect(await ownOf(alice)).toEqual([[KEY_1, 'home']]);
  },
  WORLD_TEST_MS,
);

test(
  'a guest is pulled often while it has a young message of this host, and else rarely',
  async () => {
    const { alice, bob } = await pairedHosts({ guestSoonMs: 15, guestMs: 3_600_000, guestIdleMs: 3_600_000 });
    const [first, second] = [await relayNumbered(1), await relayNumbered(2)];
    await alice.use(first.relay.url);
    await addTo(alice, { url: second.proxy.url, guest: true });
    await inStates(alice, ['ready', 'ready']);
    const pulls = (): number => second.proxy.asked.filter((line) => line === 'GET /v2/relay/items').length;
    await until(() => expect(pulls()).toBe(1));
    const { rowId } = await alice.rowOf(await alice.sendTo(bob, 'anna', ['bert']));
    const taken = { ...acceptance(alice.clock.nowMs()), relayPubkey: KEY_2!, epoch: second.relay.epoch as never };
    await alice.store.transact((tx) => {
      afterAttempt(tx, alice.context, rowId, { type: 'relay-pushing', relayPubkey: KEY_2!, isOneOfMany: true });
      afterAttempt(tx, alice.context, rowId, { type: 'relay-accepted', acceptance: taken, isVerified: true });
    });
    // It rests for an hour, unless the relay takes something: as at a start.
    await alice.restart();
    await until(() => expect(pulls()).toBeGreaterThan(5));
    expect((await viewsOf(alice))[1]).toMatchObject({ role: 'guest', held: 1, held_alone: 1, copies_at: [] });
    expect(await alice.side?.remove({ relay: '2' })).toMatchObject({ held_alone: 1 });
  },
  WORLD_TEST_MS,
);

test(
  'a key that a paired host names at the address is said, and another one has to be named by the owner',
  async () => {
    const { alice, urls, add } = await threeRelays();
    const url = urls[1];
    const bobNames = (relay_pubkey: PublicKey): Promise<void> =>
      alice.store.transact(async (tx) => {
        const [bob] = await livePeers(tx);
        const held = { hostPubkey: relay_pubkey, seq: 1, relays: [{ relay_pubkey, url }], doc: '', sig: '' };
        if (bob) tx.put('peerHome', [bob.peerId], { held: { ...held, learnedAtMs: 0, via: 'lan' } });
      });
    await bobNames(KEY_3!);
    const details = { shown: displayFingerprint(KEY_2!), expected: displayFingerprint(KEY_3!) };
    for (const dry_run of [true, false])
      expect(await add(2, { dry_run })).toMatchObject({ code: 'RELAY_KEY_MISMATCH', details });
    expect(await add(2, { dry_run: true, key: details.shown })).toMatchObject({ trust: 'named', hosts: [] });
    await bobNames(KEY_2!);
    expect(await add(2, { dry_run: true })).toMatchObject({ trust: 'first-use', hosts: ['bob'] });
    expect(await ownOf(alice)).toEqual([[KEY_1, 'home']]);
  },
  WORLD_TEST_MS,
);
