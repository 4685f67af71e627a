/** Tests what a relay is told of this host, and what of its answers is believed: the relay is played by the test. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newMove } from '../../../../src/host/core/relay-move.ts';
import type { SignedRotation } from '../../../../src/host/core/rows.ts';
import type { RelayEnrolmentRow, RelayProofSource } from '../../../../src/host/core/relay-rows.ts';
import {
  type RelayScope,
  enrolmentIn,
  pinRelay,
  putOwnRelays,
  putEnrolment,
} from '../../../../src/host/relay/relay-rows.ts';
import type { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { RelayCallFailed, RelayProblem, type ShownEncKey } from '../../../../src/host/relay/relay-request.ts';
import {
  enrolled,
  forgettingWhenUnknown,
  isRunningOut,
  registerHost,
} from '../../../../src/host/relay/register-host.ts';
import { encKeyOf } from '../../../../src/host/peers/peers.ts';
import { canonicalBytes, type SenderList, encKeyAdvertisement } from '../../../../src/protocol/documents.ts';
import type { Signer } from '../../../../src/protocol/ed25519.ts';
import { type ProblemCode, problemDocument } from '../../../../src/protocol/problem.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import { addPeer } from '../../../support/mail-context.ts';
import { testContext } from '../../../support/test-context.ts';

const ENROLLED = { authorized_by: 'host-key', account: null, crowded: false } as const;
const KNOWN: RelayEnrolmentRow = {
  checkedAtMs: 1,
  authorizedBy: 'invite',
  account: 'an account',
  isCrowded: true,
  validUntilMs: null,
  encKey: null,
  senders: null,
};

function problem(status: number, code: ProblemCode): RelayProblem {
  return new RelayProblem(status, problemDocument(code, 'no'));
}

function advertised(signer: Signer, encPub: string, at: number): ShownEncKey {
  const document = encKeyAdvertisement({ host_pubkey: signer.publicKey, enc_pub: encPub, at });
  return { host_pubkey: signer.publicKey, enc_pub: encPub, at, sig: signer.sign(canonicalBytes(document)) };
}

/** The relay plays this, where it is not what it should be. Each may throw. */
interface Played {
  enrol?: (proof: unknown) => Partial<typeof ENROLLED> | void;
  you?: () => { pubkey: PublicKey } | null;
  rotate?: (rotation: SignedRotation) => void;
  publishEncKey?: (advertisement: { enc_pub: string; at: number }, time: number) => void;
  shown?: () => ShownEncKey | null;
  publishSenders?: (list: SenderList, time: number) => { senders: number; iat: number } | void;
}

async function given(played: Played, proof: RelayProofSource | null = null) {
  const context = await testContext();
  const identity = context.identity();
  const { signer } = identity;
  const scope: RelayScope = { relayPubkey: relay.key, epoch: 'FIRST' as never, hostPubkey: signer.publicKey };
  await context.store.transact((tx) => {
    const row = pinRelay(tx, context, { url: 'https://relay.example', pubkey: relay.key, proof });
    tx.put('relay', [], { ...row, epoch: scope.epoch });
  });
  const asked: string[] = [];
  const advertisements: { enc_pub: string; at: number; sig: string }[] = [];
  const lists: SenderList[] = [];
  const client = {
    enrol: async (_ownerFp: string, given: unknown) => {
      asked.push('enrol');
      return { ...ENROLLED, ...played.enrol?.(given) };
    },
    ownInfo: async () => {
      asked.push('info');
      return { you: played.you ? played.you() : { pubkey: signer.publicKey } };
    },
    rotate: async (rotation: SignedRotation) => {
      asked.push(`rotate ${rotation.rec.iat}`);
      played.rotate?.(rotation);
      return {} as never;
    },
    publishEncKey: async (advertisement: { enc_pub: string; at: number; sig: string }) => {
      asked.push('publish key');
      advertisements.push(advertisement);
      played.publishEncKey?.(advertisement, advertisements.length);
      return { at: advertisement.at };
    },
    encKeyOf: async (key: PublicKey) => {
      asked.push('read key');
      if (played.shown) return played.shown();
      const last = advertisements.at(-1);
      return last ? { host_pubkey: key, ...last } : null;
    },
    publishSenders: async (list: SenderList) => {
      asked.push('publish senders');
      lists.push(list);
      return played.publishSenders?.(list, lists.length) ?? { senders: list.senders.length, iat: list.iat };
    },
  };
  const progress = { rotations: 0 };
  const parts = {
    context,
    identity,
    proof,
    stopping: new AbortController().signal,
    client: client as unknown as RelayClient,
    scope,
    relayNowMs: context.nowMs(),
    progress,
  };
  const noted = (): Promise<RelayEnrolmentRow | undefined> =>
    context.store.read((reader) => enrolmentIn(reader, scope));
  const note = (row: RelayEnrolmentRow): Promise<void> => context.store.transact((tx) => putEnrolment(tx, scope, row));
  const sendersIat = (): Promise<number | undefined> =>
    context.store.read((reader) => reader.get('relay')?.sendersIatMs);
  return { context, signer, identity, scope, parts, progress, asked, advertisements, lists, noted, note, sendersIat };
}

