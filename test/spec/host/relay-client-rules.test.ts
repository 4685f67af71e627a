import { expect, test } from 'vitest';
import { listOutbox } from '../../../src/host/outbox/outbox-list.ts';
import { rotateOwnKey, signedEncKey } from '../../../src/host/peers/identity.ts';
import { learnEncKey, learnRotation, unpair } from '../../../src/host/peers/peers.ts';
import { retryUnknownKeys } from '../../../src/host/inbound/quarantine.ts';
import { problemDocument } from '../../../src/protocol/problem.ts';
import { displayFingerprint } from '../../../src/protocol/public-key.ts';
import { timeMsOf } from '../../../src/protocol/time.ts';
import { FIRST_ADAPTER } from '../../support/adapters.ts';
import { hostNamed, relay as relayHost } from '../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../support/http-relay.ts';
import { RelayContext, pinEachOther } from '../../support/relay-contexts.ts';
import {
  type RelayWorld,
  WORLD_TEST_MS,
  bothUse,
  inState,
  ready,
  relayWorld,
  showsNoRotations,
  until,
  usedRelayWorld,
} from '../../support/relay-world.ts';
import { NOON_MS } from '../../support/test-clock.ts';

async function rotateEpoch({ relay, clock }: HttpRelay, epoch: string): Promise<void> {
  await relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: epoch as never, reason: 'reset', nowMs: clock.nowMs() });
}

async function refuseNextPull({ proxy }: RelayWorld): Promise<void> {
  let refusals = 1;
  proxy.instead = (method, target) =>
    method === 'GET' && target.startsWith('/v2/relay/items') && refusals-- > 0
      ? { status: 401, document: problemDocument('NOT_ENROLLED', 'not enrolled') }
      : undefined;
}

test(
  'relay key pinning: trust on first use, a named key must match, another relay is refused',
  async () => {
    const w = await relayWorld();
    w.alice.start();
    const fingerprint = displayFingerprint(relayHost.key);
    const { side } = w.alice;
    const wrong = displayFingerprint(hostNamed('eve').key);
    expect(await side?.set({ url: w.relay.url, key: wrong })).toMatchObject({ code: 'RELAY_KEY_MISMATCH' });
    expect(await side?.set({ url: w.relay.url, key: 'what' })).toMatchObject({ code: 'BAD_INPUT' });
    expect(await side?.set({ url: 'http://relay.example' })).toMatchObject({ code: 'BAD_INPUT' });
    expect(await side?.set({ url: 'http://127.0.0.1:1' })).toMatchObject({ code: 'RELAY_UNREACHABLE' });
    expect((await w.alice.status()).relay).toBeNull();
    expect(await side?.set({ url: w.relay.url })).toMatchObject({ trust: 'first-use', relay: { fingerprint } });
    expect(await side?.set({ url: w.relay.url, key: fingerprint })).toMatchObject({ trust: 'named' });
    expect(await side?.set({ url: w.relay.url })).toMatchObject({ trust: 'same' });
    expect(await side?.unset()).toMatchObject({ relay: { fingerprint } });
    expect(await side?.unset()).toMatchObject({ code: 'NO_RELAY' });
  },
  WORLD_TEST_MS,
);

test(
  'relay key pinning: a key that changed stops relay use until the owner confirms it',
  async () => {
    const w = await usedRelayWorld();
    const info = (await (await fetch(`${w.relay.url}/v2/relay/info`)).json()) as object;
    const other = hostNamed('another-relay').key;
    let isOther = true;
    w.proxy.instead = (_method, target) =>
      isOther && target === '/v2/relay/info' ? { status: 200, document: { ...info, relay_pubkey: other } } : undefined;
    await w.alice.restart();
    await until(async () => expect((await w.alice.status()).state).toBe('key-changed'));
    expect((await w.alice.status()).seen_key).toMatchObject({ relay_pubkey: other });
    isOther = false;
    const asked = w.proxy.asked.length;
    await w.alice.restart();
    await until(async () => expect((await w.alice.status()).state).toBe('key-changed'));
    await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await w.alice.pass();
    expect(w.proxy.asked.slice(asked).filter((line) => line === 'POST /v2/relay/items')).toEqual([]);
    isOther = true;
    const refused = await w.alice.side?.set({ url: w.proxy.url });
    expect(refused).toMatchObject({
      code: 'RELAY_KEY_MISMATCH',
      details: { shown: displayFingerprint(other), pinned: displayFingerprint(relayHost.key) },
      message: expect.stringContaining("--key SHA256:<the fingerprint that the relay's operator gives you>"),
    });
    expect(JSON.stringify(refused)).not.toContain(`--key ${displayFingerprint(other)}`);
    isOther = false;
    await w.alice.use(w.proxy.url);
    await ready(w.alice);
    expect((await w.alice.status()).seen_key).toBeNull();
  },
  WORLD_TEST_MS,
);

