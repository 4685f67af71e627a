/** Documents that hosts and relays sign. */
import {
  canonicalBytes,
  type DeliveryReceipt,
  type DeliveryState,
  acceptReceipt,
  cloudKeyCertificate,
  deliveryReceipt,
  encKeyAdvertisement,
  enrolClaim,
  expiryNotice,
  hostRotation,
  senderList,
} from '../../src/protocol/documents.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import {
  AT,
  EPOCH,
  type Party,
  type SealKey,
  alice,
  aliceSecond,
  aliceThird,
  bob,
  bobSealKey,
  bobSecondSealKey,
  carol,
  hostOf,
  keysOf,
  relay,
  signed,
} from './parties.ts';
import { type Sha256Hex, encodeBase64, sha256Hex } from '../../src/protocol/encodings.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import { createECDH } from 'node:crypto';
import { type JWK, calculateJwkThumbprint } from 'jose';

/** An advertisement of `host`, signed, with the body that publishes it and the answer that shows it. */
export function encKeyParts(host: Party, key: SealKey, at: number) {
  const { publicKey: host_pubkey } = host.signer;
  const parts = signed(encKeyAdvertisement({ host_pubkey, enc_pub: key.encPub, at }), host.signer);
  const shown = { enc_pub: key.encPub, at, sig: parts.signature };
  return { ...parts, request: shown, shown: { enc_key: { host_pubkey, ...shown } } };
}

function encKeyCase(name: string, key: SealKey, at: number): object {
  return { name, secret: key.secret, ...encKeyParts(bob, key, at) };
}

export function encKeyVectors() {
  return {
    description: [
      'Encryption-key advertisements. The host signs "document" and posts "request" to /v1/relay/enc-key; it is not',
      'in the body whose key it is, for that is the key of the hop. "shown" is the answer of GET',
      '/v2/relay/enc-key?key=, from which a sender builds the document again and verifies it under the key that it',
      'pinned. enc_pub is an X25519 key (RFC 7748) and "secret" its private key.',
    ],
    host: hostOf(bob),
    cases: [
      encKeyCase('the first key of a host', bobSealKey, AT),
      encKeyCase('a newer key in its place', bobSecondSealKey, AT + 86_400_000),
    ],
  };
}

/** A list of `host`, signed, with the body that publishes it. `others` are members that only the signature knows. */
export function senderListParts(host: Party, senders: readonly Party[], iat: number, others: object = {}) {
  const keys = senders.map(({ signer }): PublicKey => signer.publicKey);
  const document = { ...senderList({ host_pubkey: host.signer.publicKey, senders: keys, iat }), ...others };
  const parts = signed(document, host.signer);
  return { ...parts, request: { list: parts.document, sig: parts.signature } };
}

export function senderListVectors() {
  return {
    description: [
      'Sender lists: whose mail a target takes. The target signs "document" and posts "request" to /v2/relay/senders.',
      'A newer iat replaces an older list. The empty list refuses every sender, which is not the same as no list at',
      'all.',
    ],
    host: hostOf(bob),
    cases: [
      { name: 'one sender', ...senderListParts(bob, [alice], AT) },
      { name: 'two senders, in the order they are written in', ...senderListParts(bob, [carol, alice], AT + 1) },
      { name: 'nobody', ...senderListParts(bob, [], AT + 2) },
      {
        name: 'a member that the protocol does not know is kept and signed',
        ...senderListParts(bob, [alice], AT + 3, { note: 'gr\u00fc\u00dfe' }),
      },
    ],
  };
}

/** Delivery receipts: what the recipient host signs, and the item by which its relay carries it. */
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
  /** The hash of the envelope that is receipted. */
  envelopeHash: Sha256Hex;
  /** What it says besides. */
  shown?: { seen: object } | { home: object } | { heard: string[] };
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
  const { msg, from, recipient, to, seq, state, at, envelopeHash, shown } = story;
  const keys = { host_pubkey: from.signer.publicKey, sender_host_pubkey: to.signer.publicKey };
  const document = deliveryReceipt({
    msg,
    recipient,
    seq,
    state,
    at,
    ...keys,
    wire_hash: envelopeHash,
    ...shown,
  });
  const parts = signed(document, from.signer);
  const wire = canonicalBytes({ rec: document, sig: parts.signature });
  return { ...parts, itemId: `receipt:${msg}:${recipient}:${seq}`, wire };
}

