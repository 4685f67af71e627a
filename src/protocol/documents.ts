/**
 * The documents that hosts and relays sign: each builder returns the exact value whose RFC 8785 bytes are signed.
 *
 * Every document has `v` and `type`, so that a signature for one kind never fits another. "Signed" means Ed25519 over
 * `canonicalBytes(document)`; the signature travels beside the document, never in it. Only `LanPair` carries a MAC
 * instead of a signature.
 *
 * The canonical form is that of RFC 8785 (JCS), in UTF-8. The library `canonicalize` serialises what `JSON.stringify`
 * does not write in order. Before that, this file refuses the values that JCS cannot represent and that both let
 * through: lone surrogates (UTF-8 would silently replace them), `undefined` (the library drops it), and anything that
 * is not a plain JSON value. The library json-canonicalize (3.0.1) does not sort an object that has a member `toJSON`,
 * and reports a cycle when one value has the names `a` and `ab`.
 */
import canonicalize from 'canonicalize';
import type { Sha256Hex } from './encodings.ts';
import { type Signer, verifySignature } from './ed25519.ts';
import type { Epoch, ItemId } from './names.ts';
import { leafHash, pathIn, treeLevels } from './merkle.ts';
import type { PublicKey } from './public-key.ts';

/** The signature of a document, in base64. Throws `NotCanonicalisable`. */
export function signDocument(signer: Signer, document: object): string {
  return signer.sign(canonicalBytes(document));
}

/** The canonical text of `{rec, sig}`. Throws `NotCanonicalisable`. */
export function signedRecordJson(signer: Signer, rec: object): string {
  const text = canonicalJson(rec);
  return `{"rec":${text},"sig":"${signer.sign(Buffer.from(text, 'utf8'))}"}`;
}

/** The signed bytes in the canonical bytes of `{rec, sig}`: the canonical form of `rec`. */
export function signedBytesIn(wire: Buffer, sig: string): Buffer {
  const after = Buffer.byteLength(`,"sig":${JSON.stringify(sig)}}`);
  return wire.subarray('{"rec":'.length, wire.length - after);
}

/**
 * Says whether `key` signed a document that came in a body. The signature covers members that we do not know, too.
 * False for a document that has no canonical form.
 */
export function isDocumentSigned(key: PublicKey, document: unknown, sig: unknown): boolean {
  const bytes = canonicalBytesIfAny(document);
  return bytes !== undefined && verifySignature(key, bytes, sig);
}

/** Returns the builder of a kind of documents, which adds `v` and `type`. */
function builderOf<D extends { v: 1; type: string }>(type: D['type']): (fields: Omit<D, 'v' | 'type'>) => D {
  return (fields) => ({ v: 1, type, ...fields }) as unknown as D;
}

/** The host key signs this to enrol: the challenge, bound to one relay and to the claims. */
export interface EnrolClaim {
  v: 1;
  type: 'relay-enrol';
  /** Base64 of the 32 challenge bytes. */
  challenge: string;
  relay_pubkey: PublicKey;
  host: string;
  pubkey: PublicKey;
  owner_fp: string;
}

export const enrolClaim = builderOf<EnrolClaim>('relay-enrol');

/** The sender keys that a target accepts, signed by the target's host key. */
export interface SenderList {
  v: 1;
  type: 'relay-senders';
  host_pubkey: PublicKey;
  senders: PublicKey[];
  /** Milliseconds since the Unix epoch. */
  iat: number;
}

export const senderList = builderOf<SenderList>('relay-senders');

/** The X25519 key that mail for a host is sealed to, signed by the host key. */
export interface EncKeyAdvertisement {
  v: 1;
  type: 'relay-enc-key';
  host_pubkey: PublicKey;
  /** Base64 of 32 bytes. */
  enc_pub: string;
  /** Milliseconds since the Unix epoch. */
  at: number;
}

export const encKeyAdvertisement = builderOf<EncKeyAdvertisement>('relay-enc-key');

/** The relay's statement that it committed an item durably. It says nothing of delivery or reading. */
export interface AcceptReceipt {
  v: 1;
  type: 'relay-accept';
  relay_pubkey: PublicKey;
  epoch: Epoch;
  sender_pubkey: PublicKey;
  item_id: ItemId;
  targets: { host_pubkey: PublicKey; seq: number; wire_hash: Sha256Hex }[];
  /** Milliseconds since the Unix epoch. */
  at: number;
}

export const acceptReceipt = builderOf<AcceptReceipt>('relay-accept');

/** The canonical text of the receipt: as `canonicalJson(acceptReceipt(fields))`, and several times as fast. */
export function acceptReceiptText(fields: Omit<AcceptReceipt, 'v' | 'type'>): string {
  const { relay_pubkey: relay, epoch, sender_pubkey: sender, item_id: itemId, targets, at } = fields;
  let listed = '';
  // Keys, hashes and item ids are of characters that JSON writes as they are.
  for (const { host_pubkey: host, seq, wire_hash: wireHash } of targets)
    listed += `${listed && ','}{"host_pubkey":"${host}","seq":${seq},"wire_hash":"${wireHash}"}`;
  return (
    `{"at":${at},"epoch":${JSON.stringify(epoch)},"item_id":"${itemId}","relay_pubkey":"${relay}",` +
    `"sender_pubkey":"${sender}","targets":[${listed}],"type":"relay-accept","v":1}`
  );
}

