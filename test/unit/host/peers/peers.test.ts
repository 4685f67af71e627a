import { nextDueMs } from '../../../support/outbox-rows.ts';
import { expect, test } from 'vitest';
import { isoSecond } from '../../../../src/protocol/time.ts';
import { canonicalBytes, encKeyAdvertisement } from '../../../../src/protocol/documents.ts';
import type { LanEncKey } from '../../../../src/protocol/lan.ts';
import type { HostName, ItemId } from '../../../../src/protocol/names.ts';
import { type PublicKey, displayFingerprint, hostFingerprint } from '../../../../src/protocol/public-key.ts';
import type { Refusal } from '../../../../src/host/core/refusal.ts';
import { peerIsAt, relaysOfPeer } from '../../../../src/host/core/relay-rows.ts';
import type { Address, MessageRef, PeerId, PeerRow } from '../../../../src/host/core/rows.ts';
import { addOutboxRow, afterAttempt, markReached, markUnreached } from '../../../../src/host/outbox/outbox.ts';
import {
  PEERS_MAX,
  type PairedHost,
  currentKey,
  encKeyOf,
  knowsOurKey,
  learnDirectory,
  learnEncKey,
  learnRotation,
  listPeers,
  livePeers,
  markPinnedOurKey,
  noteKnowsOurKey,
  notePeerAtRelay,
  peerOfName,
  pinPeer,
  setAddress,
  unpair,
} from '../../../../src/host/peers/peers.ts';
import { pinRelay } from '../../../../src/host/relay/relay-rows.ts';
import { type TestHost, hostNamed, relay } from '../../../support/hosts.ts';
import { accepted, addPeer } from '../../../support/mail-context.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const THERE = hostNamed('there');
const CHANGED = { type: 'peers-changed' };

/** A key to seal to, signed by `host`. */
function advertised(host: TestHost, at: number): LanEncKey {
  const document = encKeyAdvertisement({
    host_pubkey: host.key,
    enc_pub: Buffer.alloc(32, at % 256).toString('base64'),
    at,
  });
  return { host_pubkey: host.key, enc_pub: document.enc_pub, at, sig: host.signer.sign(canonicalBytes(document)) };
}

function pin(context: TestContext, host: TestHost, changes: Partial<PairedHost> = {}): Promise<PeerRow | Refusal> {
  const encKey = encKeyOf(advertised(host, 1), host.key)!;
  const paired = { hostName: host.name, publicKey: host.key, encKey, address: null, ...changes };
  return context.store.transact((tx) => pinPeer(tx, context, paired));
}

function rowOf(context: TestContext, { peerId }: PeerRow): Promise<PeerRow | undefined> {
  return context.store.read((reader) => reader.get('peer', peerId));
}

function rotation(
  from: TestHost,
  to: TestHost,
  signers = { old: from, next: to },
): Parameters<typeof learnRotation>[2] {
  const rec = { v: 1, type: 'host-rotation', old_pubkey: from.key, new_pubkey: to.key, iat: 1 } as const;
  const bytes = canonicalBytes(rec);
  return { rec, old_sig: signers.old.signer.sign(bytes), new_sig: signers.next.signer.sign(bytes) };
}

function learn(context: TestContext, record: Parameters<typeof learnRotation>[2]): Promise<string> {
  return context.store.transact((tx) => learnRotation(tx, context, record));
}

/** A row of the outbox that failed and waits for its next try. */
async function waitingRow(context: TestContext, peerId: PeerId): Promise<void> {
  await context.store.transact((tx) => {
    const item = { kind: 'envelope' as const, itemId: 'm1' as ItemId, ref: 'm1' as MessageRef, peerId };
    const recipients = ['bob@there' as Address];
    const { rowId } = addOutboxRow(tx, context, { ...item, recipients, wire: Buffer.from('x') });
    for (let failures = 0; failures < 5; failures++)
      afterAttempt(tx, context, rowId, { type: 'lan-failed', reason: 'x' });
  });
  expect(await dueMs(context, peerId)).toBeGreaterThan(context.nowMs());
}

function dueMs(context: TestContext, peerId: PeerId): Promise<number | null | undefined> {
  return context.store.read((reader) => nextDueMs(reader, peerId));
}

