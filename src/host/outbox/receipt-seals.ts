/**
 * Seals for one host what a delivery receipt shows it besides: what this host has seen of a relay (`rec.seen`), and
 * which relays this host uses (`rec.home`). It is HPKE as for mail, under a text of its own, and always of the same few
 * sizes, as relays carry receipts. The associated data are the two hosts, so nobody can put it into a receipt between
 * others.
 *
 * It is sealed before the transactions in which receipts are made, as these do not wait for a seal; what receipts of
 * peers show is opened once for all that carry it. None of it is stored: after a start it is sealed once more.
 */
import { ENVELOPE_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { canonicalBytes, type ReceiptParties } from '../../protocol/documents.ts';
import { decodeBase64 } from '../../protocol/encodings.ts';
import type { SealKey, PeerId, PeerRow } from '../core/rows.ts';
import { NotOpened, openWith, type Sealed, sealKeyId, sealTo } from '../wire/sealing.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';

/** A member of a receipt that is sealed. */
export interface ReceiptSeal {
  info: Buffer;
  type: 'mail-seen' | 'mail-home';
  /** The bytes that a plaintext may have, the least first. */
  sizes: readonly number[];
}

/** One entry (protocol/seen.ts), or nothing, which looks the same: more than its note, key and `knew`. */
export const SEEN_SEAL: ReceiptSeal = { info: Buffer.from('mail-seen-v1', 'utf8'), type: 'mail-seen', sizes: [704] };
/** What a host says of relays (protocol/home-relays.ts): the seq that it knows, and its own document beside. */
export const HOME_SEAL: ReceiptSeal = {
  info: Buffer.from('mail-home-v1', 'utf8'),
  type: 'mail-home',
  sizes: [128, 2_176],
};
const TAG_BYTES = 16;

/** Resolves to what stands in a receipt. Without a value it says nothing and looks the same. */
export function sealInReceipt(
  form: ReceiptSeal,
  value: object | undefined,
  parties: ReceiptParties,
  encPub: string,
): Promise<Sealed> {
  return sealTo(encPub, form.info, sealedPlaintext(form, value), sealedAdditional(form, parties));
}

/** What is sealed: the canonical form of the value, or nothing, and spaces. */
export function sealedPlaintext({ sizes }: ReceiptSeal, value: object | undefined): Buffer {
  const text = value ? canonicalBytes(value) : Buffer.alloc(0);
  const size = sizes.find((bytes) => bytes >= text.length);
  if (size === undefined) throw new Error('invariant: what a receipt shows fits into it');
  return Buffer.concat([text, Buffer.alloc(size - text.length, ' ')]);
}

/** What the seal covers besides. */
export function sealedAdditional({ type }: ReceiptSeal, parties: ReceiptParties): Buffer {
  const { host_pubkey: from, sender_host_pubkey: to } = parties;
  return canonicalBytes({ v: 1, type, from, to });
}

/**
 * What a member of a receipt shows; `undefined` where it shows nothing that can be read. Never rejects: a receipt
 * counts whatever stands in there.
 */
export async function openInReceipt(
  form: ReceiptSeal,
  member: unknown,
  parties: ReceiptParties,
  keys: readonly SealKey[],
): Promise<unknown> {
  if (!isObject(member)) return undefined;
  const { key_id: keyId, enc, ct } = member;
  const key = keys.find(({ encPub }) => sealKeyId(encPub) === keyId);
  if (!key || typeof enc !== 'string' || typeof ct !== 'string') return undefined;
  const length = decodeBase64(ct)?.length;
  if (length === undefined || !form.sizes.includes(length - TAG_BYTES)) return undefined;
  try {
    const plaintext = await openWith(key, { enc, ct }, form.info, sealedAdditional(form, parties));
    return parseJsonBounded(plaintext, ENVELOPE_JSON_BOUNDS);
  } catch (error) {
    if (error instanceof NotOpened) return undefined;
    throw error;
  }
}

/** More than the present and former keys of all peers. */
const SEALED_MAX = 1_000;
/** What could not be sealed is tried again then. */
const SEALED_AGAIN_MS = 60_000;

interface Ahead {
  from: PublicKey;
  encPub: string;
  /** What it says, or says it of: another is sealed anew. */
  content: readonly unknown[];
  /** Counts what was sealed in this place. */
  turn: number;
  isSealed: Promise<void>;
  /** Absent until then, and where nothing can be sealed to the key. */
  sealed?: Sealed;
  /** When that failed, by the clock that never goes back. */
  failedAtMs?: number;
}

/** One seal for each peer, and key of it that receipts name. */
export class SealedAhead {
  readonly #places = new Map<string, Ahead>();

  /**
   * Seals content from this host's present key to the peer's encryption key; undefined where that is done. `seal` gets
   * the number of seals before it in this place. Never rejects.
   */
  prepare(
    context: HostContext,
    peer: PeerRow,
    to: PublicKey,
    content: readonly unknown[],
    seal: (turn: number) => Promise<Sealed>,
  ): Promise<void> | undefined {
    const { publicKey: from } = context.identity().signer;
    const { encPub } = peer.encKey;
    const place = `${peer.peerId} ${to}`;
    const known = this.#places.get(place);
    const isSame = known?.from === from && known.encPub === encPub && areSame(known.content, content);
    const isFailed = known?.failedAtMs !== undefined && context.monotonicMs() - known.failedAtMs >= SEALED_AGAIN_MS;
    if (known && isSame && !isFailed) return known.sealed ? undefined : known.isSealed;
    const turn = known ? known.turn + 1 : 0;
    const ahead: Ahead = { from, encPub, content, turn, isSealed: Promise.resolve() };
    if (this.#places.size >= SEALED_MAX) this.clear();
    this.#places.set(place, ahead);
    ahead.isSealed = this.#fill(context, peer, ahead, seal);
    return ahead.isSealed;
  }

  async #fill(
    context: HostContext,
    peer: PeerRow,
    ahead: Ahead,
    seal: (turn: number) => Promise<Sealed>,
  ): Promise<void> {
    try {
      ahead.sealed = await seal(ahead.turn);
    } catch (error) {
      // With a key that nothing can be sealed to a receipt still says what it is for.
      ahead.failedAtMs = context.monotonicMs();
      context.log('warn', 'nothing can be sealed for a paired host', { host: peer.hostName, err: error });
    }
  }

  /** What was sealed last between these keys; with `content`, only if it is that. */
  get(peer: PeerRow, from: PublicKey, to: PublicKey, content?: readonly unknown[]): Sealed | undefined {
    const known = this.#places.get(`${peer.peerId} ${to}`);
    const isBetween = known?.from === from && known.encPub === peer.encKey.encPub;
    return isBetween && (!content || areSame(known.content, content)) ? known.sealed : undefined;
  }

  clear(): void {
    this.#places.clear();
  }
}

function areSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/** What the last receipt of each peer showed in one member. */
export class OpenedLast<T> {
  readonly #last = new Map<PeerId, { ct: unknown; opened: Promise<T> }>();

  /** `open` is called where the last receipt had another ciphertext. */
  get(peerId: PeerId, member: unknown, open: () => Promise<T>): Promise<T> {
    const ct = isObject(member) ? member['ct'] : undefined;
    const known = this.#last.get(peerId);
    if (known && known.ct === ct) return known.opened;
    const opened = open();
    this.#last.set(peerId, { ct, opened });
    return opened;
  }
}
