import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Sha256Hex } from '../../../src/protocol/encodings.ts';
import {
  canonicalJson,
  DELIVERY_STATES,
  acceptReceipt,
  acceptReceiptText,
  enrolClaim,
  isDocumentSigned,
  signDocument,
  signedRecordJson,
} from '../../../src/protocol/documents.ts';
import { parseEpoch, parseMessageId, parseReceiptId } from '../../../src/protocol/names.ts';
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
function bytes(length: number): fc.Arbitrary<Buffer> {
  return fc.uint8Array({ minLength: length, maxLength: length }).map((of) => Buffer.from(of));
}

// The vectors (vectors.test.ts) have the exact members of each.
describe('signed documents', () => {
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

  it('a record with its signature is the canonical form of both', () => {
    const record = { v: 1, type: 'receipt', at: 1, recipient: 'anna@alice', 'a"b': 'é' };
    const sig = signDocument(alice.signer, record);
    expect(signedRecordJson(alice.signer, record)).toBe(canonicalJson({ rec: record, sig }));
  });
});