/**
 * The relay's signature of all accept receipts of one answer at once: each is a leaf of the tree of this root, in its
 * canonical form (receipt-tree.ts). It states nothing else.
 */
export interface AcceptTree {
  v: 1;
  type: 'relay-accept-tree';
  relay_pubkey: PublicKey;
  /** The number of receipts. */
  size: number;
  root_hash: Sha256Hex;
}

export const acceptTree = builderOf<AcceptTree>('relay-accept-tree');

/** The statement over receipts with these leaf hashes, and the path of each. */
export function receiptTree(
  relayPubkey: PublicKey,
  leafHashes: readonly Buffer[],
): { tree: AcceptTree; pathOf: (index: number) => Buffer } {
  const levels = treeLevels(leafHashes);
  const root = levels.at(-1)?.[0]?.toString('hex') as Sha256Hex;
  const tree = acceptTree({ relay_pubkey: relayPubkey, size: leafHashes.length, root_hash: root });
  return { tree, pathOf: (index) => pathIn(levels, index) };
}

/** The same of receipts in their canonical form: a canonical text, and all paths one behind another. */
export function receiptStatement(relayPubkey: PublicKey, receipts: readonly string[]): { text: string; paths: Buffer } {
  const { tree, pathOf } = receiptTree(
    relayPubkey,
    receipts.map((receipt) => leafHash(Buffer.from(receipt))),
  );
  return { text: canonicalJson(tree), paths: Buffer.concat(receipts.map((_receipt, index) => pathOf(index))) };
}

/** The relay tells the sender that an envelope expired before its target acked it. */
export interface ExpiryNotice {
  v: 1;
  type: 'relay-expired';
  item_id: ItemId;
  target_pubkey: PublicKey;
  accepted_at: number;
  expired_at: number;
}

export const expiryNotice = builderOf<ExpiryNotice>('relay-expired');

/** One host replaces its key. Both keys sign it, so the relay need not know who posts it. */
export interface HostRotation {
  v: 1;
  type: 'host-rotation';
  old_pubkey: PublicKey;
  new_pubkey: PublicKey;
  /** Milliseconds since the Unix epoch. */
  iat: number;
}

export const hostRotation = builderOf<HostRotation>('host-rotation');

/** A relay at which a host takes mail. */
export interface HomeRelay {
  relay_pubkey: PublicKey;
  /** People read it. It has no slash at its end. */
  url: string;
}

/** A host says at which relays it takes mail (home-relays.ts has the rules). */
export interface HomeRelays {
  v: 1;
  type: 'home-relays';
  host_pubkey: PublicKey;
  /** The larger one of two under one key holds. */
  seq: number;
  /** The host's order of preference. Empty: nothing but the LAN reaches it. */
  relays: HomeRelay[];
}

export const homeRelays = builderOf<HomeRelays>('home-relays');

/** A host key vouches for the cloud key to which its account token is bound. */
export interface CloudKeyCertificate {
  v: 1;
  type: 'relay-cloud-key';
  host_pubkey: PublicKey;
  /** RFC 7638 SHA-256 thumbprint of the cloud key, base64url. */
  jkt: string;
}

export const cloudKeyCertificate = builderOf<CloudKeyCertificate>('relay-cloud-key');