function rotationOf(iat: number): SignedRotation {
  const [from, to] = [hostNamed(`key-${iat}`).key, hostNamed(`key-${iat + 1}`).key];
  return { rec: { v: 1, type: 'host-rotation', old_pubkey: from, new_pubkey: to, iat }, old_sig: '', new_sig: '' };
}

async function rotated(context: Awaited<ReturnType<typeof given>>['context'], iats: readonly number[]): Promise<void> {
  const { hostName } = context.identity();
  const rotations = iats.map(rotationOf);
  await context.store.transact((tx) =>
    tx.put('identity', [], { hostName, createdAtMs: 0, keys: [], sealKeys: [], rotations, receiptFloor: 0 }),
  );
}

test('a relay is told the rotations, the host, its key and its list, in that order, and each once', async () => {
  const { context, parts, asked, noted, identity, lists, progress } = await given({});
  await rotated(context, [1, 2]);
  const peer = await addPeer(context, 'there');
  const known = await registerHost(parts);
  expect(asked).toEqual(['rotate 1', 'rotate 2', 'enrol', 'info', 'publish key', 'read key', 'publish senders']);
  const nowMs = context.nowMs();
  expect(known).toEqual({
    checkedAtMs: nowMs,
    authorizedBy: 'host-key',
    account: null,
    isCrowded: false,
    validUntilMs: null,
    encKey: { encPub: identity.sealKey.encPub, at: identity.sealKey.sinceMs, checkedAtMs: nowMs },
    senders: { hash: expect.stringMatching(/^[0-9a-f]{64}$/), count: 1, iat: nowMs, checkedAtMs: nowMs },
  });
  expect(await noted()).toEqual(known);
  expect(lists).toEqual([
    expect.objectContaining({ host_pubkey: identity.signer.publicKey, senders: [peer.keys[0]?.publicKey], iat: nowMs }),
  ]);
  expect(progress.rotations).toBe(0);
  expect(await registerHost(parts)).toEqual(known);
  expect(asked).toHaveLength(7);
});

test('of a relay that is unset while it is told of the host, nothing is noted and nothing fails', async () => {
  const { context, parts, lists, noted } = await given({});
  const enrols = parts.client;
  const client = Object.assign(Object.create(enrols) as typeof enrols, {
    ownInfo: async () => {
      await context.store.transact((tx) => putOwnRelays(tx, context, []));
      return enrols.ownInfo();
    },
  });
  const known = await registerHost({ ...parts, client });
  expect(known).toMatchObject({ authorizedBy: 'host-key', senders: { count: 0, iat: context.nowMs() } });
  expect(lists).toHaveLength(1);
  expect(await noted()).toBeUndefined();
  expect(await context.store.read((reader) => reader.get('relay'))).toBeUndefined();
});

