/**
 * Tells paired hosts what they do not know of this one (a new key, other agents or relays), and asks them for the names
 * of their agents. With each peer one exchange runs at a time.
 *
 * A peer that was restored from before a rotation has forgotten this host's new key, and takes this host for a
 * stranger. So in doubt this host asks for something that only paired hosts get, and tells everything again when that
 * is refused.
 */
import type { LanAgents } from '../../protocol/lan.ts';
import { parseSeen } from '../../protocol/seen.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { ownDirectory } from '../agents/agents.ts';
import { encKeyDocument, rotationsSince } from '../peers/identity.ts';
import { currentKey, learnDirectory, livePeers, markPinnedOurKey, noteAnswered } from '../peers/peers.ts';
import { markReached } from '../outbox/outbox.ts';
import { homeFor, takeHome } from '../outbox/homes.ts';
import { nextSeen, takeSeen } from '../outbox/seen.ts';
import { type CalledHost, type LanClient, LanCallFailed } from './lan-client.ts';

/** The age that the names of a peer's agents reach before they are asked for again. */
const DIRECTORY_FRESH_MS = 300_000;

interface PeerSyncOptions {
  context: HostContext;
  client: LanClient;
  look: LookAtRelay;
}

/** Looks at the log of the relay unless that was done lately. Resolves after `waitMs` in any case; never rejects. */
export type LookAtRelay = (waitMs: number) => Promise<void>;

/** A sender may wait for names that are asked for here, for 2 s at most. */
const LOOK_WAIT_MS = 1_000;

/**
 * `needed`: ask for what is not known, or too old. `doubt`: ask in any case, which shows whether the peer knows this
 * host. `agents-changed`: tell the peer which agents are here now. `home-changed`: tell it where this host takes mail
 * now, and ask, which shows whether it knows.
 */
export type SyncReason = 'needed' | 'doubt' | 'agents-changed' | 'home-changed';

/** The exchange with one peer. */
interface Exchange {
  task: SingleFlightTask;
  /** Says why the next one begins. */
  reasons: Set<SyncReason>;
}

export class PeerSync {
  readonly #options: PeerSyncOptions;
  readonly #exchanges = new Map<PeerId, Exchange>();
  /** Peers that did not answer when they were last asked. */
  readonly #unanswered = new Set<PeerId>();
  #isStopped = false;

  constructor(options: PeerSyncOptions) {
    this.#options = options;
  }

  /** True when the peer did not answer when it was last asked. The next round asks it again. */
  wasUnanswered(peerId: PeerId): boolean {
    return this.#unanswered.has(peerId);
  }

