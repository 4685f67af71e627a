/** Judging an inbound item rests on this: the item, its expensive checks, who signed it, and the judgement. */
import { peerOfKey } from '../peers/peers.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/encodings.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { SeenEntry } from '../../protocol/seen.ts';
import type { HostContext } from '../base/context.ts';
import { clockNow } from '../core/outbox-row.ts';
import type { ShownHome } from '../core/home-documents.ts';
import { doubtOfSignature, retiredAt } from '../core/peer-keys.ts';
import type { QuarantineReason } from '../core/quarantine.ts';
import type { RelayedCopy } from '../core/receipts.ts';
import type { Address, ItemAtRelay, PeerId, PeerRow, SealKey } from '../core/rows.ts';
import { NotOpened, openSeal, type SealedContent, signedBytesOf } from '../wire/sealing.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import {
  Malformed,
  type ParsedEnvelope,
  parseContent,
  parseEnvelope,
  parseNotice,
  parseReceipt,
  type SignedRecord,
} from '../wire/parse.ts';
import type { DeliveryReceipt, ExpiryNotice } from '../../protocol/documents.ts';

interface NotReadable {
  reason: 'not-opened' | 'bad-content';
  detail: string;
}

/** The way to read an item of one kind, and to find in it who signed it. */
interface Form<Rec> {
  parse: (wire: Buffer) => SignedRecord<Rec>;
  /** The id that the item has to have. */
  itemIdOf: (rec: Rec) => string;
  /** Says why an item of another id is kept. */
  otherId: string;
  signingOf: (rec: Rec) => Signing;
}

/** An item's own claim of its origin, before its signature is verified. */
interface Signing {
  key: PublicKey;
  /** When it was written, by its own claim. */
  writtenAtMs: number;
}

interface ReadEnvelope extends ParsedEnvelope {
  /** SHA-256 of the bytes that were signed. */
  contentHash: Sha256Hex;
}

export const ENVELOPE: Form<ReadEnvelope> = {
  parse: (wire) => {
    const parsed = parseEnvelope(wire);
    const signedBytes = signedBytesOf(parsed.members);
    return { rec: { ...parsed, contentHash: sha256Hex(signedBytes) }, signedBytes, sig: parsed.envelope.sig };
  },
  itemIdOf: ({ envelope }) => envelope.id,
  otherId: 'the envelope has another id than the item',
  signingOf: ({ envelope }) => ({ key: envelope.from_host_pubkey, writtenAtMs: envelope.created_at }),
};

export const RECEIPT: Form<DeliveryReceipt> = {
  parse: parseReceipt,
  itemIdOf: ({ msg, recipient, seq }) => `receipt:${msg}:${recipient}:${seq}`,
  otherId: 'the receipt is not the one that the item names',
  signingOf: ({ host_pubkey: key, at: writtenAtMs }) => ({ key, writtenAtMs }),
};

const NOTICE: Omit<Form<ExpiryNotice>, 'signingOf'> = {
  parse: parseNotice,
  itemIdOf: ({ item_id: id, target_pubkey: target }) => `expired:${id}:${target}`,
  otherId: 'the notice is not the one that the item names',
};

/**
 * Caches the expensive checks of one inbound item: parse, hashes, signature, HPKE open. They depend only on bytes and
 * keys, so they run before the transaction.
 */
export class Inspection {
  readonly item: IncomingItem;
  readonly wireHash: Sha256Hex;
  /** Null when it came over the LAN, or over the only relay. */
  copy: RelayedCopy | null = null;
  /** What the receipt shows of a relay, if it was opened. */
  seen: readonly SeenEntry[] = [];
  /** What the receipt says of relays, if it was opened: anything. */
  home: unknown;
  #record: SignedRecord<unknown> | Judgement | undefined;
  #signed: { by: string; isSigned: boolean } | undefined;
  #content: { encPub: string; content: Promise<SealedContent | NotReadable> } | undefined;

  constructor(item: IncomingItem) {
    this.item = item;
    this.wireHash = sha256Hex(item.wire);
  }

  /** The record in the item, read by `form`, always the same for an item; else the judgement that keeps it. */
  record<Rec>(form: Omit<Form<Rec>, 'signingOf'>): SignedRecord<Rec> | Judgement {
    return (this.#record ??= recordIn(this.item, form)) as SignedRecord<Rec> | Judgement;
  }