test('pairing again with a host makes what waits for it due at once', async () => {
  const context = await testContext();
  const peer = await addPeer(context, 'there');
  const { peerId, hostName, encKey } = peer;
  const { publicKey } = currentKey(peer);
  await context.store.transact((tx) => {
    tx.put('peerKey', [publicKey], peerId);
    tx.put('peerName', ['there'], peerId);
  });
  await waitingRow(context, peerId);
  accepted(await context.store.transact((tx) => pinPeer(tx, context, { hostName, publicKey, encKey, address: null })));
  expect(await dueMs(context, peerId)).toBe(context.nowMs());
  expect(context.told).toContainEqual({ type: 'outbox-changed', peerId });
});

test('a key that was replaced is not replaced again by another: the history of a host has no branches', async () => {
  const context = await testContext();
  const { peerId } = await addPeer(context, 'there', null, {
    keys: [{ publicKey: hostNamed('there').key, pinnedAtMs: 1, retiredAtMs: null }],
  });
  await context.store.transact((tx) => tx.put('peerKey', [hostNamed('there').key], peerId));
  const goesOn = (from: string, to: string): Promise<string> =>
    learn(context, rotation(hostNamed(from), hostNamed(to)));
  expect(await goesOn('there', 'second')).toBe('learned');
  expect(await goesOn('there', 'second')).toBe('known');
  expect(await goesOn('there', 'thief')).toBe('refused');
  expect(await goesOn('second', 'there')).toBe('known');
  const keys = await context.store.read((reader) => reader.get('peer', peerId)?.keys);
  expect(keys?.map(({ publicKey }) => publicKey)).toEqual([hostNamed('there').key, hostNamed('second').key]);
  expect(await context.store.read((reader) => reader.get('peerKey', hostNamed('thief').key))).toBeUndefined();
  expect(await goesOn('second', 'third')).toBe('learned');
});

test('a host that is paired is pinned as it came, is found by name and key, and is told to the daemon', async () => {
  const context = await testContext();
  const peer = accepted(
    await pin(context, THERE, { hostName: 'There' as HostName, address: '10.0.0.2:8789', port: 8789 }),
  );
  expect(peer).toEqual({
    peerId: expect.stringMatching(/^[0-9a-f]{32}$/),
    hostName: 'There',
    keys: [{ publicKey: THERE.key, pinnedAtMs: context.nowMs(), retiredAtMs: null }],
    encKey: encKeyOf(advertised(THERE, 1), THERE.key),
    address: '10.0.0.2:8789',
    port: 8789,
    pairedAtMs: context.nowMs(),
    unpairedAtMs: null,
    reachedAtMs: context.nowMs(),
    lanFailures: 0,
    directory: null,
    hasConfirmed: false,
    pinnedOurKey: context.identity().signer.publicKey,
  });
  const found = await context.store.read((reader) => [
    peerOfName(reader, 'THERE'),
    reader.get('peerKey', THERE.key),
    peerOfName(reader, 'elsewhere'),
  ]);
  expect(found).toEqual([peer, peer.peerId, undefined]);
  expect(context.told).toEqual([CHANGED]);
});

test('pairing again renews what came, and keeps since when it is paired and what did not come', async () => {
  const context = await testContext();
  const first = accepted(await pin(context, THERE, { address: '10.0.0.2:8789', port: 8789 }));
  await context.store.transact((tx) => {
    learnDirectory(tx, first.peerId, { agents: [], fetchedAtMs: 1 }, 2);
    markUnreached(tx, first.peerId);
  });
  context.clock.nowMs += 1000;
  const newer = encKeyOf(advertised(THERE, 2), THERE.key)!;
  const second = accepted(await pin(context, THERE, { hostName: 'renamed' as HostName, encKey: newer }));
  expect(second).toEqual({
    ...first,
    hostName: 'renamed',
    encKey: newer,
    directory: { agents: [], fetchedAtMs: 1 },
    reachedAtMs: context.nowMs(),
  });
  const names = await context.store.read((reader) => [peerOfName(reader, 'there'), peerOfName(reader, 'renamed')]);
  expect(names).toEqual([undefined, second]);
  // Of one time, the one that came last.
  const document = { host_pubkey: THERE.key, enc_pub: Buffer.alloc(32, 99).toString('base64'), at: 2 };
  const signed = encKeyAdvertisement(document);
  const other = encKeyOf({ ...document, sig: THERE.signer.sign(canonicalBytes(signed)) }, THERE.key)!;
  expect(accepted(await pin(context, THERE, { encKey: other })).encKey).toEqual(other);
  expect(accepted(await pin(context, THERE, { encKey: newer })).encKey).toEqual(newer);
  // One of an earlier time was on its way for longer.
  expect(accepted(await pin(context, THERE)).encKey).toEqual(newer);
});

