/**
 * Tells paired hosts what they do not know of this one (a new key), and asks what is not known of them (the names of
 * their agents). For each peer one look at a time.
 *
 * A peer that was restored from before a rotation has forgotten what it was told. It takes this host for a stranger:
 * so whoever is in doubt asks for what only paired hosts get, and tells everything again when that is refused.
 */
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { currentKey, learnDirectory, livePeers, markReached } from '../office/peers.ts';
import { isStoreFailure } from '../office/store-failure.ts';
import { type CalledHost, type LanClient, LanCallFailed } from './lan-client.ts';
import { tellOwnKey } from './tell-own-key.ts';

/** How old the names of a peer's agents get before they are asked for again. */
const DIRECTORY_FRESH_MS = 300_000;

export interface PeerLookOptions {
  office: Office;
  client: LanClient;
  /** A peer knows this host's key now: what waited for that may go. */
  told: (peerId: PeerId) => void;
}

/** `needed`: what is not known, or too old. `doubt`: whether the peer knows this host is to be seen. */
export type LookReason = 'needed' | 'doubt';

export class PeerLook {
  readonly #options: PeerLookOptions;
  readonly #running = new Map<PeerId, Promise<void>>();
  readonly #again = new Map<PeerId, LookReason>();
  #isStopped = false;

  constructor(options: PeerLookOptions) {
    this.#options = options;
  }

  /** Looks at a peer now, or once more when that is under way. */
  begin(peerId: PeerId, reason: LookReason): void {
    if (this.#isStopped) return;
    if (this.#again.get(peerId) !== 'doubt') this.#again.set(peerId, reason);
    if (!this.#running.has(peerId)) this.#running.set(peerId, this.#run(peerId));
  }

  async beginAll(reason: LookReason): Promise<void> {
    const peers = await this.#options.office.store.read(livePeers);
    for (const { peerId } of peers) this.begin(peerId, reason);
  }

  /** Resolves when no look is under way. Requests are to be ended by whoever made the client. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running.values());
  }

  async #run(peerId: PeerId): Promise<void> {
    try {
      for (let reason = this.#next(peerId); reason; reason = this.#next(peerId)) await this.#look(peerId, reason);
    } catch (error) {
      // A store that failed ends the daemon.
      const { office } = this.#options;
      if (!isStoreFailure(error)) office.log('error', 'a paired host could not be looked at', { err: error });
    } finally {
      this.#running.delete(peerId);
    }
  }

  #next(peerId: PeerId): LookReason | undefined {
    const reason = this.#again.get(peerId);
    this.#again.delete(peerId);
    return this.#isStopped ? undefined : reason;
  }

  async #look(peerId: PeerId, reason: LookReason): Promise<void> {
    const { office, client, told } = this.#options;
    const peer = await office.store.read((reader) => reader.get('peer', peerId));
    if (!peer || peer.unpairedAtMs !== null || peer.address === null) return;
    const host = { address: peer.address, publicKey: currentKey(peer).publicKey };
    try {
      if (await tellOwnKey(office, client, { ...host, peer })) told(peerId);
      // While its mail goes over the relay, only this finds out that it is back.
      if (reason === 'needed' && peer.lanFailures === 0 && isFresh(peer, office.nowMs())) return;
      // Before the answer: what it says is as old as the question, and a look that follows is not held up by it.
      const fetchedAtMs = office.nowMs();
      const agents = await this.#agentsOf(host, peer);
      await office.store.transact(async (tx) => {
        learnDirectory(tx, peerId, { agents, fetchedAtMs });
        await markReached(tx, office, peerId);
      });
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
    }
  }

  async #agentsOf(host: CalledHost, peer: PeerRow): Promise<Awaited<ReturnType<LanClient['agents']>>> {
    const { office, client, told } = this.#options;
    try {
      return await client.agents(host);
    } catch (error) {
      if (!(error instanceof LanCallFailed) || error.code !== 'NOT_ENROLLED') throw error;
      await tellOwnKey(office, client, { ...host, peer }, true);
    }
    const agents = await client.agents(host);
    told(peer.peerId);
    return agents;
  }
}

function isFresh({ directory }: PeerRow, nowMs: number): boolean {
  if (!directory) return false;
  const ageMs = nowMs - directory.fetchedAtMs;
  // A clock that was set back makes nothing young.
  return ageMs >= 0 && ageMs < DIRECTORY_FRESH_MS;
}
