/** A host that goes on under a new key while the LAN is down: its peers learn it of the record that the relay shows. */
import { expect, test } from 'vitest';
import { rotateOwnKey } from '../../../src/host/peers/identity.ts';
import { learnRotation, listPeers, livePeers } from '../../../src/host/peers/peers.ts';
import { listQuarantine } from '../../../src/host/inbound/quarantine.ts';
import { problemDocument } from '../../../src/protocol/problem.ts';
import { ownRelays } from '../../../src/host/outbox/homes.ts';
import { found } from '../../support/found.ts';
import { hostNamed } from '../../support/hosts.ts';
import type { RelayContext } from '../../support/relay-contexts.ts';
import {
  WORLD_TEST_MS,
  inState,
  ready,
  replaceRelay,
  showsNoRotations,
  until,
  usedRelayWorld,
} from '../../support/relay-world.ts';
import { rotationBody } from '../../support/rotations.ts';

async function viewOf(here: RelayContext, there: RelayContext) {
  return (await listPeers(here.context)).peers.find(({ host }) => host === there.name);
}

async function quarantined({ context }: RelayContext): Promise<string[]> {
  return (await listQuarantine(context, {})).items.map(({ reason }) => reason);
}

test(
  'mail to a host that rotated its key goes on: its target is revoked, and the relay shows the record',
  async () => {
    const w = await usedRelayWorld();
    const { alice, bob, proxy } = w;
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    await rotateOwnKey(bob.context);
    await ready(bob);
    await until(async () => expect((await bob.status()).enrolment?.senders).toMatchObject({ count: 1 }));
    expect(await viewOf(bob, alice)).toMatchObject({ knows_our_key: false });
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    const { wireHash } = await alice.rowOf(sent);
    await inState(alice, sent, 'done');
    // What was sealed once is what arrived.
    expect(await alice.rowOf(sent)).toMatchObject({
      wireHash,
      acceptance: { accept: { targets: [{ host_pubkey: bob.key }] } },
    });
    expect(await viewOf(alice, bob)).toMatchObject({ host_pubkey: bob.key, retired_keys: 1 });
    expect(proxy.asked).toContain('GET /v2/relay/rotation');
    // Mail that is sealed to the new key proves to bob that alice knows his key.
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    expect(await viewOf(bob, alice)).toMatchObject({ knows_our_key: true });
    expect([await quarantined(alice), await quarantined(bob)]).toEqual([[], []]);
  },
  WORLD_TEST_MS,
);