test('a host that was let go and is paired again is paired since then', async () => {
  const context = await testContext();
  const { peerId } = accepted(await pin(context, THERE));
  accepted(await unpair(context, 'there'));
  context.clock.nowMs += 1000;
  expect(await pin(context, THERE)).toMatchObject({ peerId, pairedAtMs: context.nowMs(), unpairedAtMs: null });
});

test('a name that a host had before it was let go may be of another since, and stays that of the other', async () => {
  const context = await testContext();
  accepted(await pin(context, THERE));
  accepted(await unpair(context, 'there'));
  const other = accepted(await pin(context, hostNamed('other'), { hostName: 'there' as HostName }));
  accepted(await pin(context, THERE, { hostName: 'there2' as HostName }));
  expect(await context.store.read((reader) => peerOfName(reader, 'there'))).toEqual(other);
});

test.each<[given: string, changes: Partial<PairedHost>, code: string, words: RegExp]>([
  [
    'a key that is no point',
    { publicKey: Buffer.alloc(32).toString('base64') as PublicKey },
    'PAIRING_REFUSED',
    /good/,
  ],
  ['the name of this host', { hostName: 'HERE' as HostName }, 'NAME_TAKEN', /HERE as this one/],
  ['the name of another paired host', { hostName: 'Taken' as HostName }, 'NAME_TAKEN', /poste peer remove taken/],
  ['an own key of before', { publicKey: hostNamed('here-before').key }, 'PAIRING_REFUSED', /with itself/],
])('no host is paired with %s', async (_given, changes, code, words) => {
  const context = await testContext();
  accepted(await pin(context, hostNamed('taken')));
  await context.store.transact((tx) => {
    const ofAll = { seed: '', sinceMs: 0, retiredAtMs: null };
    const keys = ['here-before', 'here-now'].map((name) => Object.assign({ publicKey: hostNamed(name).key }, ofAll));
    const { hostName } = context.identity();
    tx.put('identity', [], { hostName, createdAtMs: 0, keys, sealKeys: [], rotations: [], receiptFloor: 0 });
  });
  const answer = await pin(context, THERE, changes);
  expect(answer).toMatchObject({ type: 'refusal', code, message: expect.stringMatching(words) });
  expect((await listPeers(context)).peers.map(({ host }) => host)).toEqual(['taken']);
});

test('the refusal of a name that another paired host has names it', async () => {
  const context = await testContext();
  accepted(await pin(context, hostNamed('taken')));
  const answer = await pin(context, THERE, { hostName: 'Taken' as HostName });
  expect(answer).toMatchObject({ code: 'NAME_TAKEN', details: { host: 'Taken' } });
});

test('an old key of a host pairs nobody: a thief may have it', async () => {
  const context = await testContext();
  accepted(await pin(context, THERE));
  expect(await learn(context, rotation(THERE, hostNamed('second')))).toBe('learned');
  expect(await pin(context, THERE)).toMatchObject({
    code: 'PAIRING_REFUSED',
    message: expect.stringContaining('old one'),
  });
  accepted(await pin(context, hostNamed('second'), { hostName: THERE.name }));
  context.clock.nowMs += 1000;
  expect(await learn(context, rotation(hostNamed('second'), hostNamed('third')))).toBe('learned');
  const [row] = await context.store.read(livePeers);
  const nowMs = context.nowMs();
  expect(row?.keys.map(({ retiredAtMs }) => retiredAtMs)).toEqual([nowMs - 1000, nowMs, null]);
  expect(currentKey(row!).publicKey).toBe(hostNamed('third').key);
  expect(() => currentKey({ ...row!, keys: row!.keys.slice(0, 2) })).toThrow('invariant');
});

