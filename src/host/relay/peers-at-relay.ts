/**
 * Tells which paired hosts the relay can take mail for: those whose signed encryption key it shows (in v1 by the host's
 * name), under the host key that is pinned here. A newer encryption key or host key is learned on the way: the relay
 * shows the rotations that hosts posted, and both keys signed each of them.
 *
 * Invariant: nothing rests on the relay's word. A rotation counts exactly as it would over the LAN: it begins at the
 * key that is pinned, and both signatures verify (`learnRotation`). A relay that shows none changes nothing.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { peerIsAt } from '../core/relay-rows.ts';
import type { PeerRow, PeerId } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import { afterPeerChange } from '../outbox/outbox.ts';
import {
  currentKey,
  encKeyOf,
  learnEncKey,
  notePeerAtRelay,
  peerOfKey,
  learnRotation,
  peerOfName,
} from '../peers/peers.ts';
import { RelayCallFailed, RelayProblem } from './relay-request.ts';
import type { RelaySession } from './register-host.ts';
import type { RelayLink } from './relay-link.ts';
import type { IncomingItem } from '../inbound/verify.ts';
import { claimedHost } from '../wire/parse.ts';

/** The time for which an answer holds. About a host that is not enrolled the relay is asked more often. */
const ENROLLED_FRESH_MS = 600_000;
const ABSENT_FRESH_MS = 60_000;
const KNOWN_MAX = 4096;
/** Rotations of one host that are followed at a time. */
const FOLLOWED_MAX = 64;

interface Known {
  epoch: Epoch;
  isEnrolled: boolean;
  atMs: number;
}

interface PeersAtRelayOptions {
  context: HostContext;
  link: RelayLink;
  /** A key was learned that something in quarantine may wait for. */
  keyLearned: () => void;
}

export class PeersAtRelay {
  readonly #options: PeersAtRelayOptions;
  readonly #context: HostContext;
  readonly #known = new Map<PublicKey, Known>();

  constructor(options: PeersAtRelayOptions) {
    this.#options = options;
    this.#context = options.context;
  }

  /** True when the relay knew the peer when it was last asked; undefined when it is to be asked (again). */
  isEnrolled({ scope }: RelaySession, peer: PeerRow): boolean | undefined {
    const known = this.#knownIn(scope.epoch, peer);
    const freshMs = known?.isEnrolled === true ? ENROLLED_FRESH_MS : ABSENT_FRESH_MS;
    if (known && this.#context.monotonicMs() - known.atMs < freshMs) return known.isEnrolled;
    // While the relay is not to be asked, what it said last holds.
    return this.#options.link.pauseMs > 0 ? known?.isEnrolled === true : undefined;
  }

  /** Asks the relay whether it knows the peer, by its present key or by one that follows. */
  async ask(session: RelaySession, peer: PeerRow): Promise<void> {
    const { publicKey } = currentKey(peer);
    const wasEnrolled = this.#knownIn(session.scope.epoch, peer)?.isEnrolled === true;
    try {
      let isEnrolled = await this.#askFor(session, peer, publicKey);
      this.#note(session, publicKey, isEnrolled);
      const newest = isEnrolled ? peer : await this.#newestOf(session, peer);
      const newestKey = currentKey(newest).publicKey;
      if (newestKey !== publicKey) {
        isEnrolled = await this.#askFor(session, newest, newestKey);
        this.#note(session, newestKey, isEnrolled);
      }
      this.#options.link.answered();
      await this.#noteStanding(session, peer, isEnrolled, isEnrolled && !wasEnrolled);
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      await this.#options.link.failed(session, error);
    }
  }

  /** The relay refused an item for this key: it was never there. */
  noteAbsent(session: RelaySession, key: PublicKey): void {
    this.#note(session, key, false);
  }

  /** The relay is asked of this key next: it says that it was revoked, or the host goes on under another one. */
  forget(key: PublicKey): void {
    this.#known.delete(key);
  }

  async #askFor(session: RelaySession, peer: PeerRow, publicKey: PublicKey): Promise<boolean> {
    const shown =
      session.protocol === 2 ? await session.client.encKeyOf(publicKey) : await session.client.encKeyOf(peer.hostName);
    if (!shown || !encKeyOf(shown, publicKey)) return false;
    const { encKey } = peer;
    if (encKey.hostPubkey !== publicKey || shown.at > encKey.at) {
      await this.#context.store.transact((tx) => void learnEncKey(tx, this.#context, peer.peerId, shown));
    }
    return true;
  }