export function receiptCase(name: string, story: ReceiptStory): object {
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

/** Bob's host tells Alice's that the message is in its mailbox. */
export const DELIVERED: ReceiptStory = {
  msg: 'm1',
  from: bob,
  recipient: `reviewer@${bob.host}`,
  to: alice,
  seq: AT,
  state: 'delivered',
  at: AT,
  envelopeHash: sha256Hex('the wire bytes of m1'),
};

export function deliveryReceiptVectors() {
  return {
    description: [
      'Delivery receipts. "document" is the record that the recipient host ("host") signs; the wire bytes are the RFC',
      '8785 form of {rec, sig}, with the document as "rec", byte for byte: the relay refuses any other spelling.',
      '"push_item" is the element of "items" in POST /v2/relay/items; its item_id is receipt:<msg>:<recipient>:<seq>.',
      'wire_hash inside the document is that of the envelope which is receipted; "wire_hash" beside it is that of the',
      'receipt itself.',
    ],
    cases: [
      receiptCase('delivered', DELIVERED),
      receiptCase('read a minute later, with the next seq', {
        ...DELIVERED,
        seq: AT + 1,
        state: 'read',
        at: AT + 60_000,
      }),
      receiptCase('acked by a recipient with a long id', {
        ...DELIVERED,
        msg: 'A.b_c-'.repeat(20),
        from: carol,
        recipient: `build.bot_2@${carol.host}`,
        state: 'acked',
      }),
    ],
  };
}

/** What the relay signs: accept receipts and expiry notices. */
/** The accept receipt of an item of `sender`, signed by the relay. */
export function acceptOf(
  { signer: { publicKey: sender_pubkey } }: Party,
  item_id: string,
  targets: readonly { host: Party; seq: number; wire: Uint8Array }[],
  at: number,
) {
  const document = acceptReceipt({
    relay_pubkey: relay.signer.publicKey,
    epoch: EPOCH,
    sender_pubkey,
    item_id: item_id as ItemId,
    targets: targets.map(({ host, seq, wire }) => {
      return { host_pubkey: host.signer.publicKey, seq, wire_hash: sha256Hex(wire) };
    }),
    at,
  });
  return signed(document, relay.signer);
}

function acceptCase(name: string, itemId: string, targets: { host: Party; seq: number; wire: Buffer }[]): object {
  return { name, wires_b64: targets.map(({ wire }) => encodeBase64(wire)), ...acceptOf(alice, itemId, targets, AT) };
}

/** The bytes that go to one target: they name it, so they differ from those that go to another. */
function envelopeFor({ host }: Party): Buffer {
  return canonicalBytes({ id: 'm1', sealed: { alg: 'a', enc: 'e', ct: 'c' }, subject: 'caf\u00e9', to_host: host });
}

export function acceptVectors() {
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
      'A sender takes a row for relay-accepted only when the signature is that of the relay key it pinned, and',
      'item_id, host_pubkey and wire_hash match the row. wire_hash is the SHA-256, in lowercase hex, of the exact',
      'bytes that were pushed: the bytes that "wires_b64" decodes to, in the order of "targets".',
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

export function expiryVectors() {
  const retentionMs = 14 * 86_400_000;
  return {
    description: [
      'Expiry notices: what the relay signs when an envelope passes its retention without being acked, and the item of',
      'GET /v2/relay/items by which the sender learns it. The wire bytes are the RFC 8785 form of {rec, sig}, with the',
      'notice as "rec". "target_pubkey" is the key the sender pushed to, whatever was rotated since.',
    ],
    relay: keysOf(relay),
    cases: [
      expiryCase('after 14 days', 'm1', bob, AT, AT + retentionMs),
      expiryCase('swept a while later, with the longest id', 'm'.repeat(128), carol, AT, AT + retentionMs + 60_001),
    ],
  };
}

/** Returns how a host key is admitted. */
function enrolmentCase(name: string, host: Party, ownerFp: string, challengeByte: number): object {
  const document = enrolClaim({
    challenge: encodeBase64(Buffer.alloc(32, challengeByte)),
    relay_pubkey: relay.signer.publicKey,
    host: host.host,
    pubkey: host.signer.publicKey,
    owner_fp: ownerFp,
  });
  const parts = signed(document, host.signer);
  return {
    name,
    host: hostOf(host),
    challenge_request: { pubkey: host.signer.publicKey },
    ...parts,
    enrol_request: { host: document.host, pubkey: document.pubkey, owner_fp: document.owner_fp, sig: parts.signature },
  };
}

export function enrolmentVectors() {
  return {
    description: [
      'Enrolment. POST /v1/relay/challenge with "challenge_request" answers the challenge and the public key of the',
      'relay; the host signs "document", which binds both to its claims, and posts "enrol_request" to',
      '/v1/relay/enrol. The challenge itself is not sent back: the relay tries the ones it has open for that key.',
    ],
    relay: keysOf(relay),
    cases: [
      enrolmentCase('without an owner_fp', alice, '', 0x10),
      enrolmentCase('with an owner_fp', bob, 'SHA256:c2FtcGxl+/=', 0x20),
      enrolmentCase(
        'a host name in capitals, signed as it is written',
        { ...carol, host: 'CAROL_7' },
        'carol@example',
        0x30,
      ),
    ],
  };
}

/** Cloud-key certificates: a host key vouches for the key that an account token is bound to. */
/** The P-256 key whose private number is 32 times the byte 0x31. */
function ellipticKey(): JWK {
  const exchange = createECDH('prime256v1');
  exchange.setPrivateKey(Buffer.alloc(32, 0x31));
  const point = exchange.getPublicKey();
  const coordinate = (from: number): string => point.subarray(from, from + 32).toString('base64url');
  return { kty: 'EC', crv: 'P-256', x: coordinate(1), y: coordinate(33) };
}

/** The key of RFC 8037, appendix A, whose thumbprint stands there too. */
const EDWARDS_KEY: JWK = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' };

async function cloudKeyCase(name: string, cloudKey: JWK): Promise<object> {
  const jkt = await calculateJwkThumbprint(cloudKey, 'sha256');
  const parts = signed(cloudKeyCertificate({ host_pubkey: alice.signer.publicKey, jkt }), alice.signer);
  return { name, jkt, ...parts, proof_without_token: { cloud_key: cloudKey, cert: parts.signature } };
}

export async function cloudKeyVectors() {
  return {
    description: [
      'Cloud-key certificates, for enrolment at a hosted relay. "jkt" is the RFC 7638 SHA-256 thumbprint of the cloud',
      'key in base64url without padding, over its required members alone; the host signs "document". With the account',
      'token as "token" beside them, the members of "proof_without_token" are the "proof" of POST /v1/relay/enrol.',
    ],
    host: hostOf(alice),
    cases: [
      await cloudKeyCase('an ES256 key', ellipticKey()),
      await cloudKeyCase('an ES256 key with members that the thumbprint leaves out', {
        ...ellipticKey(),
        alg: 'ES256',
        kid: 'cloud-1',
        use: 'sig',
      }),
      await cloudKeyCase('an EdDSA key', EDWARDS_KEY),
    ],
  };
}

/** Host rotations: one host goes on under a new key, and both keys say so. */
function rotationCase(name: string, from: Party, to: Party, iat: number): object {
  const document = hostRotation({ old_pubkey: from.signer.publicKey, new_pubkey: to.signer.publicKey, iat });
  const { canonical, signature: old_sig } = signed(document, from.signer);
  const { signature: new_sig } = signed(document, to.signer);
  return {
    name,
    old_key: keysOf(from),
    new_key: keysOf(to),
    document,
    canonical,
    old_sig,
    new_sig,
    request: { rotation: { rec: document, old_sig, new_sig } },
    asked: `/v2/relay/rotation?key=${encodeURIComponent(from.signer.publicKey)}`,
  };
}

export function rotationVectors() {
  return {
    description: [
      'Rotations of a host key. The old and the new key sign the same bytes, the RFC 8785 form of "document";',
      '"request" is the body of POST /v2/relay/rotate, which needs no hop. Post a chain oldest first. "asked" is the',
      'request target of a signed GET by which other hosts read the record: the answer is the same JSON object as',
      '"request".',
    ],
    cases: [
      rotationCase('to a second key', alice, aliceSecond, AT),
      rotationCase('and on to a third', aliceSecond, aliceThird, AT + 86_400_000),
    ],
  };
}