  /** Tells whether `key` signed the item: an item has one signature. */
  isSigned(key: PublicKey, { signedBytes, sig }: SignedRecord<unknown>): boolean {
    if (this.#signed?.by !== key) this.#signed = { by: key, isSigned: verifySignature(key, signedBytes, sig) };
    return this.#signed.isSigned;
  }

  /** The sealed content, opened with this key of the host. */
  content(parsed: ParsedEnvelope, key: SealKey): Promise<SealedContent | NotReadable> {
    const { encPub } = key;
    if (this.#content?.encPub !== encPub) this.#content = { encPub, content: contentOf(parsed, key) };
    return this.#content.content;
  }
}

function recordIn<Rec>(
  { wire, itemId }: IncomingItem,
  { parse, itemIdOf, otherId }: Omit<Form<Rec>, 'signingOf'>,
): SignedRecord<Rec> | Judgement {
  try {
    const record = parse(wire);
    return itemIdOf(record.rec) === itemId ? record : keep('id-mismatch', otherId);
  } catch (error) {
    if (error instanceof Malformed) return keep('malformed', error.message);
    throw error;
  }
}

async function contentOf({ envelope, members }: ParsedEnvelope, key: SealKey): Promise<SealedContent | NotReadable> {
  try {
    return parseContent(await openSeal(envelope, key, members));
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
  relay: ItemAtRelay | null;
  /** By so much this host's clock is ahead of that relay's, if it was measured. */
  skewMs?: number | null;
  /** An `ItemKind`, or the text that a relay gave instead. */
  kind: string;
  itemId: string;
  wire: Buffer;
  /** The key that brought it: verified by its hop over the LAN, else by the relay's claim. */
  senderPubkey: PublicKey;
}

/** The record of an item, and the paired host whose signature counts for it; else the judgement that keeps the item. */
export function signedByHost<Rec>(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
  form: Form<Rec>,
): { rec: Rec; peer: PeerRow } | Judgement {
  const record = inspection.record(form);
  if ('status' in record) return record;
  const { key, writtenAtMs } = form.signingOf(record.rec);
  const peer = peerOfKey(reader, key);
  if (!peer) return keep('unknown-sender', 'it is signed by a key of no paired host');
  if (peer.unpairedAtMs !== null) return keep('unpaired', `${peer.hostName} is not paired with this host any more`);
  const { via, senderPubkey: bringingKey } = inspection.item;
  const doubt = doubtOfSignature(peer, {
    via,
    signingKey: key,
    bringingKey,
    bringer: bringingKey === key ? peer : peerOfKey(reader, bringingKey),
    writtenAtMs,
    ...clockNow(context),
  });
  if (doubt) return keep(doubt.reason, doubt.detail);
  if (inspection.isSigned(key, record)) return { rec: record.rec, peer };
  return keep('bad-signature', `the signature is not that of ${peer.hostName}`);
}

/** The notice and the relay that brought and signed it; else the judgement that keeps it. */
export function signedByRelay(inspection: Inspection): { rec: ExpiryNotice; relayPubkey: PublicKey } | Judgement {
  const record = inspection.record(NOTICE);
  if ('status' in record) return record;
  const relayPubkey = inspection.item.relay?.pubkey;
  if (relayPubkey === undefined) return keep('unknown-sender', 'a notice comes from a relay');
  if (inspection.isSigned(relayPubkey, record)) return { rec: record.rec, relayPubkey };
  return keep('bad-signature', 'the signature is not that of the relay');
}

/** Tells whether a paired host gave up this key for another. */
export function isGivenUp(reader: Reader, key: PublicKey): boolean {
  const peer = peerOfKey(reader, key);
  return peer !== undefined && peer.unpairedAtMs === null && retiredAt(peer, key) !== null;
}

/** The reason for which an item, or a part of it, is kept in quarantine. */
export interface KeptReason {
  reason: QuarantineReason;
  /** One clause for people, without any text of the body. */
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
  /** What a host showed of relays with an item that counts. */
  shown?: { peerId: PeerId; entries: readonly SeenEntry[]; heard: readonly string[]; home: ShownHome };
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
