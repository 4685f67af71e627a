/**
 * Makes delivery receipts that show the sender's host, sealed for it, what the other host has seen of the relay, and
 * which relays it uses; and those that say which entries of the sender's host the other one has heard.
 */
import { strict as assert } from 'node:assert';
import type { SealKey } from '../../src/host/core/rows.ts';
import {
  HOME_SEAL,
  openInReceipt,
  type ReceiptSeal,
  SEEN_SEAL,
  sealedAdditional,
  sealedPlaintext,
} from '../../src/host/outbox/receipt-seals.ts';
import { canonicalJson } from '../../src/protocol/documents.ts';
import { markOf, parseHeard, type SeenEntry } from '../../src/protocol/seen.ts';
import { DELIVERED, receiptCase } from './documents.ts';
import { SECOND_SEEN_ENTRY, SEEN_ENTRY, sealedOnce } from './envelope.ts';
import { twoRelaysOf } from './home-relays.ts';
import * as parties from './parties.ts';

const { alice, bob, aliceSealKey: targetKey, AT } = parties;

/** What `form` shows of a value, in the receipt `seq`. */
async function shownCase(
  form: ReceiptSeal,
  name: string,
  value: object | undefined,
  ephemeralKey: parties.SealKey,
  seq: number,
) {
  const between = { host_pubkey: bob.signer.publicKey, sender_host_pubkey: alice.signer.publicKey };
  const [plaintext, aad] = [sealedPlaintext(form, value), sealedAdditional(form, between)];
  const box = await sealedOnce({ targetKey, ephemeralKey, info: form.info }, plaintext, aad);
  const key: SealKey = { ...targetKey, sinceMs: AT, retiredAtMs: null };
  assert.deepEqual(await openInReceipt(form, box, between, [key]), value);
  return {
    ...receiptCase(name, { ...DELIVERED, seq, shown: form === SEEN_SEAL ? { seen: box } : { home: box } }),
    target: { name: alice.host, pubkey: alice.signer.publicKey, enc_pub: targetKey.encPub, secret: targetKey.secret },
    ephemeral_secret: ephemeralKey.secret,
    info: form.info.toString('utf8'),
    aad: aad.toString('utf8'),
    [form === SEEN_SEAL ? 'entry' : 'home']: value ?? null,
    plaintext: plaintext.toString('utf8'),
  };
}

export async function seenVectors() {
  return {
    description: [
      'Delivery receipts that show what the recipient host ("host") has seen of its relay, sealed for the host that',
      'sent the message ("target"): the member "seen" of "document". It is HPKE as for envelopes, with the info text',
      '"info" and "aad" as the associated data, the RFC 8785 form of {v: 1, type: "mail-seen", from, to}. What is',
      'sealed is "plaintext": the RFC 8785 form of "entry", or nothing where it is null, and spaces up to 704 bytes,',
      'so "ct" always has 720. "ephemeral_secret" is fixed here alone. All else is as in delivery-receipt.json.',
    ],
    cases: [
      await shownCase(SEEN_SEAL, 'the newest note that the host has', SEEN_ENTRY, parties.fourthEphemeralKey, AT),
      await shownCase(SEEN_SEAL, 'before it has a note', undefined, parties.fifthEphemeralKey, AT + 1),
    ],
  };
}

/** A receipt by which bob says that he has heard what alice showed. */
function heardCase(name: string, seq: number, ...entries: SeenEntry[]) {
  const heard = entries.map(markOf);
  assert.deepEqual(parseHeard(heard), heard);
  const texts = entries.map((entry) => canonicalJson(entry));
  return { ...receiptCase(name, { ...DELIVERED, seq, shown: { heard } }), entries, texts };
}

export function heardVectors() {
  return {
    description: [
      'Delivery receipts by which the recipient host ("host") says which entries of the host that sent the message it',
      'has heard: "heard" of "document" has the mark of each of "entries", the first 16 bytes of the SHA-256 of its',
      'RFC 8785 form (of "texts") in base64url without padding. In the sealed content of an envelope it is the same.',
      'All else is as in delivery-receipt.json.',
    ],
    cases: [
      heardCase('what it was shown of one relay', AT, SEEN_ENTRY),
      heardCase('of two relays', AT + 1, SECOND_SEEN_ENTRY, SEEN_ENTRY),
    ],
  };
}

export async function homeVectors() {
  const { doc, sig } = twoRelaysOf(bob);
  return {
    description: [
      'Delivery receipts in which the recipient host ("host") says which relays it uses, and which document of home',
      'relays it holds of the host that sent the message ("target"): the member "home" of "document". It is HPKE as',
      'for envelopes, with the info text "info" and "aad" as the associated data, the RFC 8785 form of {v: 1, type:',
      '"mail-home", from, to}. What is sealed is "plaintext": the RFC 8785 form of "home", and spaces up to 128 bytes,',
      'or up to 2,176 where it has a document. "doc" and "sig" are as in home-relays.json. "ephemeral_secret" is fixed',
      'here alone. All else is as in delivery-receipt.json.',
    ],
    cases: [
      await shownCase(HOME_SEAL, 'the seq that the host knows', { known: AT }, parties.sixthEphemeralKey, AT),
      await shownCase(
        HOME_SEAL,
        'its own document beside',
        { doc, known: AT, sig },
        parties.seventhEphemeralKey,
        AT + 1,
      ),
    ],
  };
}
