/** A relay that speaks only v1: ours, behind a proxy that has nothing of v2. */
import { expect, test } from 'vitest';
import { renameHost, rotateOwnKey } from '../../../src/host/peers/identity.ts';
import { wireOf } from '../../../src/host/outbox/outbox.ts';
import { listQuarantine } from '../../../src/host/inbound/quarantine.ts';
import { canonicalBytes, encKeyAdvertisement } from '../../../src/protocol/documents.ts';
import { hostNamed } from '../../support/hosts.ts';
import type { HttpRelayChanges } from '../../support/http-relay.ts';
import { RelayContext } from '../../support/relay-contexts.ts';
import {
  type RelayWorld,
  type SentMessage,
  WORLD_TEST_MS,
  bothUse,
  ready,
  relayWorld,
  until,
} from '../../support/relay-world.ts';

const DAY_MS = 86_400_000;

async function world(changes: HttpRelayChanges = {}): Promise<RelayWorld> {
  const w = await relayWorld(changes);
  w.proxy.isV1Only = true;
  return w;
}

function pushes({ proxy }: RelayWorld): number {
  return proxy.asked.filter((line) => line === 'POST /v1/relay/messages').length;
}

/** A session begins with every open row due; what waits is given another time. */
async function lookedAt({ alice, relay }: RelayWorld, sent: SentMessage): Promise<void> {
  await until(async () => expect((await alice.rowOf(sent)).nextAtMs).toBeGreaterThan(relay.clock.nowMs()));
}

/** A stored row is looked at again in a day, and a refused one sooner. */
async function stored(w: RelayWorld, sent: SentMessage): Promise<void> {
  await until(async () => {
    const { nextAtMs, firstPushAtMs } = await w.alice.rowOf(sent);
    expect(firstPushAtMs).not.toBeNull();
    expect(nextAtMs).toBe(w.relay.clock.nowMs() + DAY_MS);
  });
}

test(
  'versioning rule 3: after a 404 for info mail goes by v1, sealed; its row is pending until the receipt comes',
  async () => {
    const w = await world();
    await bothUse(w);
    expect(await w.alice.status()).toMatchObject({ relay: { protocol: 1 }, enrolment: { senders: null } });
    const secret = 'a plain word that nobody may see';
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert'], secret);
    await until(async () => expect((await w.bob.mailOf('bert')).map(({ ref }) => ref)).toEqual([sent.ref]));
    await stored(w, sent);
    expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'pending', acceptance: null, lastError: null });
    expect(w.proxy.asked.filter((line) => line.includes('/v2/') && !line.endsWith('/info'))).toEqual([]);
    expect(w.proxy.bodies.join('\n')).toContain(sent.ref);
    expect(w.proxy.bodies.join('\n')).not.toContain(secret);
    // The queue is empty by the ack; the receipt has no way in v1, and waits.
    await until(async () => expect(await w.relay.queue(keyed(w.bob))).toEqual([]));
    expect(await w.bob.outbox()).toMatchObject([{ kind: 'receipt', state: 'pending' }]);
    // As soon as the relay speaks v2 the receipt goes that way.
    w.proxy.isV1Only = false;
    for (const host of [w.alice, w.bob]) await host.restart();
    for (const host of [w.alice, w.bob]) await ready(host);
    expect(await w.bob.status()).toMatchObject({ relay: { protocol: 2 }, enrolment: { senders: { count: 1 } } });
    await until(async () => expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'done' }));
    expect(await w.bob.mailOf('bert')).toHaveLength(1);
    expect(await w.alice.mailOf('anna')).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'versioning rule 3: a relay that speaks v2 now is told what v1 has no words for: the rotations of this host',
  async () => {
    const w = await world();
    const { alice, proxy } = w;
    await alice.use(proxy.url);
    await ready(alice);
    await rotateOwnKey(alice.context);
    // The new key enrols beside the former one, which has the name as well.
    await until(async () => expect((await alice.status()).enrolment).not.toBeNull());
    proxy.isV1Only = false;
    await alice.restart();
    await until(async () => expect((await alice.status()).enrolment?.senders).toMatchObject({ count: 1 }));
    expect(proxy.asked.filter((line) => line === 'POST /v2/relay/rotate')).toHaveLength(1);
  },
  WORLD_TEST_MS,
);

