import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../src/protocol/canonical-json.ts';
import type { Sha256Hex } from '../../../src/protocol/digest.ts';
import {
  DELIVERY_STATES,
  acceptReceipt,
  acceptReceiptText,
  deliveryReceipt,
  enrolClaim,
  expiryNotice,
  isDocumentSigned,
  lanHelloWord,
  lanPair,
  signDocument,
} from '../../../src/protocol/documents.ts';
import { type Epoch, parseEpoch } from '../../../src/protocol/epoch.ts';
import { type ItemId, parseMessageId, parseReceiptId } from '../../../src/protocol/names.ts';
import { type PublicKey, publicKeyFromBytes } from '../../../src/protocol/public-key.ts';
import { alice, bob } from '../../support/hosts.ts';
import { share } from '../../support/thorough.ts';

const enrol = enrolClaim({
  challenge: 'Q',
  relay_pubkey: 'R' as PublicKey,
  host: 'h',
  pubkey: 'P' as PublicKey,
  owner_fp: '',
});
const accept = acceptReceipt({
  relay_pubkey: 'R' as PublicKey,
  epoch: 'E' as Epoch,
  sender_pubkey: 'S' as PublicKey,
  item_id: 'm1' as ItemId,
  targets: [{ host_pubkey: 'T' as PublicKey, seq: 7, wire_hash: 'ff' as Sha256Hex }],
  at: 1,
});
const expiry = expiryNotice({
  item_id: 'm1' as ItemId,
  target_pubkey: 'T' as PublicKey,
  accepted_at: 1,
  expired_at: 2,
});

const delivered = deliveryReceipt({
  msg: 'm1',
  recipient: 'a@h',
  seq: 2,
  state: 'read',
  at: 3,
  host_pubkey: 'T' as PublicKey,
  sender_host_pubkey: 'S' as PublicKey,
  wire_hash: 'ff' as Sha256Hex,
});
const parties = { inviter_pubkey: 'I' as PublicKey, acceptor_pubkey: 'A' as PublicKey };
const asks = lanPair({ role: 'acceptor', ...parties, body: { host: 'a', port: 1 } });
const hello = lanHelloWord({ nonce: 'N', pubkey: 'P' as PublicKey, address: 'h:1', now: 4 });
const pair = lanPair({ role: 'inviter', ...parties, body: { host: 'i' }, acceptor_mac: 'M' });

function bytes(length: number): fc.Arbitrary<Buffer> {
  return fc.uint8Array({ minLength: length, maxLength: length }).map((of) => Buffer.from(of));
}

describe('signed documents: exactly the members that are signed', () => {
  it('what a host signs to enrol', () => {
    expect(canonicalJson(enrol)).toBe(
      '{"challenge":"Q","host":"h","owner_fp":"","pubkey":"P","relay_pubkey":"R","type":"relay-enrol","v":1}',
    );
  });

  it('the accept receipt', () => {
    expect(canonicalJson(accept)).toBe(
      '{"at":1,"epoch":"E","item_id":"m1","relay_pubkey":"R","sender_pubkey":"S","targets":[{"host_pubkey":"T","seq":7,"wire_hash":"ff"}],"type":"relay-accept","v":1}',
    );
  });

  it('property: the text that a relay signs is the accept receipt, canonical', () => {
    const key = bytes(32).map(publicKeyFromBytes);
    const number = fc.nat(Number.MAX_SAFE_INTEGER);
    const messageId = fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/);
    const fields = fc.record({
      relay_pubkey: key,
      epoch: fc.stringMatching(/^[!-~]{1,64}$/).map((text) => parseEpoch(text)!),
      sender_pubkey: key,
      item_id: fc.oneof(
        messageId.map((id) => parseMessageId(id)!),
        fc.tuple(messageId, number).map(([id, seq]) => parseReceiptId(`receipt:${id}:agent.1@host-2:${seq}`)!),
      ),
      targets: fc.array(
        fc.record({ host_pubkey: key, seq: number, wire_hash: bytes(32).map((of) => of.toString('hex') as Sha256Hex) }),
        { maxLength: 5 },
      ),
      at: number,
    });
    fc.assert(
      fc.property(fields, (of) => {
        expect(acceptReceiptText(of)).toBe(canonicalJson(acceptReceipt(of)));
      }),
      { numRuns: share(200) },
    );
  });

  it('the expiry notice', () => {
    expect(canonicalJson(expiry)).toBe(
      '{"accepted_at":1,"expired_at":2,"item_id":"m1","target_pubkey":"T","type":"relay-expired","v":1}',
    );
  });

  it('the delivery receipt', () => {
    expect(canonicalJson(delivered)).toBe(
      '{"at":3,"host_pubkey":"T","msg":"m1","recipient":"a@h","sender_host_pubkey":"S","seq":2,"state":"read","type":"receipt","v":1,"wire_hash":"ff"}',
    );
  });

  it('what pairs two hosts', () => {
    expect(canonicalJson(asks)).toBe(
      '{"acceptor_pubkey":"A","body":{"host":"a","port":1},"inviter_pubkey":"I","role":"acceptor","type":"lan-pair","v":2}',
    );
    expect(canonicalJson(pair)).toBe(
      '{"acceptor_mac":"M","acceptor_pubkey":"A","body":{"host":"i"},"inviter_pubkey":"I","role":"inviter","type":"lan-pair","v":2}',
    );
  });

  it('that a host listens at an address', () => {
    expect(canonicalJson(hello)).toBe('{"address":"h:1","nonce":"N","now":4,"pubkey":"P","type":"lan-hello","v":1}');
  });

  it('each has `v` and a `type` of its own, so that no signature is good for two kinds', () => {
    const documents = [enrol, accept, expiry, delivered, pair, hello];
    // A pairing of version 1 covered the keys alone: it was never released.
    expect(documents.map(({ v }) => v)).toEqual([1, 1, 1, 1, 2, 1]);
    expect(new Set(documents.map(({ type }) => type)).size).toBe(documents.length);
  });

  it('the delivery states stand in rank order', () => {
    expect(DELIVERY_STATES).toEqual(['delivered', 'notified', 'read', 'acked']);
  });
});

describe('the signature of a document', () => {
  const sig = signDocument(alice.signer, enrol);

  it('covers every member, in any order, under one key', () => {
    const { v, type, ...others } = enrol;
    expect(isDocumentSigned(alice.key, { ...others, type, v }, sig)).toBe(true);
    expect(isDocumentSigned(bob.key, enrol, sig)).toBe(false);
    expect(isDocumentSigned(alice.key, { ...enrol, unknown: 1 }, sig)).toBe(false);
  });

  it('does not verify, and does not throw, where there is none or no canonical form', () => {
    for (const missing of [undefined, null, 7, '']) expect(isDocumentSigned(alice.key, enrol, missing)).toBe(false);
    expect(isDocumentSigned(alice.key, { ...enrol, host: '\ud800' }, sig)).toBe(false);
    expect(isDocumentSigned(alice.key, undefined, sig)).toBe(false);
  });
});
