/** Each link of a host with several relays goes on by itself, whatever happens at the others. */
import { expect, test } from 'vitest';
import { type PublicKey, displayFingerprint } from '../../../../src/protocol/public-key.ts';
import type { HandlersOf } from '../../../../src/host/base/context.ts';
import { enrolmentIn, positionIn } from '../../../../src/host/relay/relay-rows.ts';
import { ownRelays } from '../../../../src/host/outbox/homes.ts';
import { hostNamed } from '../../../support/hosts.ts';
import type { RelayContext } from '../../../support/relay-contexts.ts';
import { inState, until, WORLD_TEST_MS } from '../../../support/relay-world.ts';
import {
  addTo,
  inStates,
  type OneRelay,
  pairedHosts,
  RELAYS,
  relayNumbered,
  viewsOf,
} from '../../../support/several-relays.ts';

interface World {
  first: OneRelay;
  second: OneRelay;
  alice: RelayContext;
  bob: RelayContext;
}

/** Both hosts use both relays, in the same order. */
async function usedByBoth(): Promise<World> {
  const world = { first: await relayNumbered(1), second: await relayNumbered(2), ...(await pairedHosts()) };
  for (const host of [world.alice, world.bob]) {
    await host.use(world.first.proxy.url);
    await addTo(host, { url: world.second.proxy.url });
    await inStates(host, ['ready', 'ready']);
  }
  return world;
}

/** What the host has of each of its relays. */
function kept(host: RelayContext) {
  return host.store.read(async (reader) =>
    (await ownRelays(reader)).map(({ row }) => {
      const scope = { relayPubkey: row.pubkey, epoch: row.epoch!, hostPubkey: host.key };
      return { row, enrolment: enrolmentIn(reader, scope), position: positionIn(reader, scope) };
    }),
  );
}

const nothing = (): void => undefined;
const SILENT: HandlersOf<'relay'> = {
  'peers-changed': nothing,
  'peer-rotated': nothing,
  'relay-changed': nothing,
  'relay-turned': nothing,
  'evidence-changed': nothing,
  'relay-note-heard': nothing,
  'identity-changed': nothing,
  'host-renamed': nothing,
};

const delivered = async ({ alice, bob }: World): Promise<void> =>
  inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');

test(
  'each relay knows the host, its key to seal to and its list of senders, in an epoch of its own',
  async () => {
    const { first, second, alice } = await usedByBoth();
    const [one, two] = await kept(alice);
    expect([one?.row.epoch, two?.row.epoch]).toEqual([first.relay.epoch, second.relay.epoch]);
    for (const { enrolment } of [one!, two!])
      expect(enrolment).toMatchObject({ encKey: expect.anything(), senders: { count: 1 } });
    expect((await alice.status()).relays?.map(({ number, role }) => [number, role])).toEqual([
      [1, 'home'],
      [2, 'home'],
    ]);
    expect(alice.side?.all.map(({ relayPubkey, role }) => [relayPubkey, role])).toEqual([
      [RELAYS[0].key, 'home'],
      [RELAYS[1].key, 'home'],
    ]);
    expect(alice.side?.all.map(({ isUsable, isDown, unheardMs }) => [isUsable, isDown, unheardMs])).toEqual([
      [true, false, 0],
      [true, false, 0],
    ]);
  },
  WORLD_TEST_MS,
);

test(
  'a relay that is added begins by itself: the first is asked nothing anew',
  async () => {
    const { alice, bob } = await pairedHosts();
    const [first, second] = [await relayNumbered(1), await relayNumbered(2)];
    await alice.use(first.proxy.url);
    await inStates(alice, ['ready']);
    expect((await alice.status()).relays).toBeUndefined();
    const asked = (): number => first.proxy.asked.filter((line) => line === 'GET /v2/relay/info').length;
    const before = asked();
    await addTo(alice, { url: second.proxy.url });
    await inStates(alice, ['ready', 'ready']);
    expect(asked()).toBe(before);
    // A change of the pairings is told to each.
    await alice.addAgent('other');
    await bob.side?.stop();
    expect(second.proxy.asked).toContain('POST /v2/relay/senders');
  },
  WORLD_TEST_MS,
);