test(
  'v1: the enc key must be of the pinned host key, else the mail waits; a target without one waits too',
  async () => {
    const w = await world();
    await w.alice.use(w.proxy.url);
    await ready(w.alice);
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await lookedAt(w, sent);
    expect(pushes(w)).toBe(0);
    // Another host of this name is there, and seals to a key that it signed itself.
    const impostor = { ...hostNamed('eve'), name: 'bob' as never };
    await w.relay.enrol(impostor);
    const encPub = w.bob.context.identity().sealKey.encPub;
    const document = encKeyAdvertisement({ host_pubkey: impostor.key, enc_pub: encPub, at: 1 });
    const sig = impostor.signer.sign(canonicalBytes(document));
    await w.relay.client(impostor).publishEncKey({ enc_pub: encPub, at: 1, sig });
    await w.alice.restart();
    await ready(w.alice);
    await lookedAt(w, sent);
    expect(w.proxy.asked).toContain('GET /v1/relay/enc-key');
    expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'pending', firstPushAtMs: null });
    expect(pushes(w)).toBe(0);
  },
  WORLD_TEST_MS,
);

test(
  'v1: a stored row alerts at 72 hours, and is never pushed after the first push and the retention',
  async () => {
    const w = await world();
    await bothUse(w);
    await w.bob.stop();
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await stored(w, sent);
    const { wireHash } = await w.alice.rowOf(sent);
    const { clock } = w.relay;
    // The clock is moved while nothing is under way: signed requests are good for minutes.
    const later = async (ms: number): Promise<void> => {
      await w.alice.stop();
      clock.move(ms);
      await w.alice.restart();
      await ready(w.alice);
      await lookedAt(w, sent);
    };
    await later(DAY_MS + 1000);
    await until(() => expect(pushes(w)).toBe(2));
    await later(2 * DAY_MS);
    await until(async () =>
      expect(await w.alice.mailOf('anna')).toMatchObject([
        { from: 'poste@alice', subject: 'Undelivered/unconfirmed to bob' },
      ]),
    );
    expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'pending', wireHash });
    // The alert may stand before the push of that day is asked.
    await until(() => expect(pushes(w)).toBe(3));
    await later(12 * DAY_MS);
    expect(pushes(w)).toBe(3);
    expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'pending', wireHash });
  },
  WORLD_TEST_MS,
);

test(
  'v1: over a quota the push stops at the limit; what it took is stored, the rest waits and goes later',
  async () => {
    const w = await world({ limits: { max_sender_items: 1 } });
    await bothUse(w);
    await w.bob.stop();
    const first = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await stored(w, first);
    const second = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await until(async () =>
      expect(await w.alice.rowOf(second)).toMatchObject({ state: 'pending', lastError: 'rejected:quota:sender_items' }),
    );
    w.bob.start();
    await until(async () => expect(await w.bob.mailOf('bert')).toHaveLength(1));
    // There is room when the relay has deleted it: not when it has arrived, nor when its ack is on the way.
    await until(() => expect(w.relay.relay.engine.head(w.bob.key).queueItems).toBe(0));
    w.relay.clock.move(60_000);
    // The relay asked for a minute of rest, which a new daemon knows nothing of.
    await w.alice.restart();
    await until(async () => expect(await w.bob.mailOf('bert')).toHaveLength(2));
  },
  WORLD_TEST_MS,
);

test(
  'v1: what cannot be accepted is in quarantine; in a new epoch the host enrols again, and takes everything once',
  async () => {
    const w = await world();
    await bothUse(w);
    const refs = [(await w.alice.sendTo(w.bob, 'anna', ['bert'])).ref];
    await w.alice.sendTo(w.bob, 'anna', ['nobody-here']);
    await until(async () => expect((await w.bob.mailOf('bert')).map(({ ref }) => ref)).toEqual(refs));
    await until(async () =>
      expect((await listQuarantine(w.bob.context, {})).items).toMatchObject([
        { via: 'relay', reason: 'unknown-agent', sender_pubkey: w.alice.key, relay: { seq: null } },
      ]),
    );
    const { clock } = w.relay;
    const next = { type: 'RotateEpoch', epoch: 'NEXT' as never, reason: 'reset', nowMs: clock.nowMs() } as const;
    await w.relay.relay.engine.rotateEpoch(next);
    for (const host of [w.alice, w.bob]) {
      await until(async () => expect(await host.status()).toMatchObject({ epoch: 'NEXT', state: 'ready' }));
    }
    refs.push((await w.alice.sendTo(w.bob, 'anna', ['bert'])).ref);
    await until(async () => expect((await w.bob.mailOf('bert')).map(({ ref }) => ref)).toEqual(refs));
    expect((await listQuarantine(w.bob.context, {})).items).toHaveLength(1);
  },
  WORLD_TEST_MS,
);

