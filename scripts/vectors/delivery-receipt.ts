/** Delivery receipts: what the recipient host signs, and the item by which its relay carries it. */
import { encodeBase64 } from '../../src/protocol/base64.ts';
import { canonicalBytes } from '../../src/protocol/canonical-json.ts';
import { type Sha256Hex, sha256Hex } from '../../src/protocol/digest.ts';
import { type DeliveryReceipt, type DeliveryState, deliveryReceipt } from '../../src/protocol/documents.ts';
import { AT, CONVENTIONS, type Party, alice, bob, carol, hostOf, signed } from './parties.ts';

export interface ReceiptStory {
  msg: string;
  /** The recipient host, which signs. */
  from: Party;
  recipient: string;
  /** The host that sent the envelope. */
  to: Party;
  seq: number;
  state: DeliveryState;
  at: number;
  /** Of the envelope that is receipted. */
  envelopeHash: Sha256Hex;
}

/** A receipt as it is pushed. */
export interface PushedReceipt {
  document: DeliveryReceipt;
  canonical: string;
  signature: string;
  itemId: string;
  wire: Buffer;
}

export function pushedReceipt(story: ReceiptStory): PushedReceipt {
  const { msg, from, recipient, to, seq, state, at, envelopeHash } = story;
  const keys = { host_pubkey: from.signer.publicKey, sender_host_pubkey: to.signer.publicKey };
  const document = deliveryReceipt({ msg, recipient, seq, state, at, ...keys, wire_hash: envelopeHash });
  const parts = signed(document, from.signer);
  const wire = canonicalBytes({ rec: document, sig: parts.signature });
  return { ...parts, itemId: `receipt:${msg}:${recipient}:${seq}`, wire };
}

function receiptCase(name: string, story: ReceiptStory): object {
  const { document, canonical, signature, itemId, wire } = pushedReceipt(story);
  const target = { host_pubkey: story.to.signer.publicKey, wire_b64: encodeBase64(wire) };
  return {
    name,
    host: hostOf(story.from),
    document,
    canonical,
    signature,
    wire: wire.toString('utf8'),
    wire_hash: sha256Hex(wire),
    push_item: { kind: 'receipt', item_id: itemId, targets: [target] },
  };
}

export function deliveryReceiptVectors(): object {
  const delivered: ReceiptStory = {
    msg: 'm1',
    from: bob,
    recipient: `reviewer@${bob.host}`,
    to: alice,
    seq: AT,
    state: 'delivered',
    at: AT,
    envelopeHash: sha256Hex('the wire bytes of m1'),
  };
  return {
    description: [
      'Delivery receipts. "document" is the record that the recipient host ("host") signs; the wire bytes are the RFC 8785',
      'form of {rec, sig}, with the document as "rec", byte for byte: the relay refuses any other spelling. "push_item" is',
      'the element of "items" in POST /v2/relay/items; its item_id is receipt:<msg>:<recipient>:<seq>. wire_hash inside the',
      'document is that of the envelope which is receipted; "wire_hash" beside it is that of the receipt itself.',
      CONVENTIONS,
    ],
    cases: [
      receiptCase('delivered', delivered),
      receiptCase('read a minute later, with the next seq', {
        ...delivered,
        seq: AT + 1,
        state: 'read',
        at: AT + 60_000,
      }),
      receiptCase('acked by a recipient with a long id', {
        ...delivered,
        msg: 'A.b_c-'.repeat(20),
        from: carol,
        recipient: `build.bot_2@${carol.host}`,
        state: 'acked',
      }),
    ],
  };
}