/** The states of a delivery receipt, in rank order. */
export const DELIVERY_STATES = ['delivered', 'notified', 'read', 'acked'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** The recipient's host reports the state of an envelope for one of its agents. */
export interface DeliveryReceipt {
  v: 1;
  type: 'receipt';
  /** The id of the envelope. */
  msg: string;
  /** `agent@host`. */
  recipient: string;
  /** Increases for each (msg, recipient); it starts with the time of the first receipt in milliseconds. */
  seq: number;
  state: DeliveryState;
  /** Milliseconds since the Unix epoch. */
  at: number;
  /** The host that received the envelope, and signs this. */
  host_pubkey: PublicKey;
  sender_host_pubkey: PublicKey;
  /** Hash of the envelope's bytes as this host received them. */
  wire_hash: Sha256Hex;
  /** This host's newest look at a relay, sealed to the other one. Whatever stands in it, the receipt counts. */
  seen?: unknown;
  /** Marks of what the other host has shown so, and this one has heard (seen.ts). */
  heard?: unknown;
  /** This host's statement about the relays at which both take mail (home-relays.ts), sealed to the other one too. */
  home?: unknown;
}

export const deliveryReceipt = builderOf<DeliveryReceipt>('receipt');

/** The two hosts of a receipt, by their keys. */
export type ReceiptParties = Pick<DeliveryReceipt, 'host_pubkey' | 'sender_host_pubkey'>;

/**
 * Proves on a LAN that both hosts know one pairing code, and that nobody altered their messages. The proof is a MAC
 * over this document under the secret of the code.
 */
export type LanPair = {
  v: 2;
  type: 'lan-pair';
  inviter_pubkey: PublicKey;
  acceptor_pubkey: PublicKey;
  /** The whole request or answer but its `mac`; unknown members are kept. */
  body: Readonly<Record<string, unknown>>;
} & LanPairRole;

/**
 * The side that makes the MAC. The inviter's MAC also covers the request it answers, through the MAC of that request.
 */
type LanPairRole = { role: 'acceptor' } | { role: 'inviter'; acceptor_mac: string };

export function lanPair(fields: Pick<LanPair, 'inviter_pubkey' | 'acceptor_pubkey' | 'body'> & LanPairRole): LanPair {
  return { v: 2, type: 'lan-pair', ...fields };
}

/** A host states to the host that chose the nonce that it listens at an address. */
interface LanHelloWord {
  v: 1;
  type: 'lan-hello';
  /** Base64url of 16 to 32 bytes, as in the request. */
  nonce: string;
  /** The key of the host that answers and signs. */
  pubkey: PublicKey;
  /** `host:port` as the caller dialled it, and as in the request. */
  address: string;
  /** Milliseconds since the Unix epoch, as in the answer. */
  now: number;
}

export const lanHelloWord = builderOf<LanHelloWord>('lan-hello');

/** JCS cannot represent the value. In a request such a value is `malformed`. */
export class NotCanonicalisable extends Error {}

/** Values that nest deeper are refused: no document of the protocol does, and the library recurses. */
const DEPTH_MAX = 64;

/**
 * The canonical text of `value`. Throws `NotCanonicalisable`.
 *
 * JCS writes numbers and texts as `JSON.stringify` does, so where the members of each object stand in order already, as
 * in what was parsed from canonical text, that writes all of it. The library sorts what is left.
 */
export function canonicalJson(value: unknown): string {
  return textOf(value, 0);
}

function textOf(value: unknown, depth: number): string {
  const text = isInOrder(value, depth) ? JSON.stringify(value) : canonicalize(value);
  if (text === undefined) throw new NotCanonicalisable('not a JSON value');
  return text;
}

/** The canonical UTF-8 bytes of `value`, which are signed and stored. Throws `NotCanonicalisable`. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** Does as `canonicalBytes`; `undefined` for a value that JCS cannot represent. */
export function canonicalBytesIfAny(value: unknown): Buffer | undefined {
  try {
    return canonicalBytes(value);
  } catch (error) {
    if (error instanceof NotCanonicalisable) return undefined;
    throw error;
  }
}

/**
 * The members of an object as canonical text, in order: of what is signed, sealed and sent with some of them left out,
 * each member is written once.
 */
export class CanonicalMembers {
  readonly #texts = new Map<string, string>();

  /** Throws `NotCanonicalisable`. */
  constructor(value: object) {
    assertPlain(value);
    for (const [name, member] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) this.set(name, member);
  }

  /** Changes a member; a new one would stand behind the others. */
  set(name: string, member: unknown): void {
    this.#texts.set(name, `${textOf(name, 1)}:${textOf(member, 1)}`);
  }

  /** The canonical bytes of the object without these members. */
  bytesWithout(...names: readonly string[]): Buffer {
    let text = '';
    for (const [name, member] of this.#texts) if (!names.includes(name)) text += text === '' ? member : `,${member}`;
    return Buffer.from(`{${text}}`, 'utf8');
  }
}

/**
 * Says whether all members stand in the order of their names. Throws `NotCanonicalisable` for what JCS cannot
 * represent.
 */
function isInOrder(value: unknown, depth: number): boolean {
  if (depth > DEPTH_MAX) throw new NotCanonicalisable('nested too deeply');
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
      return true;
    case 'number':
      if (!Number.isFinite(value)) throw new NotCanonicalisable('a number is not finite');
      return true;
    case 'boolean':
      return true;
    case 'object':
      if (value === null) return true;
      return Array.isArray(value) ? areInOrder(value as unknown[], depth) : hasMembersInOrder(value, depth);
    default:
      throw new NotCanonicalisable(`a ${typeof value} is not a JSON value`);
  }
}

function areInOrder(elements: readonly unknown[], depth: number): boolean {
  let isSorted = true;
  // A hole of a sparse array is `undefined`, which is refused.
  for (let at = 0; at < elements.length; at++) if (!isInOrder(elements[at], depth + 1)) isSorted = false;
  return isSorted;
}

function hasMembersInOrder(value: object, depth: number): boolean {
  assertPlain(value);
  let isSorted = true;
  let before: string | undefined;
  for (const [name, member] of Object.entries(value)) {
    if (!name.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
    if (before !== undefined && name < before) isSorted = false;
    before = name;
    if (!isInOrder(member, depth + 1)) isSorted = false;
  }
  return isSorted;
}

/** A date, a buffer or a map would lose its contents, or become something else. */
function assertPlain(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotCanonicalisable('not a plain object');
}
