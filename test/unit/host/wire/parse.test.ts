/** The signed bytes of a record are taken out of its wire bytes: they are what canonical JSON makes of the record. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseNotice, parseReceipt } from '../../../../src/host/wire/parse.ts';
import { canonicalBytes } from '../../../../src/protocol/documents.ts';

const KEY = Buffer.alloc(32, 1).toString('base64');
const ID = '01J00000000000000000000000';
const RECEIPT = {
  v: 1,
  type: 'receipt',
  msg: ID,
  recipient: 'anna@beta',
  seq: 1,
  state: 'read',
  at: 1_763_675_303_000,
  host_pubkey: KEY,
  sender_host_pubkey: KEY,
  wire_hash: 'a'.repeat(64),
};
const NOTICE = { v: 1, type: 'relay-expired', item_id: ID, target_pubkey: KEY, accepted_at: 1, expired_at: 2 };

const unknownMembers = fc.dictionary(
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((name) => `x${name}`),
  fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.constant(null)),
  { maxKeys: 4 },
);
/** Quotes, escapes and characters of several bytes, whatever a stranger puts there. */
const signature = fc.string({ unit: 'grapheme' });

test.each([
  ['a receipt', RECEIPT, parseReceipt],
  ['a notice', NOTICE, parseNotice],
] as const)(
  'property: the signed bytes of %s, with members that nobody knows and any signature',
  (_name, known, parse) => {
    fc.assert(
      fc.property(unknownMembers, signature, (unknown, sig) => {
        fc.pre(
          Object.keys({ ...unknown, sig })
            .concat(sig)
            .every((text) => text.isWellFormed()),
        );
        const rec = { ...unknown, ...known };
        const parsed = parse(canonicalBytes({ rec, sig }));
        expect(parsed.rec).toEqual(rec);
        expect(parsed.sig).toBe(sig);
        expect(parsed.signedBytes.toString('utf8')).toBe(canonicalBytes(rec).toString('utf8'));
      }),
    );
  },
);
