import { describe, expect, test } from 'vitest';
import { type ProofDocuments, NotVerified, checkProofs } from '../../../../src/relay/replay/proof-check.ts';
import { canonicalBytes } from '../../../../src/protocol/documents.ts';
import { signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import type { Epoch } from '../../../../src/protocol/names.ts';
import { leafHash, nodeHash } from '../../../../src/protocol/merkle.ts';
import { type PublicKey, displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { accepted, enrolled } from '../../../support/events.ts';
import { encodeRecord } from '../../../../src/relay/store/record.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { rotationBody } from '../../../support/rotations.ts';
import { readVectors } from '../../../support/vectors/oracle.ts';
import { found } from '../../../support/found.ts';

type Members = Record<string, unknown>;

const file = readVectors('log-proof.json') as { relay: { seed: string; pubkey: PublicKey }; cases: Members[] };
const signer = signerFromSeed(Buffer.from(file.relay.seed, 'base64'));
const relayKey = file.relay.pubkey;

function caseNamed(name: string): Members {
  return found(
    file.cases.find((one) => one['name'] === name),
    `no vector is called ${name}`,
  );
}

const item = caseNamed('an item for two targets');
const proof = item['response'] as Members & { proof: string[]; record_b64: string; checkpoint: string; epoch: Epoch };
const result = item['result'] as { accept: Members & { targets: Members[] }; sig: string };
const link = caseNamed('the link of the second epoch')['response'] as Members;
const lastOfFirst = caseNamed('the last checkpoint of the first epoch')['note'] as string;
const growth = caseNamed('seven leaves after three');
const growthProof = growth['response'] as Members & { proof: string[] };
const growthNotes = { old: growth['old'] as string, new: growth['new'] as string };

/** Returns what a check found, or the first thing that fails. */
function outcome(documents: ProofDocuments): string[] | string {
  try {
    return checkProofs({ relayKey, ...documents }).verified.map(({ check }) => check);
  } catch (error) {
    if (error instanceof NotVerified) return error.message;
    throw error;
  }
}

/** A proof of one leaf in a tree of two, as a relay would sign it. */
function proofOf(leaf: Buffer, index: 0 | 1): Members {
  const other = leafHash(Buffer.from('another'));
  const pair = index === 0 ? [leafHash(leaf), other] : [other, leafHash(leaf)];
  const { epoch } = proof;
  const rootHash = nodeHash(pair[0]!, pair[1]!);
  const checkpoint = signCheckpoint({ epoch, size: 2, rootHash }, signer);
  return { ...proof, checkpoint, index, record_b64: leaf.toString('base64'), proof: [other.toString('base64')] };
}

function flipped(base64: string, at = 0): string {
  const bytes = Buffer.from(base64, 'base64');
  bytes[at]! ^= 1;
  return bytes.toString('base64');
}

describe('the proof of an item', () => {
  test('verifies, and says what it says', () => {
    const { verified, relayPubkey, isPinned } = checkProofs({ proofs: [proof], relayKey });
    expect(verified.map(({ check }) => check)).toEqual(['checkpoint', 'inclusion', 'item']);
    expect([relayPubkey, isPinned]).toEqual([relayKey, true]);
    const said = verified.map(({ sentence }) => sentence).join(' ');
    for (const words of ['m1', '7 leaves', 'leaf 5', displayFingerprint(relayKey), '2025-11-20T21:48:24.000Z']) {
      expect(said).toContain(words);
    }
  });

  test('verifies under the fingerprint of the relay, and without any key says that it was not compared', () => {
    expect(checkProofs({ proofs: [proof], relayKey: displayFingerprint(relayKey) }).isPinned).toBe(true);
    expect(checkProofs({ proofs: [proof] }).isPinned).toBe(false);
  });

  test.each([
    ['another relay is trusted', { ...proof }, bob.key, /not the one that is trusted/],
    ['another fingerprint is trusted', { ...proof }, displayFingerprint(bob.key), /not the one that is trusted/],
    ['it names another relay', { ...proof, relay_pubkey: bob.key }, bob.key, /none that the relay key signed/],
    ['it names no relay', { ...proof, relay_pubkey: 'x' }, relayKey, /names no relay key/],
    [
      'its key is one under which anything verifies',
      { ...proof, relay_pubkey: Buffer.from(`01${'00'.repeat(31)}`, 'hex').toString('base64') },
      undefined,
      /names no relay key/,
    ],
    ['it is of another epoch', { ...proof, epoch: 'X' }, relayKey, /another epoch/],
    ['its index is another', { ...proof, index: 4 }, relayKey, /not in the tree/],
    ['its index is no number', { ...proof, index: '5' }, relayKey, /not the members/],
    ['its record is another', { ...proof, record_b64: flipped(proof.record_b64, 20) }, relayKey, /not in the tree/],
    ['its record is no base64', { ...proof, record_b64: '?' }, relayKey, /not the members/],
    ['a hash is another', { ...proof, proof: proof.proof.with(1, flipped(proof.proof[1]!)) }, relayKey, /not in the/],
    ['a hash is too short', { ...proof, proof: ['AAAA'.repeat(11)] }, relayKey, /no hash/],
    ['a hash is missing', { ...proof, proof: proof.proof.slice(1) }, relayKey, /not in the tree/],
    [
      'its size is another',
      { ...proof, checkpoint: proof.checkpoint.replace('\n7\n', '\n8\n') },
      relayKey,
      /none that/,
    ],
    ['its checkpoint is not there', { ...proof, checkpoint: undefined }, relayKey, /not the members/],
    ['it is empty', {}, relayKey, /names no relay key/],
    ['it is nothing', null, relayKey, /names no relay key/],
  ])('does not verify when %s', (_what, wrong, key, said) => {
    expect(() => checkProofs({ proofs: [wrong], ...(key && { relayKey: key }) })).toThrow(said);
    expect(() => checkProofs({ proofs: [wrong], ...(key && { relayKey: key }) })).toThrow(NotVerified);
  });

  test('does not verify when any bit of its record is flipped', () => {
    const bytes = Buffer.from(proof.record_b64, 'base64');
    for (let at = 0; at < bytes.length; at++) {
      expect(outcome({ proofs: [{ ...proof, record_b64: flipped(proof.record_b64, at) }] })).toContain(
        'not in the tree',
      );
    }
  });

  test.each([
    ['of something else', encodeRecord({ lsn: 3, event: enrolled(bob) }), 1, 'the record is of no accepted item'],
    ['of no known form', Buffer.from('anything'), 1, 'the record has no known format'],
    ['that cannot be read', Buffer.from('01000000009f', 'hex'), 1, 'the record is unreadable'],
    ['that is no link', Buffer.from('{}'), 0, 'the first leaf is no link of this relay and epoch'],
  ] as const)('does not verify with a leaf %s, though it is in the tree', (_what, leaf, index, said) => {
    expect(outcome({ proofs: [proofOf(leaf, index)] })).toBe(said);
  });

  test('has no use for checkpoints', () => {
    expect(outcome({ proofs: [proof], old: lastOfFirst })).toContain('there is neither');
    expect(outcome({ proofs: [proof], new: lastOfFirst })).toContain('there is none');
  });
});

describe('an accept receipt', () => {
  test('is in the log, as the result of the push and alone', () => {
    const found = ['checkpoint', 'inclusion', 'item', 'accept'];
    expect(outcome({ proofs: [proof], accept: { item_id: 'm1', status: 'accepted', ...result } })).toEqual(found);
    expect(outcome({ proofs: [proof], accept: result.accept })).toEqual(found);
  });

  const { accept } = result;
  const [first, second] = accept.targets;
  const senderKey = accept['sender_pubkey'] as PublicKey;

  test.each([
    ['another item', { ...accept, item_id: 'm2' }, 'another item'],
    ['another sender', { ...accept, sender_pubkey: bob.key }, 'another sender key'],
    ['another relay', { ...accept, relay_pubkey: bob.key }, 'another relay'],
    ['another time', { ...accept, at: 1 }, 'another time'],
    ['another seq', { ...accept, targets: [first, { ...second, seq: 1 }] }, 'another seq'],
    [
      'other wire bytes',
      { ...accept, targets: [{ ...first, wire_hash: '0'.repeat(64) }, second] },
      'another wire hash',
    ],
    ['a target more', { ...accept, targets: [first, second, { ...first, host_pubkey: relayKey }] }, 'in no record'],
    ['no targets', { ...accept, targets: [] }, 'not the members'],
    ['no members', {}, 'not the members'],
    ['nothing', null, 'not the members'],
  ])('of %s is not the one in the log', (_what, wrong, said) => {
    expect(outcome({ proofs: [proof], accept: wrong })).toContain(said);
  });

  test('that the relay did not sign is refused, whatever it says', () => {
    expect(outcome({ proofs: [proof], accept: { ...result, sig: flipped(result.sig) } })).toContain('not signed');
    expect(outcome({ proofs: [proof], accept: { accept } })).toContain('not signed');
  });

  test('needs the proof of its item', () => {
    expect(outcome({ proofs: [link], accept: result })).toContain('needs the proof');
    const other = caseNamed('an item of the second epoch')['response'];
    expect(outcome({ proofs: [proof, other], accept: result })).toContain('another item');
  });

  test('of targets that were accepted at different times needs the proof of each', () => {
    const at = accept['at'] as number;
    const later = accepted(alice, 'm1', [[carol, at + 5, 'x']], { senderPubkey: senderKey, acceptedAtMs: at + 5 });
    const target = { host_pubkey: carol.key, seq: at + 5, wire_hash: later.targets[0]!.wireHash };
    const both = { ...accept, at: at + 5, targets: [...accept.targets, target] };
    const laterProof = proofOf(encodeRecord({ lsn: 9, event: later }), 1);
    expect(outcome({ proofs: [proof], accept: both })).toContain('in no record: give its proof too');
    expect(outcome({ proofs: [proof, laterProof], accept: both })).toHaveLength(7);
    expect(outcome({ proofs: [laterProof], accept: both })).toContain('in no record: give its proof too');
    expect(outcome({ proofs: [proof, laterProof], accept: { ...both, at } })).toContain('another time');
  });
});

describe('a link', () => {
  test('verifies, and with the last checkpoint of the epoch before', () => {
    expect(outcome({ proofs: [link] })).toEqual(['checkpoint', 'inclusion', 'link']);
    expect(outcome({ proofs: [link], old: lastOfFirst })).toEqual(['checkpoint', 'inclusion', 'link']);
    const first = caseNamed('the link of the first epoch')['response'];
    expect(checkProofs({ proofs: [first], relayKey }).verified.at(-1)?.sentence).toContain('no epoch before');
  });

  test.each([
    ['an earlier checkpoint', 'a checkpoint of two leaves', 'not the one that the epoch links to'],
    ['a checkpoint of another epoch', 'a checkpoint of the second epoch', 'not of the epoch before'],
  ])('does not verify with %s', (_what, name, said) => {
    expect(outcome({ proofs: [link], old: caseNamed(name)['note'] as string })).toContain(said);
  });

  test('does not verify with what the relay did not sign', () => {
    expect(outcome({ proofs: [link], old: 'x' })).toContain('none that the relay key signed');
  });
});

describe('a consistency proof', () => {
  test('verifies between its checkpoints', () => {
    expect(outcome({ proofs: [growthProof], ...growthNotes })).toEqual(['checkpoint', 'checkpoint', 'consistency']);
  });

  test.each<[string, Members, Partial<ProofDocuments>, string]>([
    [
      'a hash is another',
      { proof: growthProof.proof.with(0, flipped(growthProof.proof[0]!)) },
      {},
      'does not continue',
    ],
    ['a hash is missing', { proof: growthProof.proof.slice(1) }, {}, 'does not continue'],
    ['the checkpoints change places', {}, { old: growthNotes.new, new: growthNotes.old }, 'have 7 and 3 leaves'],
    ['its sizes are others', { from: 4 }, {}, 'have 3 and 7 leaves'],
    ['it is of another epoch', { epoch: 'X' }, {}, 'different epochs'],
    ['a checkpoint is not signed by the relay', {}, { new: growthNotes.new.replace('\n7\n', '\n6\n') }, 'none that'],
    ['it has no members', { from: undefined }, {}, 'not the members'],
  ])('does not verify when %s', (_what, members, notes, said) => {
    expect(outcome({ proofs: [{ ...growthProof, ...members }], ...growthNotes, ...notes })).toContain(said);
  });

  test('needs both checkpoints', () => {
    expect(outcome({ proofs: [growthProof] })).toContain('needs both');
    expect(outcome({ proofs: [growthProof], old: growthNotes.old })).toContain('needs both');
  });

  test('of a tree that a relay signed twice does not verify: two histories under one name show', () => {
    const fork = signCheckpoint({ epoch: proof.epoch, size: 7, rootHash: Buffer.alloc(32, 9) }, signer);
    expect(outcome({ proofs: [growthProof], ...growthNotes, new: fork })).toContain('does not continue');
  });
});

test('proofs of different relays are not taken together', () => {
  const other = { ...proof, relay_pubkey: bob.key };
  expect(outcome({ proofs: [proof, other] })).toContain('different relays');
});

describe('the receipt of a repeated push after rotations', () => {
  const erin = hostNamed('erin');
  const record = accepted(alice, 'm1', [[bob, 7, 'x']]);
  const known = proofOf(encodeRecord({ lsn: 3, event: record }), 1);
  const receipt = (sender: TestHost, target: TestHost, changes: Members = {}): Members => {
    const [recorded] = record.targets;
    const targets = [{ host_pubkey: target.key, seq: recorded?.seq, wire_hash: recorded?.wireHash, ...changes }];
    const sender_pubkey = sender.key;
    const accept = { ...result.accept, sender_pubkey, item_id: 'm1', targets, at: record.acceptedAtMs };
    return { accept, sig: signer.sign(canonicalBytes(accept)) };
  };
  const proofs = [known];
  const [first, second, third] = [rotationBody(alice, carol), rotationBody(bob, dave), rotationBody(dave, erin)];

  test('is in the log under the keys that they joined, whatever their order', () => {
    const accept = receipt(carol, erin);
    const found = ['checkpoint', 'inclusion', 'item', 'rotation', 'rotation', 'rotation', 'accept'];
    expect(outcome({ proofs, accept, rotations: [third, first, second] })).toEqual(found);
    expect(outcome({ proofs, accept: receipt(alice, bob), rotations: [first] })).toContain('accept');
  });

  test('needs every one of them', () => {
    const accept = receipt(carol, erin);
    expect(outcome({ proofs, accept })).toContain('give the rotation too');
    expect(outcome({ proofs, accept, rotations: [second, third] })).toContain('another sender key');
    expect(outcome({ proofs, accept, rotations: [first, second] })).toContain('in no record');
    expect(outcome({ proofs, accept: receipt(carol, erin, { seq: 8 }), rotations: [first, second, third] })).toContain(
      'another seq',
    );
  });

  test('takes none that is not signed by both keys, and none without a receipt', () => {
    const accept = receipt(carol, bob);
    for (const forged of [
      rotationBody(alice, carol, { oldSigner: carol }),
      rotationBody(alice, carol, { newSigner: alice }),
      { rotation: { ...first.rotation, rec: { ...first.rotation.rec, extra: '\ud800' } } },
      {},
      null,
    ])
      expect(outcome({ proofs, accept, rotations: [forged] })).toContain('not signed by both');
    expect(outcome({ proofs, rotations: [first] })).toContain('for an accept receipt');
  });
});
