/** Makes delivery receipts that show the sender's host, sealed for it, what the other host has seen of the relay. */
import { strict as assert } from 'node:assert';
import type { SealKey } from '../../src/host/core/rows.ts';
import { openSeen, SEEN_INFO, seenAdditional, seenPlaintext } from '../../src/host/wire/seen.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import type { SeenEntry } from '../../src/protocol/seen.ts';
import { receiptCase, type ReceiptStory } from './documents.ts';
import { SEEN_ENTRY, sealedOnce } from './envelope.ts';
import * as parties from './parties.ts';

const { alice, bob, aliceSealKey: targetKey, AT } = parties;

async function seenCase(name: string, entry: SeenEntry | null, ephemeralKey: parties.SealKey, seq: number) {
  const story: ReceiptStory = {
    msg: 'm1',
    from: bob,
    recipient: `reviewer@${bob.host}`,
    to: alice,
    seq,
    state: 'delivered',
    at: AT,
    envelopeHash: sha256Hex('the wire bytes of m1'),
  };
  const between = { host_pubkey: bob.signer.publicKey, sender_host_pubkey: alice.signer.publicKey };
  const [plaintext, aad] = [seenPlaintext(entry ?? undefined), seenAdditional(between)];
  const seen = await sealedOnce({ targetKey, ephemeralKey, info: SEEN_INFO }, plaintext, aad);
  const key: SealKey = { ...targetKey, sinceMs: AT, retiredAtMs: null };
  assert.deepEqual(await openSeen(seen, between, [key]), entry ? [entry] : []);
  return {
    ...receiptCase(name, { ...story, seen }),
    target: { name: alice.host, pubkey: alice.signer.publicKey, enc_pub: targetKey.encPub, secret: targetKey.secret },
    ephemeral_secret: ephemeralKey.secret,
    info: SEEN_INFO.toString('utf8'),
    aad: aad.toString('utf8'),
    entry,
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
      await seenCase('the newest note that the host has', SEEN_ENTRY, parties.fourthEphemeralKey, AT),
      await seenCase('before it has a note', null, parties.fifthEphemeralKey, AT + 1),
    ],
  };
}