test(
  'enrolment rule 10: after 401 NOT_ENROLLED the host enrols and publishes its enc key and senders again, checked',
  async () => {
    const w = await usedRelayWorld();
    w.proxy.asked.length = 0;
    let refusals = 1;
    w.proxy.instead = (method, target) =>
      method === 'GET' && target.startsWith('/v2/relay/enc-key') && refusals-- > 0
        ? { status: 401, document: problemDocument('NOT_ENROLLED', 'not enrolled') }
        : undefined;
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await inState(w.alice, sent, 'done');
    for (const step of [
      'POST /v1/relay/challenge',
      'POST /v1/relay/enrol',
      'POST /v1/relay/enc-key',
      'POST /v2/relay/senders',
    ]) {
      expect(w.proxy.asked).toContain(step);
    }
    expect(await w.alice.status()).toMatchObject({
      enrolment: { authorized_by: 'host-key', enc_key: { at: expect.stringMatching(/Z$/) }, senders: { count: 1 } },
    });
  },
  WORLD_TEST_MS,
);

test.each([
  ['in words of its own', 401, { error: 'not enrolled' }, true],
  ['by a code that nobody knows', 401, problemDocument('NOT_ENROLLED', 'x', { code: 'HOST_UNKNOWN' }), true],
  ['a bad signature', 401, problemDocument('BAD_SIGNATURE', 'x'), false],
  ['a clock', 401, problemDocument('CLOCK_SKEW', 'x', { now: NOON_MS }), false],
] as const)(
  'enrolment rule 10: a 401 that is not about a signature or a clock means not enrolled: %s',
  async (_words, status, document, isEnrolledAnew) => {
    const w = await relayWorld();
    await w.alice.use(w.proxy.url);
    await ready(w.alice);
    w.proxy.asked.length = 0;
    let refusals = 1;
    w.proxy.instead = (method, target) =>
      method === 'GET' && target.startsWith('/v2/relay/items') && refusals-- > 0
        ? { status, document, isForeign: true }
        : undefined;
    await until(() => {
      // An empty page would be held back for ever.
      w.relay.timers.pass(31_000);
      expect(refusals).toBeLessThan(0);
    });
    await ready(w.alice);
    expect(w.proxy.asked.includes('POST /v1/relay/enrol')).toBe(isEnrolledAnew);
  },
  WORLD_TEST_MS,
);

test(
  'a delivery receipt that the relay took is no message that waits for a confirmation',
  async () => {
    const w = await usedRelayWorld();
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await inState(w.alice, sent, 'done');
    const [receipt] = (await listOutbox(w.bob.context, { receipts: true })).rows;
    expect(receipt).toMatchObject({ kind: 'receipt', state: 'relay-accepted' });
    expect((await listOutbox(w.bob.context, {})).rows).toEqual([]);
    expect((await w.bob.status()).outbox).toEqual({ pending: 0, relay_accepted: 0, receipts_pending: 0 });
    expect(await w.bob.side?.unset()).toMatchObject({ relay_accepted: 0 });
  },
  WORLD_TEST_MS,
);