test('no more hosts are paired than a list of senders holds, and those that are may pair again', async () => {
  const context = await testContext();
  const last = accepted(await pin(context, THERE));
  await context.store.transact((tx) => {
    for (let at = 1; at < PEERS_MAX; at++) {
      const peerId = `peer-${at}` as PeerId;
      tx.put('peer', [peerId], { ...last, peerId });
    }
  });
  expect(await pin(context, hostNamed('too-many'))).toMatchObject({ code: 'PAIRING_REFUSED' });
  accepted(await pin(context, THERE));
  accepted(await unpair(context, 'there'));
  accepted(await pin(context, hostNamed('not-too-many')));
  expect(await pin(context, THERE)).toMatchObject({ code: 'PAIRING_REFUSED' });
});

test('a host is let go by its name or by the fingerprint of the key that it has now', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  const second = hostNamed('second');
  await learn(context, rotation(THERE, second));
  await context.store.transact((tx) => learnDirectory(tx, peer.peerId, { agents: [], fetchedAtMs: 1 }, 2));
  for (const named of ['elsewhere', displayFingerprint(THERE.key)]) {
    expect(await unpair(context, named)).toMatchObject({ code: 'NO_SUCH_PEER', details: { host: named } });
  }
  const gone = accepted(await unpair(context, displayFingerprint(second.key)));
  expect(gone).toMatchObject({ host: 'there', agents: null, retired_keys: 1 });
  expect(await rowOf(context, peer)).toMatchObject({ unpairedAtMs: context.nowMs(), directory: null });
  expect(await unpair(context, hostFingerprint(second.key))).toMatchObject({ code: 'NO_SUCH_PEER' });
  expect(await context.store.read(livePeers)).toEqual([]);
  expect(context.told.filter(({ type }) => type === 'peers-changed')).toHaveLength(3);
});

test('what waits for a host that is let go is not sent any more', async () => {
  const context = await testContext();
  const { peerId } = accepted(await pin(context, THERE));
  await waitingRow(context, peerId);
  accepted(await unpair(context, 'there'));
  expect(await dueMs(context, peerId)).toBeNull();
});

test('an advertised key counts under the signature of its host, for that host, and of 32 bytes', () => {
  const good = advertised(THERE, 7);
  expect(encKeyOf(good, THERE.key)).toEqual({ hostPubkey: THERE.key, encPub: good.enc_pub, at: 7, sig: good.sig });
  expect(encKeyOf(good, hostNamed('other').key)).toBeUndefined();
  expect(encKeyOf({ ...good, at: 8 }, THERE.key)).toBeUndefined();
  expect(encKeyOf({ ...good, host_pubkey: hostNamed('other').key }, THERE.key)).toBeUndefined();
  const short = encKeyAdvertisement({ host_pubkey: THERE.key, enc_pub: Buffer.alloc(31).toString('base64'), at: 7 });
  const sig = THERE.signer.sign(canonicalBytes(short));
  expect(encKeyOf({ host_pubkey: THERE.key, enc_pub: short.enc_pub, at: 7, sig }, THERE.key)).toBeUndefined();
  const notBase64 = encKeyAdvertisement({ host_pubkey: THERE.key, enc_pub: 'no base64', at: 7 });
  const signed = THERE.signer.sign(canonicalBytes(notBase64));
  expect(encKeyOf({ host_pubkey: THERE.key, enc_pub: 'no base64', at: 7, sig: signed }, THERE.key)).toBeUndefined();
});