test(
  'v1: a challenge of another key stops the use of the relay until the owner confirms it',
  async () => {
    const w = await world();
    await w.alice.use(w.proxy.url);
    await ready(w.alice);
    const other = hostNamed('another-relay').key;
    w.proxy.instead = (_method, target) =>
      target === '/v1/relay/challenge'
        ? { status: 200, document: { challenge: 'A'.repeat(43) + '=', relay_pubkey: other, expires_at: 1 } }
        : undefined;
    // The new key of the host has to enrol.
    await rotateOwnKey(w.alice.context);
    await until(async () => expect((await w.alice.status()).state).toBe('key-changed'));
    expect((await w.alice.status()).seen_key).toMatchObject({ relay_pubkey: other });
    expect(await w.alice.side?.set({ url: w.proxy.url })).toMatchObject({ code: 'RELAY_KEY_MISMATCH' });
  },
  WORLD_TEST_MS,
);

const STRANGE_ENVELOPES = [
  { id: 'deep', a: JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`) as unknown },
  { id: 'wide', a: Array.from({ length: 60_000 }, (_, at) => at) },
  { id: 5 },
  'words',
];

test(
  'v1: envelopes that cannot be read are in quarantine, and what stands beside them comes',
  async () => {
    const w = await world();
    await w.bob.use(w.proxy.url);
    await ready(w.bob);
    const sent = [await w.alice.sendTo(w.bob, 'anna', ['bert']), await w.alice.sendTo(w.bob, 'anna', ['bert'])];
    const rows = await Promise.all(sent.map((message) => w.alice.rowOf(message)));
    const wires = await w.alice.store.read((reader) => rows.map(({ rowId }) => wireOf(reader, rowId).toString()));
    const [first, second] = wires.map((wire) => JSON.parse(wire) as object);
    const asked: string[] = [];
    w.proxy.instead = (method, target) => {
      if (!target.startsWith('/v1/relay/messages') && !target.startsWith('/v1/relay/ack')) return undefined;
      asked.push(`${method} ${target}`);
      if (method === 'POST') return { status: 200, document: { cursor: 'next' }, isForeign: true };
      const envelopes = target.includes('after=next') ? [] : [first, ...STRANGE_ENVELOPES, second];
      return { status: 200, document: { envelopes, cursor: 'next', more: false }, isForeign: true };
    };
    await w.bob.restart();
    await until(async () =>
      expect((await w.bob.mailOf('bert')).map(({ ref }) => ref)).toEqual(sent.map(({ ref }) => ref)),
    );
    const malformed = { kind: 'envelope', reason: 'malformed' };
    expect((await listQuarantine(w.bob.context, {})).items).toMatchObject(STRANGE_ENVELOPES.map(() => malformed));
    // They are stepped over: the next page is asked for behind them.
    await until(() => expect(asked.at(-1)).toBe('GET /v1/relay/messages?after=next'));
  },
  WORLD_TEST_MS,
);

function keyed({ key, context, name }: RelayContext): { name: never; key: RelayContext['key']; signer: never } {
  return { name: name as never, key, signer: context.identity().signer as never };
}

test(
  'versioning rule 3: v1 knows hosts by name, so a host that is renamed enrols again at once',
  async () => {
    const w = await world();
    const carl = await RelayContext.open('carl', w.relay.clock);
    await carl.use(w.proxy.url, { token_command: 'echo once' });
    await ready(carl);
    expect(await renameHost(carl.context, { name: 'server' })).toMatchObject({ renamed: true });
    await until(() => expect(w.relay.relay.engine.directory.get(carl.key)?.hostName).toBe('server'));
    await ready(carl);
    expect(await carl.status()).toMatchObject({ relay: { protocol: 1 }, problem: null });
  },
  WORLD_TEST_MS,
);