  /** Exchanges news with a peer now, or once more when that is under way; resolves when it has ended, well or not. */
  begin(peerId: PeerId, reason: SyncReason): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    const { task, reasons } = this.#exchanges.get(peerId) ?? this.#exchangeWith(peerId);
    reasons.add(reason);
    return task.rerun();
  }

  async beginAll(reason: SyncReason): Promise<void> {
    const peers = await this.#options.context.store.read(livePeers);
    for (const { peerId } of peers) void this.begin(peerId, reason);
  }

  /** Resolves when no exchange is under way. The maker of the client ends its requests. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#exchanges.values()].map(({ task }) => task.stop()));
  }

  #exchangeWith(peerId: PeerId): Exchange {
    const { context } = this.#options;
    const reasons = new Set<SyncReason>();
    const task = new SingleFlightTask({
      work: () => {
        const now = new Set(reasons);
        reasons.clear();
        return this.#syncOnce(peerId, now);
      },
      onError: (error) => {
        if (isStoreFailure(error)) return;
        context.log('error', 'news could not be exchanged with a paired host', { err: error });
      },
    });
    const exchange = { task, reasons };
    this.#exchanges.set(peerId, exchange);
    return exchange;
  }

  async #syncOnce(peerId: PeerId, reasons: ReadonlySet<SyncReason>): Promise<void> {
    const { context, client } = this.#options;
    const [peer, home] = await context.store.read(
      (reader) => [reader.get('peer', peerId), homeFor(reader, context, peerId)] as const,
    );
    if (!peer || peer.unpairedAtMs !== null || peer.address === null) {
      this.#unanswered.delete(peerId);
      return;
    }
    const host = { address: peer.address, publicKey: currentKey(peer).publicKey };
    try {
      const isNewKey = await sendOwnKey(context, client, { ...host, peer });
      if (isNewKey) this.#noteKnown(peerId);
      // Only behind its key does the document count that the key signed.
      const isNewHome = home?.doc !== undefined && (isNewKey || reasons.has('home-changed'));
      if (isNewHome || reasons.has('agents-changed')) await this.#tellAgents(host, peer);
      if (!isNewHome && !reasons.has('doubt')) {
        // While its mail goes over the relay, only this finds out that it is back.
        const isAway = peer.lanFailures > 0 || peer.mailFailed?.isAnswered === false;
        const isNeeded = this.wasUnanswered(peerId) || isAway || !isFresh(peer, context.nowMs());
        if (!reasons.has('needed') || !isNeeded) return;
      }
      // Noted before the answer comes: the answer is as old as the question.
      const fetchedAtMs = context.nowMs();
      const { agents, seen, home: shown } = await this.#agentsOf(host, peer);
      this.#unanswered.delete(peerId);
      await context.store.transact(async (tx) => {
        learnDirectory(tx, peerId, { agents, fetchedAtMs }, context.nowMs());
        await takeSeen(tx, context, peerId, { entries: parseSeen(seen), heard: [] });
        await takeHome(tx, context, peerId, { home: shown, via: 'lan', by: { type: 'answer' } });
        await markReached(tx, context, peerId);
        noteAnswered(tx, peerId);
      });
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
      if (error.isAnswered) this.#unanswered.delete(peerId);
      else this.#unanswered.add(peerId);
    }
  }

  /** A host that does not take it asks by itself within minutes. */
  async #tellAgents(host: CalledHost, peer: PeerRow): Promise<void> {
    const { context, client, look } = this.#options;
    try {
      await client.tellAgents(host, await agentsFor(context, peer, look));
    } catch (error) {
      if (!(error instanceof LanCallFailed) || !error.isAnswered) throw error;
    }
  }

  async #agentsOf(host: CalledHost, peer: PeerRow): Promise<LanAgents> {
    const { context, client } = this.#options;
    try {
      return await client.agents(host);
    } catch (error) {
      if (!(error instanceof LanCallFailed) || error.code !== 'NOT_ENROLLED') throw error;
      await sendOwnKey(context, client, { ...host, peer }, true);
    }
    const said = await client.agents(host);
    this.#noteKnown(peer.peerId);
    return said;
  }

  /** The peer knows this host's key now: rows that waited for that may go. */
  #noteKnown(peerId: PeerId): void {
    this.#options.context.emit({ type: 'outbox-changed', peerId });
  }
}

/**
 * What this host says of its agents to a peer, with what it says of relays, and what it has seen of the one that both
 * use: the newest, as where hosts meet without the relay it cannot choose what they compare.
 */
export async function agentsFor(context: HostContext, peer: PeerRow, look: LookAtRelay): Promise<LanAgents> {
  if (peer.atRelay !== undefined) await look(LOOK_WAIT_MS);
  const [seen, home] = await context.store.read(async (reader) => {
    const all = await nextSeen(reader, context, peer, { isUnheard: false });
    return [all, homeFor(reader, context, peer.peerId)] as const;
  });
  return { agents: await ownDirectory(context), ...(seen.length > 0 && { seen }), ...(home && { home }) };
}

function isFresh({ directory }: PeerRow, nowMs: number): boolean {
  if (!directory) return false;
  const ageMs = nowMs - directory.fetchedAtMs;
  // A clock that was set back makes nothing young.
  return ageMs >= 0 && ageMs < DIRECTORY_FRESH_MS;
}

/**
 * Sends this host's new key to a paired host: the rotations, oldest first, then the key to seal to. The peer's row says
 * which key it has pinned, so this host sends the new one until the peer has it, even across restarts.
 *
 * Returns whether there was anything to send. `anyway`: the peer does not know this host's key although it should, so
 * everything is sent. Throws `LanCallFailed`.
 */
export async function sendOwnKey(
  context: HostContext,
  client: LanClient,
  host: CalledHost & { peer: PeerRow },
  anyway = false,
): Promise<boolean> {
  const { publicKey } = context.identity().signer;
  if (host.peer.pinnedOurKey === publicKey && !anyway) return false;
  const identity = await context.store.read((reader) => reader.get('identity'));
  if (!identity) throw new Error('invariant: a store has an identity');
  const rotations = anyway ? identity.rotations : rotationsSince(identity, host.peer.pinnedOurKey);
  for (const rotation of rotations) {
    try {
      await client.rotate(host, rotation);
    } catch (error) {
      // It may have pinned this host under a later key.
      if (!anyway || !(error instanceof LanCallFailed) || !error.isAnswered) throw error;
    }
  }
  await client.encKey(host, encKeyDocument(context.identity()));
  await context.store.transact((tx) => markPinnedOurKey(tx, host.peer.peerId, publicKey));
  return true;
}