test('another key to seal to and another list are published alone', async () => {
  const { context, parts, asked, note, identity } = await given({});
  const encKey = { encPub: identity.sealKey.encPub, at: 1, checkedAtMs: 1 };
  await note({ ...KNOWN, encKey: { ...encKey, encPub: 'former' } });
  await registerHost(parts);
  expect(asked).toEqual(['publish key', 'read key', 'publish senders']);
  await addPeer(context, 'there');
  await registerHost(parts);
  expect(asked.slice(3)).toEqual(['publish senders']);
});

test('a host whose former key the relay knew enrols again with what it brings, without its rotations', async () => {
  const { context, parts, asked, note } = await given({});
  await rotated(context, [1]);
  await note({ ...KNOWN, validUntilMs: context.nowMs() + 120_000 });
  const known = await registerHost(parts);
  expect(asked.slice(0, 3)).toEqual(['enrol', 'info', 'publish key']);
  expect(known).toMatchObject({ authorizedBy: 'host-key', account: null, isCrowded: false, validUntilMs: null });
});

test('an enrolment is renewed two minutes before it runs out', () => {
  expect(isRunningOut(KNOWN, Number.MAX_SAFE_INTEGER)).toBe(false);
  const row = { ...KNOWN, validUntilMs: 1_000_000 };
  expect([isRunningOut(row, 879_999), isRunningOut(row, 880_000)]).toEqual([false, true]);
});

test('a rotation that the relay has no use for stops no other, and what failed begins where it stood', async () => {
  let isDown = true;
  const { context, parts, asked, progress } = await given({
    rotate: ({ rec: { iat } }) => {
      if (iat === 1) throw problem(401, 'NOT_ENROLLED');
      if (iat === 2) throw problem(403, 'ENROL_REFUSED');
      if (iat === 3 && isDown) throw problem(503, 'UNAVAILABLE');
    },
  });
  await rotated(context, [1, 2, 3, 4]);
  await expect(registerHost(parts)).rejects.toThrow('503');
  expect([asked, progress.rotations]).toEqual([['rotate 1', 'rotate 2', 'rotate 3'], 2]);
  isDown = false;
  await registerHost(parts);
  expect(asked.slice(3, 6)).toEqual(['rotate 3', 'rotate 4', 'enrol']);
  expect(progress.rotations).toBe(0);
});

test('a rotation without an answer is not passed over', async () => {
  const { context, parts, asked } = await given({
    rotate: () => {
      throw new RelayCallFailed('no answer', 401);
    },
  });
  await rotated(context, [1, 2]);
  await expect(registerHost(parts)).rejects.toThrow('no answer');
  expect(asked).toEqual(['rotate 1']);
});

test('enrolment rule 10: the result is checked: a relay that does not name this host has not enrolled it', async () => {
  for (const you of [null, { pubkey: hostNamed('other').key }]) {
    const { parts, noted } = await given({ you: () => you });
    await expect(registerHost(parts)).rejects.toThrow('does not know this host');
    expect(await noted()).toBeUndefined();
  }
});

test('a refused enrolment is the reason when the relay does not know the host', async () => {
  const refused = problem(403, 'ENROL_REFUSED');
  const { parts } = await given({
    enrol: () => {
      throw refused;
    },
    you: () => null,
  });
  await expect(registerHost(parts)).rejects.toBe(refused);
});

test('a refused enrolment leaves what was known, where the relay still knows the host', async () => {
  const { context, parts, note, noted } = await given({
    enrol: () => {
      throw problem(403, 'ENROL_REFUSED');
    },
  });
  const said: unknown[] = [];
  Object.assign(context, { log: (level: string, _message: string, more: unknown) => void said.push([level, more]) });
  const validUntilMs = context.nowMs() + 1;
  await note({ ...KNOWN, validUntilMs });
  await registerHost(parts);
  expect(await noted()).toMatchObject({ authorizedBy: 'invite', account: 'an account', isCrowded: true, validUntilMs });
  expect(said).toEqual([['warn', { code: 'ENROL_REFUSED' }]]);
});

test('a refused first enrolment of a host that a rotation brought over is for no known time', async () => {
  const { parts } = await given({
    enrol: () => {
      throw problem(403, 'ENROL_REFUSED');
    },
  });
  expect(await registerHost(parts)).toMatchObject({
    authorizedBy: null,
    account: null,
    isCrowded: false,
    validUntilMs: null,
  });
});