test('a newer key to seal to is taken, an older one changes nothing, and one of another host is none', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  const told = context.told.length;
  const offer = (advertisement: LanEncKey, peerId = peer.peerId): Promise<boolean> =>
    context.store.transact((tx) => learnEncKey(tx, context, peerId, advertisement));
  expect(await offer(advertised(THERE, 5))).toBe(true);
  expect((await rowOf(context, peer))?.encKey.at).toBe(5);
  expect(context.told.slice(told)).toEqual([CHANGED]);
  for (const at of [5, 4]) expect(await offer(advertised(THERE, at))).toBe(true);
  expect((await rowOf(context, peer))?.encKey.at).toBe(5);
  expect(context.told.slice(told)).toEqual([CHANGED]);
  expect(await offer(advertised(hostNamed('other'), 9))).toBe(false);
  expect(await offer(advertised(THERE, 9), 'nobody' as PeerId)).toBe(false);
  // Under a new key of the host its clock begins anew.
  const second = hostNamed('second');
  await learn(context, rotation(THERE, second));
  expect(await offer(advertised(second, 2))).toBe(true);
  expect((await rowOf(context, peer))?.encKey).toMatchObject({ hostPubkey: second.key, at: 2 });
});

test("a rotation is learned under both signatures, of a paired host, to a key that is nobody's", async () => {
  const context = await testContext();
  const [second, other] = [hostNamed('second'), hostNamed('other')];
  const peer = accepted(await pin(context, THERE));
  accepted(await pin(context, other));
  const told = context.told.length;
  const record = rotation(THERE, second);
  expect(await learn(context, rotation(hostNamed('stranger'), second))).toBe('unknown-host');
  expect(await learn(context, rotation(THERE, THERE))).toBe('refused');
  expect(await learn(context, rotation(THERE, other))).toBe('refused');
  expect(await learn(context, rotation(THERE, second, { old: second, next: second }))).toBe('refused');
  expect(await learn(context, rotation(THERE, second, { old: THERE, next: THERE }))).toBe('refused');
  for (const member of ['old_pubkey', 'new_pubkey'] as const) {
    const rec = { ...record.rec, [member]: 'no key' as PublicKey };
    expect(await learn(context, { ...record, rec })).toBe('refused');
  }
  expect(await rowOf(context, peer)).toEqual(peer);
  expect(context.told).toHaveLength(told);
  context.clock.nowMs += 1000;
  expect(await learn(context, record)).toBe('learned');
  const nowMs = context.nowMs();
  expect((await rowOf(context, peer))?.keys).toEqual([
    { publicKey: THERE.key, pinnedAtMs: nowMs - 1000, retiredAtMs: nowMs },
    { publicKey: second.key, pinnedAtMs: nowMs, retiredAtMs: null },
  ]);
  expect(await context.store.read((reader) => reader.get('peerKey', second.key))).toBe(peer.peerId);
  expect(context.told.slice(told)).toMatchObject([{ type: 'peer-rotated', keys: [THERE.key, second.key] }, CHANGED]);
  accepted(await unpair(context, 'there'));
  expect(await learn(context, rotation(second, hostNamed('third')))).toBe('unknown-host');
});

test('a new key that is no good point is refused, however it is signed', async () => {
  const context = await testContext();
  accepted(await pin(context, THERE));
  // Of small order: some signature verifies any document under it.
  const low = Buffer.alloc(32, 0);
  low[0] = 1;
  const rec = { ...rotation(THERE, THERE).rec, new_pubkey: low.toString('base64') as PublicKey };
  const old_sig = THERE.signer.sign(canonicalBytes(rec));
  const new_sig = Buffer.concat([low, Buffer.alloc(32)]).toString('base64');
  expect(await learn(context, { rec, old_sig, new_sig })).toBe('refused');
});

test('what the relay refused for the old key of a host goes to the new one at once', async () => {
  const context = await testContext();
  const { peerId } = accepted(await pin(context, THERE));
  const record = rotation(THERE, hostNamed('second'));
  await context.store.transact((tx) => {
    const row = pinRelay(tx, context, { url: 'https://relay.example', pubkey: relay.key, proof: null });
    tx.put('relay', [], { ...row, epoch: 'FIRST' as never });
  });
  await waitingRow(context, peerId);
  expect(await learn(context, record)).toBe('learned');
  expect(await dueMs(context, peerId)).toBe(context.nowMs());
});