  /** Notes in the peer's row whether the relay knows it. What waits for a peer that is new there goes out. */
  async #noteStanding({ scope, protocol }: RelaySession, { peerId }: PeerRow, isEnrolled: boolean, isNew: boolean) {
    const context = this.#context;
    const { relayPubkey, epoch } = scope;
    const isThere = isEnrolled && protocol === 2;
    const known = await context.store.read((reader) => reader.get('peer', peerId));
    if (!isNew && known && peerIsAt(known, relayPubkey) === isThere) return;
    await context.store.transact(async (tx) => {
      await notePeerAtRelay(tx, peerId, relayPubkey, isThere);
      if (isNew) await afterPeerChange(tx, context, peerId, { type: 'relay-ready', relayPubkey, epoch });
    });
  }

  /** The peer with its newest key that the relay can prove. Throws `RelayCallFailed`. */
  async #newestOf(session: RelaySession, peer: PeerRow): Promise<PeerRow> {
    const { context, keyLearned } = this.#options;
    let newest = peer;
    for (let followed = 0; followed < FOLLOWED_MAX; followed++) {
      const next = await this.#next(session, newest);
      if (!next) break;
      newest = next;
    }
    if (newest !== peer) {
      context.log('info', 'a paired host goes on under another key, as the relay proved', { host: peer.hostName });
      keyLearned();
    }
    return newest;
  }

  /**
   * Before items are taken: an item under an unknown key that claims to be from a paired host may be under that host's
   * new key. The relay is asked once for each such host. Throws `RelayCallFailed`.
   */
  async learnSenders(session: RelaySession, items: readonly IncomingItem[]): Promise<void> {
    if (session.protocol === 1) return;
    const peers = await this.#context.store.read((reader) => {
      const found = new Map<PeerId, PeerRow>();
      for (const item of items) {
        if (peerOfKey(reader, item.senderPubkey)) continue;
        const host = claimedHost(item);
        const peer = host && peerOfName(reader, host);
        if (peer) found.set(peer.peerId, peer);
      }
      return [...found.values()];
    });
    for (const peer of peers) await this.#newestOf(session, peer);
  }

  /** The peer under the key after the one that is pinned; `undefined` when none was proven. */
  async #next(session: RelaySession, peer: PeerRow): Promise<PeerRow | undefined> {
    const context = this.#context;
    const { publicKey } = currentKey(peer);
    const rotation = await rotationAt(session, publicKey);
    if (rotation?.rec.old_pubkey !== publicKey) return undefined;
    const learned = await context.store.transact((tx) => learnRotation(tx, context, rotation));
    if (learned === 'refused')
      context.log('warn', 'the relay shows a rotation that does not verify', { key: publicKey });
    const after = await context.store.read((reader) => reader.get('peer', peer.peerId));
    return after && after.unpairedAtMs === null && currentKey(after).publicKey !== publicKey ? after : undefined;
  }

  #knownIn(epoch: Epoch, peer: PeerRow): Known | undefined {
    const known = this.#known.get(currentKey(peer).publicKey);
    return known?.epoch === epoch ? known : undefined;
  }

  #note({ scope }: RelaySession, key: PublicKey, isEnrolled: boolean): void {
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(key, { epoch: scope.epoch, isEnrolled, atMs: this.#context.monotonicMs() });
  }
}

/** Problems of 4xx that pass, or that say something of the session and not of this request. */
const NOT_OF_THE_REQUEST: ReadonlySet<number> = new Set([401, 408, 409, 425, 429]);

/**
 * A relay that does not know the request, as those of before it and those of others, has nothing to show: mail that
 * waits behind an unknown key is not held up by it.
 */
async function rotationAt(
  session: RelaySession,
  key: PublicKey,
): ReturnType<Extract<RelaySession, { protocol: 2 }>['client']['rotationOf']> {
  if (session.protocol === 1) return null;
  try {
    return await session.client.rotationOf(key);
  } catch (error) {
    if (error instanceof RelayCallFailed && isNoAnswerToThis(error)) return null;
    throw error;
  }
}

/** Tells whether another try would end the same: the relay refuses the request as such, or answers something else. */
export function isNoAnswerToThis(error: RelayCallFailed): boolean {
  const { status } = error;
  if (!(error instanceof RelayProblem)) return status === 200;
  return status === 501 || (status >= 400 && status < 500 && !NOT_OF_THE_REQUEST.has(status));
}