test.each<[given: string, error: RelayCallFailed]>([
  ['a relay that is asked too often', problem(429, 'RATE_LIMITED')],
  ['no answer', new RelayCallFailed('no answer')],
])('an enrolment that failed by %s is tried again and nothing is asked after it', async (_given, error) => {
  const { parts, asked } = await given({
    enrol: () => {
      throw error;
    },
  });
  await expect(registerHost(parts)).rejects.toBe(error);
  expect(asked).toEqual(['enrol']);
});

test('a hosted enrolment lasts as long as its token, which is read anew from its file', async () => {
  const context = await testContext();
  const path = join(context.folder, 'token');
  const claims = Buffer.from(JSON.stringify({ exp: 2_000_000_000 })).toString('base64url');
  const cloudKey = { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32, 1).toString('base64url') };
  await writeFile(path, JSON.stringify({ token: `h.${claims}.s`, cloud_key: cloudKey }));
  let proof: unknown;
  const { parts } = await given({ enrol: (brought) => void (proof = brought) }, { type: 'file', path });
  expect(await registerHost(parts)).toMatchObject({ validUntilMs: 2_000_000_000_000 });
  expect(proof).toMatchObject({ token: `h.${claims}.s`, cloud_key: cloudKey });
});

test('what an enrolment answered takes the place of what was known, and what was published stays', () => {
  const encKey = { encPub: 'x', at: 1, checkedAtMs: 1 };
  const senders = { hash: 'x' as never, count: 1, iat: 1, checkedAtMs: 1 };
  const before = { ...KNOWN, encKey, senders };
  const answer = { authorized_by: 'oidc', account: `an\u0007account${'x'.repeat(300)}`, crowded: false } as const;
  const row = enrolled(before, answer as never, 5, 7);
  expect(row).toMatchObject({
    checkedAtMs: 7,
    authorizedBy: 'oidc',
    isCrowded: false,
    validUntilMs: 5,
    encKey,
    senders,
  });
  expect(row.account).toHaveLength(200);
  expect(row.account).not.toContain('\u0007');
  expect(enrolled(before, { ...ENROLLED }, 5, 7).account).toBeNull();
  expect(enrolled(before, undefined, null, 7)).toEqual({ ...before, checkedAtMs: 7 });
  expect(enrolled(undefined, undefined, null, 7)).toEqual({
    ...KNOWN,
    checkedAtMs: 7,
    authorizedBy: null,
    account: null,
    isCrowded: false,
  });
});

test('enrolment rule 10: a host that the relay forgot is told all of it again, and one in trouble is not', async () => {
  const { context, scope, note, noted } = await given({});
  const errors: [error: Error, isForgotten: boolean][] = [
    [problem(503, 'UNAVAILABLE'), false],
    [problem(401, 'CLOCK_SKEW'), false],
    [Object.assign(new Error('not of the relay'), { status: 401, code: 'NOT_ENROLLED' }), false],
    [problem(401, 'NOT_ENROLLED'), true],
  ];
  for (const [error, isForgotten] of errors) {
    await note(KNOWN);
    await expect(forgettingWhenUnknown(context, scope, () => Promise.reject(error))).rejects.toBe(error);
    expect(await noted()).toEqual(isForgotten ? undefined : KNOWN);
  }
});

test('enrolment rule 10: a relay that forgets the host while it registers is told all of it again', async () => {
  const { parts, note, noted } = await given({
    publishSenders: () => {
      throw problem(401, 'NOT_ENROLLED');
    },
  });
  await note(KNOWN);
  await expect(registerHost(parts)).rejects.toMatchObject({ code: 'NOT_ENROLLED' });
  expect(await noted()).toBeUndefined();
});

