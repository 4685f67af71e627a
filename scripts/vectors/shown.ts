/**
 * Makes delivery receipts that show the sender's host, sealed for it, what the other host has seen of the relay, and
 * which relays it uses.
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
} from '../../src/host/wire/receipt-seals.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { receiptCase, type ReceiptStory } from './documents.ts';
import { SEEN_ENTRY, sealedOnce } from './envelope.ts';
import { twoRelaysOf } from './home-relays.ts';
import * as parties from './parties.ts';

const { alice, bob, aliceSealKey: targetKey, AT } = parties;

/** What `form` shows of a value, in the `nth` receipt. */
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
  const story: ReceiptStory = {
    msg: 'm1',
    from: bob,
    recipient: `reviewer@${bob.host}`,
    to: alice,
    seq,
    state: 'delivered',
    at: AT,
    envelopeHash: sha256Hex('the wire bytes of m1'),
    shown: form === SEEN_SEAL ? { seen: box } : { home: box },
  };
  return {
    ...receiptCase(name, story),
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