test.each([1, 2] as const)(
  'relay %i is away: it is down, and mail goes over the other one meanwhile',
  async (number) => {
    const world = await usedByBoth();
    const { alice } = world;
    const away = number === 1 ? world.first : world.second;
    const turns: boolean[] = [];
    alice.events.subscribe('relay', {
      ...SILENT,
      'relay-turned': ({ relayPubkey }) => {
        const turned = alice.side?.all.find((one) => one.relayPubkey === relayPubkey);
        if (turned && relayPubkey === RELAYS[number - 1]!.key) turns.push(turned.isDown);
      },
    });
    away.proxy.isAway = 'gone';
    away.proxy.cutAll();
    const states = async (): Promise<(readonly [PublicKey, boolean])[]> =>
      (await viewsOf(alice)).map((view) => [view.relay.relay_pubkey as PublicKey, view.is_down] as const);
    await until(async () => expect(await states()).toContainEqual([RELAYS[number - 1]!.key, true]));
    await delivered(world);
    expect((await states()).map(([, isDown]) => isDown)).toEqual([number === 1, number === 2]);
    away.proxy.isAway = undefined;
    await inStates(alice, ['ready', 'ready']);
    await until(async () => expect((await states()).map(([, isDown]) => isDown)).toEqual([false, false]));
    // Whoever chooses between them is told of both, and asks nobody in between.
    expect(turns).toContain(true);
    expect(turns.at(-1)).toBe(false);
  },
  WORLD_TEST_MS,
);

test(
  'another key at one stops that link alone, until the owner names it',
  async () => {
    const world = await usedByBoth();
    const { alice, second } = world;
    const info = (await (await fetch(`${second.relay.url}/v2/relay/info`)).json()) as object;
    const other = hostNamed('another-relay').key;
    second.proxy.instead = (_method, target) =>
      target === '/v2/relay/info' ? { status: 200, document: { ...info, relay_pubkey: other } } : undefined;
    await alice.restart();
    await inStates(alice, ['ready', 'key-changed']);
    expect((await viewsOf(alice))[1]).toMatchObject({ is_down: true, seen_key: { relay_pubkey: other } });
    expect((await viewsOf(alice))[0]).toMatchObject({ is_down: false, seen_key: null });
    await delivered(world);
    const refused = await alice.side?.add({ url: second.proxy.url });
    expect(refused).toMatchObject({ code: 'RELAY_KEY_MISMATCH' });
    second.proxy.instead = () => undefined;
    const key = displayFingerprint(RELAYS[1].key);
    expect(await alice.side?.set({ url: second.proxy.url, key })).toMatchObject({ trust: 'named' });
    await inStates(alice, ['ready', 'ready']);
    expect((await viewsOf(alice)).map(({ relay }) => relay.relay_pubkey)).toEqual([RELAYS[0].key, RELAYS[1].key]);
  },
  WORLD_TEST_MS,
);

test(
  'an enrolment that one relay refuses stops that link, and the other one goes on',
  async () => {
    const [first, second] = [await relayNumbered(1), await relayNumbered(2, { admission: 'invite' })];
    const hosts = await pairedHosts();
    const { alice, bob } = hosts;
    await alice.use(first.proxy.url);
    await addTo(alice, { url: second.proxy.url });
    await bob.use(first.proxy.url);
    await inStates(alice, ['ready', 'failing']);
    await until(async () => expect((await viewsOf(alice))[1]).toMatchObject({ is_down: true }));
    expect((await viewsOf(alice))[1]?.problem).toMatchObject({ code: 'ENROL_REFUSED' });
    await delivered({ ...hosts, first, second });
    expect((await viewsOf(alice))[0]).toMatchObject({ state: 'ready', is_down: false });
  },
  WORLD_TEST_MS,
);

test(
  'the first two homes hold pulls back, and the third does while one of them is away',
  async () => {
    const { alice } = await pairedHosts({ homeMs: 3_600_000 });
    const relays = [await relayNumbered(1), await relayNumbered(2), await relayNumbered(3)] as const;
    const waits = relays.map(({ proxy }) => {
      const asked: (string | null)[] = [];
      proxy.instead = (_method, target) => {
        const { pathname, searchParams } = new URL(target, 'http://relay.example');
        if (pathname === '/v2/relay/items') asked.push(searchParams.get('wait'));
        return undefined;
      };
      return asked;
    });
    const held = (nth: number): boolean => relays[nth]!.relay.timers.underWay(25_000) > 0;
    await alice.use(relays[0].proxy.url);
    for (const { proxy } of relays.slice(1)) await addTo(alice, { url: proxy.url });
    await until(() => expect([held(0), held(1)]).toEqual([true, true]));
    await until(() => expect(waits[2]).toEqual(['0']));
    relays[1].proxy.isAway = 'gone';
    relays[1].proxy.cutAll();
    await until(() => expect(held(2)).toBe(true));
    relays[1].proxy.isAway = undefined;
    await inStates(alice, ['ready', 'ready', 'ready']);
    relays[2].relay.timers.pass(25_000);
    await until(() => expect(waits[2]?.at(-1)).toBe('0'));
    expect(held(2)).toBe(false);
  },
  WORLD_TEST_MS,
);
