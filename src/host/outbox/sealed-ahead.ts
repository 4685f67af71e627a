/**
 * What receipts show, sealed before the transactions in which receipts are made, as these do not wait for a seal; and
 * what receipts of peers show, opened once for all that carry it. None of it is stored: after a start it is sealed once
 * more.
 */
import { isObject } from '../../protocol/json.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { Sealed } from '../wire/sealing.ts';

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