test('the relays that know a host are noted in the order of the owner; those of before go', async () => {
  const context = await testContext();
  const { peerId } = accepted(await pin(context, THERE));
  const [second, former] = [hostNamed('second-relay').key, hostNamed('former-relay').key];
  await context.store.transact((tx) => {
    const row = pinRelay(tx, context, { url: 'https://relay.example', pubkey: relay.key, proof: null });
    tx.put('relayMore', [second], { ...row, pubkey: second, rank: 1, role: 'home' });
    tx.put('peer', [peerId], { ...tx.get('peer', peerId)!, atRelay: former });
  });
  const noted = async (key: PublicKey, isThere: boolean): Promise<PublicKey[]> => {
    await context.store.transact((tx) => notePeerAtRelay(tx, peerId, key, isThere));
    return context.store.read((reader) => relaysOfPeer(reader.get('peer', peerId)!));
  };
  expect(await noted(second, true)).toEqual([second]);
  expect(await noted(relay.key, true)).toEqual([relay.key, second]);
  expect(await noted(former, true)).toEqual([relay.key, second]);
  expect(peerIsAt((await context.store.read((reader) => reader.get('peer', peerId)))!, second)).toBe(true);
  expect(await noted(relay.key, false)).toEqual([second]);
  expect(await noted(second, false)).toEqual([]);
  expect(await context.store.read((reader) => reader.get('peer', peerId))).not.toHaveProperty('atRelay');
});

test('a rotation hurries nothing where no relay is set or none was entered', async () => {
  const context = await testContext();
  const { peerId } = accepted(await pin(context, THERE));
  await waitingRow(context, peerId);
  const due = await dueMs(context, peerId);
  expect(await learn(context, rotation(THERE, hostNamed('second')))).toBe('learned');
  expect(await dueMs(context, peerId)).toBe(due);
  await context.store.transact((tx) => {
    pinRelay(tx, context, { url: 'https://relay.example', pubkey: relay.key, proof: null });
  });
  expect(await learn(context, rotation(hostNamed('second'), hostNamed('third')))).toBe('learned');
  expect(await dueMs(context, peerId)).toBe(due);
});

test('a host that was let go teaches nothing and is not marked as reached', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  accepted(await unpair(context, 'there'));
  const gone = await rowOf(context, peer);
  context.clock.nowMs += 1000;
  await context.store.transact(async (tx) => {
    learnDirectory(tx, peer.peerId, { agents: [], fetchedAtMs: 1 }, 2);
    await markReached(tx, context, peer.peerId, '10.0.0.3:8789');
    await markReached(tx, context, 'nobody' as PeerId);
    markUnreached(tx, 'nobody' as PeerId);
    learnDirectory(tx, 'nobody' as PeerId, { agents: [], fetchedAtMs: 1 }, 2);
    markPinnedOurKey(tx, 'nobody' as PeerId, THERE.key);
    noteKnowsOurKey(tx, context, 'nobody' as PeerId);
  });
  expect(await rowOf(context, peer)).toEqual(gone);
  expect(await context.store.read((reader) => reader.get('peer', 'nobody' as PeerId))).toBeUndefined();
});

test('the newest list of agents counts, unless its time is still to come', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  const told = async (fetchedAtMs: number, nowMs: number): Promise<number | undefined> => {
    await context.store.transact((tx) => learnDirectory(tx, peer.peerId, { agents: [], fetchedAtMs }, nowMs));
    return (await rowOf(context, peer))?.directory?.fetchedAtMs;
  };
  expect(await told(50, 60)).toBe(50);
  expect(await told(40, 60)).toBe(50);
  expect(await told(50, 60)).toBe(50);
  expect(await told(40, 50)).toBe(50);
  expect(await told(40, 49)).toBe(40);
  const agents = [{ name: 'bert', roles: [] }];
  await context.store.transact((tx) => learnDirectory(tx, peer.peerId, { agents, fetchedAtMs: 40 }, 60));
  expect((await rowOf(context, peer))?.directory?.agents).toEqual(agents);
});

