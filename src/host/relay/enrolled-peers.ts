/**
 * Which paired hosts the relay can take mail for: those whose signed encryption key it shows (in v1 by the host's
 * name), under the host key that is pinned here. A newer encryption key or host key is learned on the way.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerRow } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import { afterPeerChange } from '../outbox/outbox.ts';
import { currentKey, learnEncKey } from '../peers/peers.ts';
import { RelayCallFailed } from './relay-request.ts';
import { isSignedEncKey } from './register-host.ts';
import type { PeerRotations } from './peer-rotations.ts';
import type { RelayLink } from './relay-link.ts';
import type { RelaySession } from './connect.ts';

/** How long an answer holds. About a host that is not enrolled the relay is asked more often. */
const ENROLLED_FRESH_MS = 600_000;
const ABSENT_FRESH_MS = 60_000;
const KNOWN_MAX = 4096;

interface Known {
  epoch: Epoch;
  isEnrolled: boolean;
  atMs: number;
}

export class EnrolledPeers {
  readonly #context: HostContext;
  readonly #link: RelayLink;
  readonly #rotations: PeerRotations;
  readonly #known = new Map<PublicKey, Known>();

  constructor(context: HostContext, link: RelayLink, rotations: PeerRotations) {
    this.#context = context;
    this.#link = link;
    this.#rotations = rotations;
  }

  /** Whether the relay knew the peer when it was last asked; undefined when it is to be asked (again). */
  isEnrolled({ scope }: RelaySession, peer: PeerRow): boolean | undefined {
    const known = this.#knownIn(scope.epoch, peer);
    const freshMs = known?.isEnrolled === true ? ENROLLED_FRESH_MS : ABSENT_FRESH_MS;
    if (known && this.#context.monotonicMs() - known.atMs < freshMs) return known.isEnrolled;
    // While the relay is not to be asked, what it said last holds.
    return this.#link.pauseMs > 0 ? known?.isEnrolled === true : undefined;
  }

  /** Asks the relay whether it knows the peer, by its present key or by one that follows. */
  async ask(session: RelaySession, peer: PeerRow): Promise<void> {
    const { publicKey } = currentKey(peer);
    const wasEnrolled = this.#knownIn(session.scope.epoch, peer)?.isEnrolled === true;
    try {
      let isEnrolled = await this.#askFor(session, peer, publicKey);
      this.#note(session, publicKey, isEnrolled);
      const newest = isEnrolled ? peer : await this.#rotations.newestOf(session, peer);
      const newestKey = currentKey(newest).publicKey;
      if (newestKey !== publicKey) {
        isEnrolled = await this.#askFor(session, newest, newestKey);
        this.#note(session, newestKey, isEnrolled);
      }
      this.#link.answered();
      if (isEnrolled && !wasEnrolled) await this.#noteReady(session, peer);
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      await this.#link.failed(session, error);
    }
  }

  /** The relay refused an item for this key: it was never there. */
  noteAbsent(session: RelaySession, key: PublicKey): void {
    this.#note(session, key, false);
  }

  /** The relay says that this key was revoked. The host may have another one by now, so the relay is asked next. */
  forget(key: PublicKey): void {
    this.#known.delete(key);
  }

  async #askFor(session: RelaySession, peer: PeerRow, publicKey: PublicKey): Promise<boolean> {
    const shown =
      session.protocol === 2 ? await session.client.encKeyOf(publicKey) : await session.client.encKeyOf(peer.hostName);
    if (!shown || !isSignedEncKey(shown, publicKey)) return false;
    const { encKey } = peer;
    if (encKey.hostPubkey !== publicKey || shown.at > encKey.at) {
      await this.#context.store.transact((tx) => void learnEncKey(tx, this.#context, peer.peerId, shown));
    }
    return true;
  }

  async #noteReady({ scope }: RelaySession, { peerId }: PeerRow): Promise<void> {
    const context = this.#context;
    const { relayPubkey, epoch } = scope;
    const event = { type: 'relay-ready', relayPubkey, epoch } as const;
    await context.store.transact((tx) => afterPeerChange(tx, context, peerId, event));
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
