import { expect, test } from 'vitest';
import { isoTime } from '../../../../src/protocol/time.ts';
import { checkRow } from '../../../../src/cli/mail/trace.ts';
import type { TraceRow } from '../../../../src/host/contract/outbox.ts';
import { canonicalBytes, type AcceptReceipt, receiptTree, signDocument } from '../../../../src/protocol/documents.ts';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import { leafHash } from '../../../../src/protocol/merkle.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { readVectors } from '../../../support/vectors/oracle.ts';

interface Vector {
  name: string;
  response: Record<string, unknown>;
  result: { accept: AcceptReceipt; sig: string };
}

const file = readVectors('log-proof.json') as { relay: { pubkey: PublicKey; seed: string }; cases: Vector[] };
const RELAY = signerFromSeed(Buffer.from(file.relay.seed, 'base64'));
const vector = file.cases.find(({ name }) => name === 'an item for two targets')!;
const { accept, sig } = vector.result;
const [target] = accept.targets;
if (!target) throw new Error('the vector has targets');

const ACCEPTANCE: NonNullable<TraceRow['acceptance']> = {
  relay_pubkey: file.relay.pubkey,
  fingerprint: '',
  epoch: accept.epoch,
  seq: target.seq,
  accepted_at: isoTime(accept.at),
  kept_until: isoTime(accept.at),
  may_be_lost: false,
  accept,
  sig,
  fault: null,
  must_know: true,
};
const ROW: TraceRow = {
  row: 1,
  kind: 'envelope',
  item_id: accept.item_id,
  message_id: accept.item_id,
  host: 'bob',
  recipients: [],
  confirmed: [],
  state: 'done',
  created_at: isoTime(0),
  next_at: null,
  lan_attempts: 0,
  relay_attempts: 0,
  alerted_at: null,
  last_error: null,
  bytes: 1,
  wire_hash: target.wire_hash,
  first_push_at: null,
  lan_accepted_at: null,
  acceptance: ACCEPTANCE,
  own_keys: [accept.sender_pubkey],
  host_keys: [target.host_pubkey],
  proof: { state: 'served', document: vector.response },
};

function stateOf(changes: Partial<TraceRow>): string {
  const checked = checkRow({ ...ROW, ...changes });
  return checked.state === 'verified' ? checked.verified.map(({ check }) => check).join(' ') : checked.state;
}

test('a proof of the row, its bytes and its receipt verifies', () => {
  expect(stateOf({})).toBe('checkpoint inclusion item accept');
});

test('a receipt that was signed together with others verifies as one that was signed alone', () => {
  const leaves = [accept, { ...accept, item_id: 'm9' }].map((leaf) => leafHash(canonicalBytes(leaf)));
  const { tree, pathOf } = receiptTree(RELAY.publicKey, leaves);
  const { sig: _sig, ...kept } = ACCEPTANCE;
  const proof = { index: 0, path: pathOf(0).toString('base64') };
  const acceptance = { ...kept, proof, tree, tree_sig: signDocument(RELAY, tree) };
  expect(stateOf({ acceptance })).toBe('checkpoint inclusion item accept');
  const other = { ...acceptance, proof: { ...proof, index: 1 } };
  expect(checkRow({ ...ROW, acceptance: other })).toMatchObject({
    state: 'failed',
    reason: 'the accept receipt is not signed by the relay',
  });
});

test('a receipt that a repeated push got after a rotation names another key than the record', () => {
  const rotated = { ...ACCEPTANCE, accept: { ...accept, sender_pubkey: carol.key } };
  const keys = { own_keys: [accept.sender_pubkey, carol.key] };
  expect(stateOf({ ...keys, acceptance: rotated })).toBe('checkpoint inclusion item');
});

test.each<[what: string, changes: Partial<TraceRow>, reason: RegExp]>([
  ['is of another item', { item_id: 'm9' }, /another item/],
  ['is of other bytes', { wire_hash: '0'.repeat(64) }, /other bytes/],
  ['names another sender', { own_keys: [carol.key] }, /a sender that is not this host/],
  ['names another host', { host_keys: [alice.key] }, /no key of bob/],
  ['has another seq', { acceptance: { ...ACCEPTANCE, seq: 1 } }, /different seqs/],
  ['is of another relay', { acceptance: { ...ACCEPTANCE, relay_pubkey: bob.key } }, /not the one that is trusted/],
  ['is none', { proof: { state: 'served', document: {} } }, /names no relay key/],
  [
    'is altered',
    { proof: { state: 'served', document: { ...vector.response, index: 4 } } },
    /not in the tree of the checkpoint/,
  ],
  [
    'comes with a receipt that is not worth anything',
    { acceptance: { ...ACCEPTANCE, fault: 'signature' } },
    /signature/,
  ],
  [
    'comes with a receipt that another key signed',
    { acceptance: { ...ACCEPTANCE, sig: alice.signer.sign(Buffer.from('x')) } },
    /not signed by the relay/,
  ],
  ['is denied', { proof: { state: 'denied', reason: '404' } }, /now denies it: 404/],
])('a proof that %s fails', (_what, changes, reason) => {
  const checked = checkRow({ ...ROW, ...changes });
  expect(checked.state).toBe('failed');
  expect(checked.state === 'failed' && checked.reason).toMatch(reason);
});

test('where there is no proof nothing is proven, and nothing has failed', () => {
  expect(checkRow({ ...ROW, acceptance: null })).toEqual({ state: 'none', reason: 'no relay has accepted it' });
  expect(checkRow({ ...ROW, proof: { state: 'none', reason: 'so' } })).toEqual({ state: 'none', reason: 'so' });
});