test(
  'mail from a host that rotated its key more than once arrives at once, and its receipts tell that host',
  async () => {
    const { alice, bob } = await usedRelayWorld();
    for (let count = 0; count < 3; count++) await rotateOwnKey(bob.context);
    await ready(bob);
    const sent = await bob.sendTo(alice, 'bert', ['anna']);
    await inState(bob, sent, 'done');
    expect((await alice.mailOf('anna')).map(({ ref }) => ref)).toEqual([sent.ref]);
    expect(await viewOf(alice, bob)).toMatchObject({ host_pubkey: bob.key, retired_keys: 3 });
    expect(await viewOf(bob, alice)).toMatchObject({ knows_our_key: true });
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'what went into quarantine before the relay showed records is received when the key is learned',
  async () => {
    const w = await usedRelayWorld();
    const { alice, bob, proxy } = w;
    showsNoRotations(w);
    await rotateOwnKey(bob.context);
    await ready(bob);
    const early = await bob.sendTo(alice, 'bert', ['anna']);
    await until(async () => expect(await quarantined(alice)).toEqual(['unknown-sender']));
    proxy.instead = () => undefined;
    const late = await bob.sendTo(alice, 'bert', ['anna']);
    for (const sent of [early, late]) await inState(bob, sent, 'done');
    expect((await alice.mailOf('anna')).map(({ ref }) => ref).toSorted()).toEqual([early.ref, late.ref].toSorted());
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'a relay that cannot say it now holds nothing up for good, and its items are not taken before',
  async () => {
    const { alice, bob, proxy } = await usedRelayWorld();
    let refusals = 2;
    proxy.instead = (_method, target) =>
      target.startsWith('/v2/relay/rotation') && refusals-- > 0
        ? { status: 503, document: problemDocument('UNAVAILABLE', 'not now') }
        : undefined;
    await rotateOwnKey(bob.context);
    await ready(bob);
    const sent = await bob.sendTo(alice, 'bert', ['anna']);
    await inState(bob, sent, 'done');
    expect(refusals).toBeLessThanOrEqual(0);
    expect(await quarantined(alice)).toEqual([]);
  },
  WORLD_TEST_MS,
);

test(
  'a relay of others, which refuses the request or answers something else, holds no mail up',
  async () => {
    const { alice, bob, proxy } = await usedRelayWorld();
    const answers = [
      { status: 400, document: problemDocument('BAD_REQUEST', 'no such request') },
      { status: 403, document: {} },
      { status: 501, document: {} },
      { status: 200, document: { rotation: 'none' } },
    ];
    let shown = 0;
    proxy.instead = (_method, target) => {
      const answer = target.startsWith('/v2/relay/rotation') ? answers[shown++] : undefined;
      return answer && { ...answer, isForeign: true };
    };
    await rotateOwnKey(bob.context);
    await ready(bob);
    for (let count = 1; count <= answers.length; count++) {
      await bob.sendTo(alice, 'bert', ['anna']);
      await until(async () => expect(await quarantined(alice)).toHaveLength(count));
    }
    // The true answer brings what waited.
    await inState(bob, await bob.sendTo(alice, 'bert', ['anna']), 'done');
    await until(async () => expect(await quarantined(alice)).toEqual([]));
  },
  WORLD_TEST_MS,
);

test(
  'the relay vouches for nothing: a record that a key did not sign, or that is of another key, teaches nothing',
  async () => {
    const { alice, bob, proxy } = await usedRelayWorld();
    const [eve, other] = [hostNamed('eve'), hostNamed('other')];
    const old = { ...hostNamed('bob'), key: bob.key, signer: bob.context.identity().signer };
    const asIfRotated = rotationBody(old, eve);
    const forged = [
      // Only the new key signed it, or only the old one; another record than was signed; one of other keys.
      rotationBody(old, eve, { oldSigner: eve }),
      rotationBody(old, eve, { newSigner: other }),
      { rotation: { ...asIfRotated.rotation, rec: { ...asIfRotated.rotation.rec, iat: 1 } } },
      rotationBody(eve, other),
      rotationBody(old, eve, { sent: { new_pubkey: other.key } }),
    ];
    let shown = 0;
    proxy.instead = (_method, target) =>
      target.startsWith('/v2/relay/rotation') && shown < forged.length
        ? { status: 200, document: forged[shown++] ?? {} }
        : undefined;
    await rotateOwnKey(bob.context);
    await ready(bob);
    for (let count = 1; count <= forged.length; count++) {
      await bob.sendTo(alice, 'bert', ['anna']);
      await until(async () => expect(await quarantined(alice)).toHaveLength(count));
    }
    expect(await viewOf(alice, bob)).toMatchObject({ host_pubkey: old.key, retired_keys: 0 });
    expect(await alice.mailOf('anna')).toEqual([]);
    // The true one is learned all the same.
    await inState(bob, await bob.sendTo(alice, 'bert', ['anna']), 'done');
    expect(await viewOf(alice, bob)).toMatchObject({ host_pubkey: bob.key, retired_keys: 1 });
    await until(async () => expect(await quarantined(alice)).toEqual([]));
  },
  WORLD_TEST_MS,
);

test(
  'a receipt that a rotated key signed is signed anew for a relay that was replaced and never knew that key',
  async () => {
    const w = await usedRelayWorld();
    const { alice, bob } = w;
    await bob.stop();
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'relay-accepted');
    await alice.stop();
    await bob.restart();
    await until(async () => expect(await bob.outbox()).toMatchObject([{ kind: 'receipt', state: 'relay-accepted' }]));
    const [stuck] = await bob.outbox();
    await rotateOwnKey(bob.context);
    await ready(bob);
    const rotation = (await bob.store.read((reader) => reader.get('identity')))?.rotations[0];
    await alice.store.transact((tx) => learnRotation(tx, alice.context, rotation!));
    await replaceRelay(w);
    await alice.restart();
    await inState(alice, sent, 'done');
    const signedAnew = (await bob.outbox()).find(({ kind }) => kind === 'receipt');
    expect(signedAnew?.rowId).not.toBe(stuck?.rowId);
    const { rec } = JSON.parse(
      (await bob.store.read((reader) => reader.get('outboxWire', signedAnew?.rowId ?? 0)))!.toString(),
    );
    expect(rec).toMatchObject({ host_pubkey: bob.key, state: 'delivered' });
    expect([await quarantined(alice), await quarantined(bob)]).toEqual([[], []]);
  },
  WORLD_TEST_MS,
);

test(
  'a host that learns a rotation of a peer, from whomever, forgets what the relay said of both keys',
  async () => {
    const { alice, bob } = await usedRelayWorld();
    await ready(alice);
    const [relayPubkey] = (await alice.store.read(ownRelays)).map(({ row }) => row.pubkey);
    const { link, peers } = found(alice.side?.useOf(relayPubkey!), 'alice uses it');
    const session = found(link.session, 'alice is ready');
    const peer = async () => found((await alice.store.read(livePeers))[0], 'alice is paired with bob');
    peers.noteAbsent(session, bob.key);
    expect(peers.isEnrolled(session, await peer())).toBe(false);
    await bob.stop();
    await rotateOwnKey(bob.context);
    peers.noteAbsent(session, bob.key);
    const rotation = found((await bob.store.read((reader) => reader.get('identity')))?.rotations[0], 'bob rotated');
    expect(await alice.store.transact((tx) => learnRotation(tx, alice.context, rotation))).toBe('learned');
    expect(await peer()).toMatchObject({ keys: [{}, { publicKey: bob.key }] });
    expect(peers.isEnrolled(session, await peer())).toBeUndefined();
  },
  WORLD_TEST_MS,
);