test('a key to seal to of a later time at the relay is outdone', async () => {
  const { parts, identity, advertisements } = await given({
    publishEncKey: (_advertisement, time) => {
      if (time === 1) throw problem(409, 'STALE_LIST');
    },
    shown: () => {
      const at = advertisements.length === 1 ? 9_000 : (advertisements.at(-1)?.at ?? 0);
      return advertised(identity.signer, identity.sealKey.encPub, at);
    },
  });
  expect((await registerHost(parts)).encKey).toMatchObject({ at: 9_001 });
  expect(advertisements).toMatchObject([{ at: identity.sealKey.sinceMs }, { at: 9_001 }]);
  const [, second] = advertisements;
  expect(encKeyOf({ host_pubkey: identity.signer.publicKey, ...second! }, identity.signer.publicKey)).toBeDefined();
});

test('a key to seal to that is stale beside none that is shown goes one further', async () => {
  const { parts, identity, advertisements } = await given({
    publishEncKey: (_advertisement, time) => {
      if (time === 1) throw problem(409, 'STALE_LIST');
    },
    shown: () => null,
  });
  await expect(registerHost(parts)).rejects.toThrow('another key to seal to');
  expect(advertisements.map(({ at }) => at)).toEqual([identity.sealKey.sinceMs, identity.sealKey.sinceMs + 1]);
});

test('a key to seal to that was made while the clock was ahead is published under the time of now', async () => {
  const { context, parts, advertisements } = await given({
    publishEncKey: (_advertisement, time) => {
      if (time === 1) throw problem(400, 'IAT_IN_FUTURE');
    },
  });
  context.clock.nowMs -= 1_000_000;
  expect((await registerHost(parts)).encKey).toMatchObject({ at: context.nowMs() });
  expect(advertisements).toHaveLength(2);
});

test.each<[given: string, error: RelayCallFailed]>([
  ['refused otherwise', problem(503, 'UNAVAILABLE')],
  ['without an answer', new RelayCallFailed('no answer', 0, { code: 'STALE_LIST' })],
])('a key to seal to that is %s is not published a second time', async (_given, error) => {
  const { parts, advertisements } = await given({
    publishEncKey: () => {
      throw error;
    },
  });
  await expect(registerHost(parts)).rejects.toBe(error);
  expect(advertisements).toHaveLength(1);
});

test('enrolment rule 10: the key to seal to is read back, and counts only as it was published and signed', async () => {
  const other = hostNamed('other').signer;
  const shows: ((signer: Signer, encPub: string) => ShownEncKey | null)[] = [
    () => null,
    (signer) => advertised(signer, Buffer.alloc(32, 9).toString('base64'), 1),
    (_signer, encPub) => advertised(other, encPub, 1),
    (signer, encPub) => ({ ...advertised(signer, encPub, 1), at: 2 }),
  ];
  for (const show of shows) {
    const played: Played = {};
    const { parts, identity, noted, asked } = await given(played);
    played.shown = () => show(identity.signer, identity.sealKey.encPub);
    await expect(registerHost(parts)).rejects.toThrow('another key to seal to');
    expect(await noted()).toMatchObject({ encKey: null });
    expect(asked).not.toContain('publish senders');
  }
});

test('an advertisement is signed by the host that it names and by no other', () => {
  const [one, other] = [hostNamed('one').signer, hostNamed('other').signer];
  const [encPub, otherEncPub] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];
  const good = advertised(one, encPub, 1);
  expect(encKeyOf(good, one.publicKey)).toBeDefined();
  expect(encKeyOf({ ...good, host_pubkey: other.publicKey }, one.publicKey)).toBeUndefined();
  expect(encKeyOf(good, other.publicKey)).toBeUndefined();
  expect(encKeyOf({ ...good, enc_pub: otherEncPub }, one.publicKey)).toBeUndefined();
});

const named = (host: string) => ({ pubkey: hostNamed(host).key, url: `https://${host}.example` });

test('a relay that is being closed gets the empty list, and the other one again once the move is over', async () => {
  const { context, parts, lists } = await given({});
  await addPeer(context, 'there');
  await registerHost(parts);
  const move = newMove({ pubkey: relay.key, url: 'https://relay.example' }, named('new'), true, context.nowMs());
  for (const state of ['leaving', 'closing', 'closing', 'done'] as const) {
    await context.store.transact((tx) => tx.put('relayMove', [], { ...move, state }));
    await registerHost(parts);
  }
  await context.store.transact((tx) => tx.put('relayMove', [], { ...move, state: 'closing', from: named('other') }));
  await registerHost(parts);
  // Nothing is published again that the relay has.
  expect(lists.map(({ senders }) => senders.length)).toEqual([1, 0, 1]);
});

