/**
 * Which paired hosts the relay can take mail for: those whose own word for their encryption key it shows (in v1 by the host's name), under the key
 * that is pinned here. A newer key to seal to is learned on the way.
 */
import type { Epoch } from '../../../protocol/epoch.ts';
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { PeerRow } from '../../core/rows.ts';
import type { Office } from '../../office/office.ts';
import { afterPeerChange } from '../../office/outbox.ts';
import { currentKey, learnEncKey } from '../../office/peers.ts';
import { RelayCallFailed } from '../relay-request.ts';
import { isSignedEncKey } from './make-known.ts';
import type { RelayLink } from './relay-link.ts';
import type { RelaySession } from './relay-session.ts';

/** How long an answer holds. Whoever is not there is asked for more often. */
const ENROLLED_FRESH_MS = 600_000;
const ABSENT_FRESH_MS = 60_000;
const KNOWN_MAX = 4096;

interface Known {
  epoch: Epoch;
  isEnrolled: boolean;
  atMs: number;
}

export class Targets {
  readonly #office: Office;
  readonly #link: RelayLink;
  readonly #known = new Map<PublicKey, Known>();

  constructor(office: Office, link: RelayLink) {
    this.#office = office;
    this.#link = link;
  }

  /** Asks the relay where nothing fresh is known; no answer means no. */
  async isEnrolled(session: RelaySession, peer: PeerRow): Promise<boolean> {
    const { publicKey } = currentKey(peer);
    const known = this.#known.get(publicKey);
    const nowMs = this.#office.monotonicMs();
    if (known?.epoch === session.scope.epoch) {
      if (nowMs - known.atMs < (known.isEnrolled ? ENROLLED_FRESH_MS : ABSENT_FRESH_MS)) return known.isEnrolled;
    }
    if (this.#link.pauseMs > 0) return known?.isEnrolled === true;
    try {
      const isEnrolled = await this.#ask(session, peer, publicKey);
      this.#note(session, publicKey, isEnrolled);
      if (isEnrolled && known?.isEnrolled !== true) await this.#sayReady(session, peer);
      return isEnrolled;
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      await this.#link.failed(session, error);
      return known?.isEnrolled === true;
    }
  }

  /** The relay refused an item for this key: it goes on under another, or was never there. */
  noteAbsent(session: RelaySession, key: PublicKey): void {
    this.#note(session, key, false);
  }

  async #ask(session: RelaySession, peer: PeerRow, publicKey: PublicKey): Promise<boolean> {
    const shown =
      session.protocol === 2 ? await session.client.encKeyOf(publicKey) : await session.client.encKeyOf(peer.hostName);
    if (!shown || !isSignedEncKey(shown, publicKey)) return false;
    const { encKey } = peer;
    if (encKey.hostPubkey !== publicKey || shown.at > encKey.at) {
      await this.#office.store.transact((tx) => void learnEncKey(tx, this.#office, peer.peerId, shown));
    }
    return true;
  }

  async #sayReady({ scope }: RelaySession, { peerId }: PeerRow): Promise<void> {
    const office = this.#office;
    const { relayPubkey, epoch } = scope;
    const happening = { type: 'relay-ready', relayPubkey, epoch } as const;
    await office.store.transact((tx) => afterPeerChange(tx, office, peerId, happening));
  }

  #note({ scope }: RelaySession, key: PublicKey, isEnrolled: boolean): void {
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(key, { epoch: scope.epoch, isEnrolled, atMs: this.#office.monotonicMs() });
  }
}
