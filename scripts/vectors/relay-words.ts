/** What the relay signs: accept receipts and expiry notices. */
import { encodeBase64 } from '../../src/protocol/base64.ts';
import { canonicalBytes } from '../../src/protocol/canonical-json.ts';
import { sha256Hex } from '../../src/protocol/digest.ts';
import { acceptReceipt, expiryNotice } from '../../src/protocol/documents.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import { pushedReceipt } from './delivery-receipt.ts';
import { AT, CONVENTIONS, EPOCH, type Party, alice, bob, carol, keysOf, relay, signed } from './parties.ts';

function acceptCase(name: string, itemId: string, targets: { host: Party; seq: number; wire: Buffer }[]): object {
  const document = acceptReceipt({
    relay_pubkey: relay.signer.publicKey,
    epoch: EPOCH,
    sender_pubkey: alice.signer.publicKey,
    item_id: itemId as ItemId,
    targets: targets.map(({ host, seq, wire }) => ({
      host_pubkey: host.signer.publicKey,
      seq,
      wire_hash: sha256Hex(wire),
    })),
    at: AT,
  });
  return { name, wires_b64: targets.map(({ wire }) => encodeBase64(wire)), ...signed(document, relay.signer) };
}

/** The bytes that go to one target: they name it, so they differ from those that go to another. */
function envelopeFor({ host }: Party): Buffer {
  return canonicalBytes({ id: 'm1', sealed: { alg: 'a', enc: 'e', ct: 'c' }, subject: 'caf\u00e9', to_host: host });
}

export function acceptVectors(): object {
  const receipt = pushedReceipt({
    msg: 'm0',
    from: alice,
    recipient: `coder@${alice.host}`,
    to: bob,
    seq: AT - 60_000,
    state: 'read',
    at: AT,
    envelopeHash: sha256Hex(envelopeFor(alice)),
  });
  return {
    description: [
      'Accept receipts: what the relay signs in each result of POST /v2/relay/items, beside it as "accept" and "sig".',
      'A sender takes a row for relay-accepted only when the signature is that of the relay key it pinned, and item_id,',
      'host_pubkey and wire_hash match the row. wire_hash is the SHA-256, in lowercase hex, of the exact bytes that were',
      'pushed: the bytes that "wires_b64" decodes to, in the order of "targets".',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      acceptCase('an envelope for one target', 'm1', [{ host: bob, seq: AT, wire: envelopeFor(bob) }]),
      acceptCase('an envelope for two targets, in the order they were pushed in', 'm1', [
        { host: carol, seq: AT + 1, wire: envelopeFor(carol) },
        { host: bob, seq: AT, wire: envelopeFor(bob) },
      ]),
      acceptCase('a delivery receipt', receipt.itemId, [{ host: bob, seq: AT + 2, wire: receipt.wire }]),
    ],
  };
}

function expiryCase(name: string, itemId: string, target: Party, acceptedAtMs: number, expiredAtMs: number): object {
  const document = expiryNotice({
    item_id: itemId as ItemId,
    target_pubkey: target.signer.publicKey,
    accepted_at: acceptedAtMs,
    expired_at: expiredAtMs,
  });
  const parts = signed(document, relay.signer);
  const wire = canonicalBytes({ rec: document, sig: parts.signature });
  return {
    name,
    ...parts,
    wire: wire.toString('utf8'),
    wire_hash: sha256Hex(wire),
    item: {
      seq: expiredAtMs,
      kind: 'expired',
      item_id: `expired:${itemId}:${target.signer.publicKey}`,
      sender_pubkey: relay.signer.publicKey,
      wire_b64: encodeBase64(wire),
    },
  };
}

export function expiryVectors(): object {
  const retentionMs = 14 * 86_400_000;
  return {
    description: [
      'Expiry notices: what the relay signs when an envelope passes its retention without being acked, and the item of',
      'GET /v2/relay/items by which the sender learns it. The wire bytes are the RFC 8785 form of {rec, sig}, with the',
      'notice as "rec". "target_pubkey" is the key the sender pushed to, whatever was rotated since.',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      expiryCase('after 14 days', 'm1', bob, AT, AT + retentionMs),
      expiryCase('swept a while later, with the longest id', 'm'.repeat(128), carol, AT, AT + retentionMs + 60_001),
    ],
  };
}