test('a host that is reached where it failed or at another address is sent what waits', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE, { address: 'a:1' }));
  await waitingRow(context, peer.peerId);
  const due = await dueMs(context, peer.peerId);
  const reach = (address?: string): Promise<void> =>
    context.store.transact((tx) => markReached(tx, context, peer.peerId, address));
  context.clock.nowMs += 1000;
  await reach();
  await reach('a:1');
  expect(await dueMs(context, peer.peerId)).toBe(due);
  expect(await rowOf(context, peer)).toMatchObject({ address: 'a:1', reachedAtMs: context.nowMs() });
  await context.store.transact((tx) => {
    markUnreached(tx, peer.peerId);
    markUnreached(tx, peer.peerId);
  });
  expect(await rowOf(context, peer)).toMatchObject({ lanFailures: 2 });
  await reach();
  expect(await rowOf(context, peer)).toMatchObject({ lanFailures: 0, address: 'a:1' });
  expect(await dueMs(context, peer.peerId)).toBe(context.nowMs());
});

test('a host that is reached at another address is sent what waits, and is called there from now on', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE, { address: 'a:1' }));
  await waitingRow(context, peer.peerId);
  await context.store.transact((tx) => markReached(tx, context, peer.peerId, 'b:2'));
  expect(await rowOf(context, peer)).toMatchObject({ address: 'b:2' });
  expect(await dueMs(context, peer.peerId)).toBe(context.nowMs());
});

test('an address that the owner sets is called at once', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  await waitingRow(context, peer.peerId);
  await context.store.transact((tx) => markUnreached(tx, peer.peerId));
  const told = context.told.length;
  expect(await setAddress(context, 'elsewhere', 'b:2')).toMatchObject({
    code: 'NO_SUCH_PEER',
    details: { host: 'elsewhere' },
  });
  expect(context.told).toHaveLength(told);
  expect(accepted(await setAddress(context, 'THERE', 'b:2'))).toMatchObject({ address: 'b:2', lan_failures: 0 });
  expect(await rowOf(context, peer)).toMatchObject({ address: 'b:2', lanFailures: 0 });
  expect(await dueMs(context, peer.peerId)).toBe(context.nowMs());
  expect(context.told.slice(told)).toContainEqual(CHANGED);
});

test('a host knows the key of this one when it pinned it, or signed what proves it', async () => {
  const context = await testContext();
  const ours = context.identity().signer.publicKey;
  const peer = accepted(await pin(context, THERE));
  await context.store.transact((tx) => markPinnedOurKey(tx, peer.peerId, hostNamed('our-old-key').key));
  const before = (await rowOf(context, peer))!;
  expect([before.pinnedOurKey, knowsOurKey(before, ours)]).toEqual([hostNamed('our-old-key').key, false]);
  expect((await listPeers(context)).peers).toMatchObject([{ knows_our_key: false }]);
  await context.store.transact((tx) => noteKnowsOurKey(tx, context, peer.peerId));
  const after = (await rowOf(context, peer))!;
  expect([after.shownOurKey, knowsOurKey(after, ours)]).toEqual([ours, true]);
});

test('what needs no proof is not written again', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE));
  await context.store.transact((tx) => noteKnowsOurKey(tx, context, peer.peerId));
  expect(await rowOf(context, peer)).not.toHaveProperty('shownOurKey');
});

test('a paired host is shown with what it told, and how old that is', async () => {
  const context = await testContext();
  const peer = accepted(await pin(context, THERE, { address: 'a:1' }));
  const shown = async (): Promise<unknown> => (await listPeers(context)).peers[0];
  const pairedAtMs = context.nowMs();
  expect(await shown()).toEqual({
    host: 'there',
    host_pubkey: THERE.key,
    fingerprint: displayFingerprint(THERE.key),
    retired_keys: 0,
    address: 'a:1',
    paired_at: isoSecond(pairedAtMs),
    reached_at: isoSecond(pairedAtMs),
    lan_failures: 0,
    agents: null,
    directory_age_seconds: null,
    has_confirmed: false,
    knows_our_key: true,
  });
  const agents = [{ name: 'bert', roles: [] }];
  await context.store.transact((tx) =>
    learnDirectory(tx, peer.peerId, { agents, fetchedAtMs: pairedAtMs }, pairedAtMs),
  );
  context.clock.nowMs += 2999;
  expect(await shown()).toMatchObject({ agents: 1, directory_age_seconds: 2 });
  context.clock.nowMs = pairedAtMs - 1;
  expect(await shown()).toMatchObject({ directory_age_seconds: 0 });
});