test('sender allowlist: the answer is checked: another number of senders or another iat is another list', async () => {
  const answers = [
    ({ senders, iat }: SenderList) => ({ senders: senders.length + 1, iat }),
    ({ senders, iat }: SenderList) => ({ senders: senders.length, iat: iat + 1 }),
  ];
  for (const publishSenders of answers) {
    const { parts, noted, lists } = await given({ publishSenders });
    await expect(registerHost(parts)).rejects.toThrow('another list of senders');
    expect(lists).toHaveLength(1);
    expect(await noted()).toMatchObject({ senders: null });
  }
});

/** Published while the clocks differ: the `iat` of each list that was tried. */
async function iats({
  aheadMs = 0,
  lastIatMs = 0,
  stale = 0,
}: {
  aheadMs?: number;
  lastIatMs?: number;
  stale?: number;
}): Promise<{ tried: number[]; noted: number | undefined; failure: unknown }> {
  const { context, parts, lists, sendersIat } = await given({
    publishSenders: (_list, time) => {
      if (time <= stale) throw problem(409, 'STALE_LIST');
    },
  });
  const relayNowMs = context.nowMs() - aheadMs;
  await context.store.transact((tx) =>
    tx.put('relay', [], { ...tx.get('relay')!, sendersIatMs: lastIatMs + relayNowMs }),
  );
  const failure = await registerHost({ ...parts, relayNowMs }).then(
    () => null,
    (error: unknown) => error,
  );
  const noted = await sendersIat();
  return { tried: lists.map(({ iat }) => iat - relayNowMs), noted: noted && noted - relayNowMs, failure };
}

const LATEST_MS = 270_000;

test('sender allowlist: a list is of now, and later than the last one of this host', async () => {
  expect(await iats({ lastIatMs: -5 })).toMatchObject({ tried: [0], noted: 0, failure: null });
  expect(await iats({ lastIatMs: 7 })).toMatchObject({ tried: [8], noted: 8, failure: null });
  expect(await iats({ aheadMs: 60_000, lastIatMs: 7 })).toMatchObject({ tried: [60_000], noted: 60_000 });
  expect(await iats({ lastIatMs: LATEST_MS - 1 })).toMatchObject({ tried: [LATEST_MS] });
});

test('sender allowlist: a list of a clock that was ahead holds up none of now', async () => {
  expect(await iats({ lastIatMs: LATEST_MS })).toMatchObject({ tried: [0], noted: LATEST_MS, failure: null });
});

test('sender allowlist: a stale list is tried under later times that the relay takes, and no others', async () => {
  expect(await iats({ aheadMs: -60_000, stale: 1, lastIatMs: -9e9 })).toMatchObject({
    tried: [-60_000, 0],
    failure: null,
  });
  const all = await iats({ aheadMs: -60_000, stale: 2, lastIatMs: -9e9 });
  expect(all).toMatchObject({ tried: [-60_000, 0, LATEST_MS], noted: LATEST_MS, failure: null });
  expect(await iats({ stale: 1 })).toMatchObject({ tried: [1, LATEST_MS], failure: null });
  expect(await iats({ aheadMs: LATEST_MS, stale: 1 })).toMatchObject({
    tried: [LATEST_MS],
    failure: { code: 'STALE_LIST' },
  });
  expect(await iats({ stale: 9 })).toMatchObject({ tried: [1, LATEST_MS], failure: { code: 'STALE_LIST' } });
});

test('sender allowlist: a list that failed otherwise is not tried again', async () => {
  const { parts, lists, noted } = await given({
    publishSenders: () => {
      throw problem(503, 'UNAVAILABLE');
    },
  });
  await expect(registerHost(parts)).rejects.toThrow('503');
  expect(lists).toHaveLength(1);
  expect(await noted()).toMatchObject({ senders: null });
});