test(
  'enrolment rule 10: what is known under (relay, epoch, host key) is not done again after a restart',
  async () => {
    const w = await usedRelayWorld();
    await w.bob.stop();
    w.proxy.asked.length = 0;
    await w.alice.restart();
    await ready(w.alice);
    expect(w.proxy.asked).not.toContain('POST /v1/relay/enrol');
    expect(w.proxy.asked).not.toContain('POST /v2/relay/senders');
  },
  WORLD_TEST_MS,
);

test(
  'sender allowlist: the keys of paired hosts, published again when they change, never with an older iat',
  async () => {
    const w = await usedRelayWorld();
    const first = (await w.alice.status()).enrolment?.senders;
    expect(first?.count).toBe(1);
    await unpair(w.alice.context, 'bob');
    await until(async () => expect((await w.alice.status()).enrolment?.senders?.count).toBe(0));
    const second = (await w.alice.status()).enrolment?.senders;
    expect(timeMsOf(second?.iat ?? '')).toBeGreaterThan(timeMsOf(first?.iat ?? ''));
    const refused = await w.bob.sendTo(w.alice, 'bert', ['anna']);
    await until(async () =>
      expect((await w.bob.rowOf(refused)).lastError).toBe('rejected:sender not accepted by target'),
    );
    expect(await w.bob.rowOf(refused)).toMatchObject({ state: 'pending' });
  },
  WORLD_TEST_MS,
);

test(
  'rotation: posted, the position of the new key at 0, enc key and senders published anew and checked',
  async () => {
    const w = await relayWorld();
    showsNoRotations(w);
    await bothUse(w);
    await w.bob.stop();
    const waiting = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await until(async () => expect(await w.alice.rowOf(waiting)).toMatchObject({ state: 'relay-accepted' }));
    const old = w.bob.key;
    // The host ends before it told anybody.
    await rotateOwnKey(w.bob.context);
    w.proxy.asked.length = 0;
    await w.bob.restart();
    await ready(w.bob);
    await until(async () => expect((await w.bob.mailOf('bert')).map(({ ref }) => ref)).toEqual([waiting.ref]));
    expect(w.proxy.asked).toContain('POST /v2/relay/rotate');
    expect(await w.bob.status()).toMatchObject({ enrolment: { enc_key: {}, senders: { count: 1 } } });
    expect(w.bob.key).not.toBe(old);
    // Alice learns of it over the LAN; until then her mail is for a revoked key.
    const next = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await until(async () => expect((await w.alice.rowOf(next)).lastError ?? '').not.toBe(''));
    const { wireHash } = await w.alice.rowOf(next);
    expect(await w.alice.rowOf(next)).toMatchObject({ state: 'pending' });
    const identity = await w.bob.store.read((reader) => reader.get('identity'));
    const bobAtAlice = await w.alice.peerIdOf(w.bob);
    await w.alice.store.transact(async (tx) => {
      await learnRotation(tx, w.alice.context, identity!.rotations[0]!);
      const { encPub: enc_pub, at, sig } = signedEncKey(w.bob.context.identity());
      learnEncKey(tx, w.alice.context, bobAtAlice, { host_pubkey: w.bob.key, enc_pub, at, sig });
    });
    await retryUnknownKeys(w.alice.context);
    await inState(w.alice, waiting, 'done');
    await inState(w.alice, next, 'done');
    // The request names the new key; what was sealed is sent as it is.
    expect(await w.alice.rowOf(next)).toMatchObject({
      wireHash,
      acceptance: { accept: { targets: [{ host_pubkey: w.bob.key }] } },
    });
  },
  WORLD_TEST_MS,
);

