/** What judging an inbound item rests on: the item, its expensive checks, the peer behind a key, and the judgement. */
import { peerOfKey } from '../peers/peers.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/digest.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import { doubtOfSignature, retiredAt } from '../core/peer-keys.ts';
import type { QuarantineReason } from '../core/quarantine.ts';
import type { Address, PeerRow, SealKey } from '../core/rows.ts';
import { type Envelope, NotOpened, openSeal, type SealedContent } from '../wire/sealing.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { Malformed, parseContent, parseEnvelope, type SignedRecord, signedBytesOf } from '../wire/parse.ts';

interface ParsedEnvelope {
  envelope: Envelope;
  signedBytes: Buffer;
  /** SHA-256 of the signed bytes. */
  contentHash: Sha256Hex;
}

interface NotWellFormed {
  malformed: string;
}

interface NotReadable {
  reason: 'not-opened' | 'bad-content';
  detail: string;
}

/**
 * Caches the expensive checks of one inbound item: parse, signature, HPKE open. They depend only on bytes and keys, so
 * they run before the transaction.
 */
export class Inspection {
  readonly item: IncomingItem;
  #wireHash: Sha256Hex | undefined;
  #envelope: ParsedEnvelope | NotWellFormed | undefined;
  #record: SignedRecord<unknown> | NotWellFormed | undefined;
  #signed: { by: string; isSigned: boolean } | undefined;
  #content: { encPub: string; content: Promise<SealedContent | NotReadable> } | undefined;

  constructor(item: IncomingItem) {
    this.item = item;
  }

  get wireHash(): Sha256Hex {
    return (this.#wireHash ??= sha256Hex(this.item.wire));
  }

  /** The parsed envelope, or what is wrong with it. */
  envelope(): ParsedEnvelope | NotWellFormed {
    return (this.#envelope ??= unlessMalformed(() => parsed(this.item.wire)));
  }

  /** The signed record that `parse` makes of the item, always the same function for an item; or its fault. */
  record<Rec>(parse: (wire: Buffer) => SignedRecord<Rec>): SignedRecord<Rec> | NotWellFormed {
    return (this.#record ??= unlessMalformed(() => parse(this.item.wire))) as SignedRecord<Rec> | NotWellFormed;
  }

  /** Whether `key` signed the item with `sig` over `signedBytes`: an item has one signature. */
  isSigned(key: PublicKey, signedBytes: Buffer, sig: string): boolean {
    if (this.#signed?.by !== key) this.#signed = { by: key, isSigned: verifySignature(key, signedBytes, sig) };
    return this.#signed.isSigned;
  }

  /** The sealed content, opened with this key of the host. */
  content(envelope: Envelope, key: SealKey): Promise<SealedContent | NotReadable> {
    const { encPub } = key;
    if (this.#content?.encPub !== encPub) this.#content = { encPub, content: opened(envelope, key) };
    return this.#content.content;
  }
}

function parsed(wire: Buffer): ParsedEnvelope {
  const envelope = parseEnvelope(wire);
  const signedBytes = signedBytesOf(envelope);
  return { envelope, signedBytes, contentHash: sha256Hex(signedBytes) };
}

function unlessMalformed<Parsed>(parse: () => Parsed): Parsed | NotWellFormed {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Malformed) return { malformed: error.message };
    throw error;
  }
}

async function opened(envelope: Envelope, key: SealKey): Promise<SealedContent | NotReadable> {
  try {
    return parseContent(await openSeal(envelope, key));
  } catch (error) {
    if (error instanceof NotOpened) return { reason: 'not-opened', detail: 'the seal does not open' };
    if (error instanceof Malformed) return { reason: 'bad-content', detail: error.message };
    throw error;
  }
}

/** The sender key of an item whose bringer is unknown. */
export const NOBODYS_KEY = '' as PublicKey;

export interface IncomingItem {
  via: 'lan' | 'relay';
  /** The relay that brought it, and its seq there (null in v1); null over the LAN. */
  relay: { pubkey: PublicKey; epoch: Epoch; seq: number | null } | null;
  /** An `ItemKind`, or the text that a relay gave instead. */
  kind: string;
  itemId: string;
  wire: Buffer;
  /** The key that brought it: verified by its hop over the LAN, else by the relay's claim. */
  senderPubkey: PublicKey;
}

/** An item's own claim of its origin, before its signature is verified. */
interface Signing {
  key: PublicKey;
  /** When it was written, by its own claim. */
  writtenAtMs: number;
}

/** The paired host that has or had `signing.key`, if its signature counts; else the judgement that keeps the item. */
export function signingPeer(
  reader: Reader,
  context: HostContext,
  item: IncomingItem,
  signing: Signing,
): PeerRow | Judgement {
  const peer = peerOfKey(reader, signing.key);
  if (!peer) return keep('unknown-sender', 'it is signed by a key of no paired host');
  if (peer.unpairedAtMs !== null) return keep('unpaired', `${peer.hostName} is not paired with this host any more`);
  const doubt = doubtOfSignature(peer, {
    via: item.via,
    signingKey: signing.key,
    bringingKey: item.senderPubkey,
    bringer: peerOfKey(reader, item.senderPubkey),
    writtenAtMs: signing.writtenAtMs,
    nowMs: context.nowMs(),
    momentMs: (datedMs) => context.momentMs(datedMs),
  });
  return doubt ? keep(doubt.reason, doubt.detail) : peer;
}

/** Whether a paired host gave up this key for another. */
export function isGivenUp(reader: Reader, key: PublicKey): boolean {
  const peer = peerOfKey(reader, key);
  return peer !== undefined && peer.unpairedAtMs === null && retiredAt(peer, key) !== null;
}

/** Why an item, or a part of it, is kept in quarantine. */
export interface KeptReason {
  reason: QuarantineReason;
  /** For people: one clause, without any text of the body. */
  detail: string;
  /** The recipients that did not get it, when others did. */
  recipients: Address[] | null;
}

type Apply = (tx: Transaction) => void;

/**
 * The judgement of an item, and the writes that carry it out, in the transaction in which it was judged. An item may be
 * delivered to some and kept for others.
 */
export interface Judgement {
  status: 'accepted' | 'duplicate' | 'quarantined';
  kept: KeptReason | null;
  apply: Apply;
}

const NOTHING: Apply = () => {};

export function accept(apply: Apply): Judgement {
  return { status: 'accepted', kept: null, apply };
}

export function duplicate(apply: Apply = NOTHING): Judgement {
  return { status: 'duplicate', kept: null, apply };
}

/** Keeps the whole item. */
export function keep(reason: QuarantineReason, detail: string): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients: null }, apply: NOTHING };
}

/** Delivers the item, and keeps it for `recipients`. */
export function keepFor(recipients: Address[], reason: QuarantineReason, detail: string, apply: Apply): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients }, apply };
}