test.each([
  ['a new epoch', (w) => rotateEpoch(w.relay, 'NEXT')],
  ['401 NOT_ENROLLED', refuseNextPull],
] satisfies [string, (w: RelayWorld) => Promise<void>][])(
  'rotation: a relay that forgot the host, by %s, is told the chain of its keys again, oldest first',
  async (_how, forget) => {
    const w = await relayWorld();
    await w.alice.use(w.proxy.url);
    await ready(w.alice);
    await rotateOwnKey(w.alice.context);
    await rotateOwnKey(w.alice.context);
    await until(async () =>
      expect(w.proxy.asked.filter((line) => line === 'POST /v2/relay/rotate').length).toBeGreaterThan(1),
    );
    // The newest key is known with all of it.
    await until(async () => expect((await w.alice.status()).enrolment?.senders).toMatchObject({ count: 1 }));
    await ready(w.alice);
    w.proxy.asked.length = 0;
    await forget(w);
    await until(() => {
      // The relay's timers stand still: an empty page would be held back for ever.
      w.relay.timers.pass(31_000);
      expect(w.proxy.asked).toContain('POST /v2/relay/senders');
    });
    expect(w.proxy.asked.filter((line) => line.includes('rotate') || line.includes('/enrol'))).toEqual([
      'POST /v2/relay/rotate',
      'POST /v2/relay/rotate',
      'POST /v1/relay/enrol',
    ]);
  },
  WORLD_TEST_MS,
);

test(
  'transport choice rule 1: a target that is not enrolled, or has no enc key, keeps mail here; it is asked for again',
  async () => {
    const relay = await relayForTest(FIRST_ADAPTER);
    let steadyMs = 0;
    const clock = { nowMs: () => relay.clock.nowMs(), steadyMs: () => steadyMs };
    const [alice, bob] = [await RelayContext.open('alice', clock), await RelayContext.open('bob', clock)];
    await pinEachOther(alice, bob);
    await alice.addAgent('anna');
    await bob.addAgent('bert');
    await alice.use(relay.url);
    await ready(alice);
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    const lookedAt = (): Promise<void> =>
      until(async () => expect((await alice.rowOf(sent)).nextAtMs).toBeGreaterThan(relay.clock.nowMs()));
    await lookedAt();
    const keyed = { name: 'bob' as never, key: bob.key, signer: bob.context.identity().signer };
    await relay.enrol(keyed);
    steadyMs += 60_000;
    relay.clock.move(900_000);
    await alice.pass();
    await lookedAt();
    expect(await alice.rowOf(sent)).toMatchObject({ state: 'pending', firstPushAtMs: null });
    const bobId = await alice.peerIdOf(bob);
    const standing = () => alice.store.read((reader) => reader.get('peer', bobId)?.atRelay);
    expect(await standing()).toBeUndefined();
    await bob.use(relay.url);
    await ready(bob);
    steadyMs += 60_000;
    relay.clock.move(900_000);
    await alice.pass();
    await inState(alice, sent, 'done');
    expect(await standing()).toBe(relayHost.key);
  },
  WORLD_TEST_MS,
);

test(
  'retry-after is respected: nothing is asked of the relay before',
  async () => {
    const w = await usedRelayWorld();
    await w.bob.stop();
    let askedAtMs = 0;
    w.proxy.instead = (method, target) => {
      if (method !== 'POST' || target !== '/v2/relay/items' || askedAtMs > 0) return undefined;
      askedAtMs = performance.now();
      return { status: 503, document: problemDocument('UNAVAILABLE', 'not now') };
    };
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await until(() => expect(askedAtMs).toBeGreaterThan(0));
    await until(async () => expect((await w.alice.rowOf(sent)).relayAttempts).toBe(1));
    w.relay.clock.move(900_000);
    await w.alice.pass();
    await until(async () => expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'relay-accepted' }));
    expect(performance.now() - askedAtMs).toBeGreaterThanOrEqual(990);
  },
  WORLD_TEST_MS,
);

test(
  'an expiry notice ends the row and tells its sender',
  async () => {
    const w = await usedRelayWorld();
    await w.bob.stop();
    const sent = await w.alice.sendTo(w.bob, 'anna', ['bert']);
    await until(async () => expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'relay-accepted' }));
    w.relay.clock.move(14 * 86_400_000 + 1000);
    await until(async () => {
      w.relay.timers.pass(59_000);
      expect(await w.alice.rowOf(sent)).toMatchObject({ state: 'expired' });
    });
    expect(await w.alice.mailOf('anna')).toMatchObject([{ from: 'poste@alice', subject: 'Undelivered to bob' }]);
  },
  WORLD_TEST_MS,
);
