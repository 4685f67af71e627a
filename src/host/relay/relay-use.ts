/**
 * One of this host's relays in use: its link, the pulls, the looks at its log and the carrier of the outbox. Nothing of
 * one waits for another (`relay-service.ts` has them all).
 *
 * A home is long-polled, or pulled now and then where others do that; a guest, over which only notices and receipts
 * come, is pulled as often as there is something that may bring one.
 */
import { isDeepStrictEqual } from 'node:util';
import { systemTimers } from '../../lib/clock.ts';
import { HOUR_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { copyAt } from '../core/outbox-row.ts';
import type { RelayRow } from '../core/relay-rows.ts';
import type { HostContext } from '../base/context.ts';
import { openRows } from '../outbox/outbox.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import type { OwnRelay } from '../outbox/homes.ts';
import { PeersAtRelay } from './peers-at-relay.ts';
import { PullLoop, type PullPace } from './pull-loop.ts';
import { RelayCarrier } from './push-batch.ts';
import { RelayLink } from './relay-link.ts';
import type { RelayTiming } from './relay-timing.ts';
import type { RelaySession } from './register-host.ts';
import { RelayLooks } from './relay-looks.ts';
import { RelayCallFailed } from './relay-request.ts';
import { cursorIn, positionIn } from './relay-rows.ts';

/** Homes that hold pulls back, while they can be used. */
const LONG_POLLED = 2;

/** All that this host uses, in the owner's order. */
export interface RelayUses {
  readonly uses: readonly RelayUse[];
}

interface RelayUseOptions {
  context: HostContext;
  timing: RelayTiming;
  relay: OwnRelay;
  /** This one, and those beside it. */
  relays: RelayUses;
  /** A key was learned that something in quarantine may wait for. */
  keyLearned: () => void;
  /** Called when the relay became well, down or unheard, or is so no more. */
  turned: () => void;
}

export class RelayUse {
  readonly link: RelayLink;
  readonly peers: PeersAtRelay;
  readonly looks: RelayLooks;
  readonly pull: PullLoop;
  /** Takes what the outbox has for the relay. */
  readonly carrier: RelayCarrier;
  readonly #options: RelayUseOptions;
  readonly #stopping = new AbortController();
  #relay: OwnRelay;
  #pace: PullPace | undefined;

  constructor(options: RelayUseOptions) {
    const { context, timing, relay, keyLearned, turned } = options;
    const { signal: stopping } = this.#stopping;
    this.#options = options;
    this.#relay = relay;
    const { pubkey: relayPubkey } = relay.row;
    const isOneOfMany = (): boolean => options.relays.uses.length > 1;
    const entered = (): void => this.#entered();
    const link = new RelayLink({ context, relayPubkey, timing, stopping, isOneOfMany, entered, turned });
    const peers = new PeersAtRelay({ context, link, keyLearned });
    this.link = link;
    this.peers = peers;
    this.looks = new RelayLooks({ context, link, peers, timing, stopping });
    this.carrier = new RelayCarrier({ context, link, peers, looks: { accepted: (rows) => this.#accepted(rows) } });
    this.carrier.role = relay.role;
    const pace = (): Promise<PullPace> => this.#paceNow();
    this.pull = new PullLoop({ context, link, timing, pace, peers, looks: this.looks, timers: systemTimers, stopping });
  }

  get relay(): OwnRelay {
    return this.#relay;
  }

  start(): void {
    this.link.refresh();
    this.pull.start();
  }

  /** Ends requests under way; what they would have done is done again. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.link.stop(), this.pull.stop(), this.looks.stop()]);
  }

  /** The owner changed what this host uses. Begins again where that concerns this relay, or where `isNamed`. */
  take(relay: OwnRelay, isNamed: boolean): void {
    const { row, role, rank } = this.#relay;
    this.#relay = relay;
    this.carrier.role = relay.role;
    const isConfirmed = this.link.state === 'key-changed' && relay.row.seenKey === null;
    if (isNamed || isConfirmed || !isDeepStrictEqual(settingsOf(row), settingsOf(relay.row))) {
      this.looks.begin();
      this.link.restart();
    } else if (role !== relay.role || rank !== relay.rank) this.pull.hurry();
  }

  /** Pulls now where it was pulled now and then, and is to be long-polled. */
  hurry(): void {
    if (this.#relay.role === 'home' && this.#pace?.waitSeconds === 0 && this.#isLongPolled) this.pull.hurry();
  }

  /**
   * Takes what waits at the relay, for so long at most. Answers how many items still do, those of one page at most;
   * null when the relay does not say so.
   */
  async lastPull(withinMs: number): Promise<number | null> {
    const { context } = this.#options;
    const late = AbortSignal.any([AbortSignal.timeout(withinMs), this.#stopping.signal]);
    const over = new Promise<null>((resolve) => late.addEventListener('abort', () => resolve(null), { once: true }));
    let waiting: number | null = null;
    try {
      for (;;) {
        const { session, pauseMs } = this.link;
        if (!session || pauseMs > 0) return waiting;
        const found = await Promise.race([waitingAt(session, context), over]);
        if (found === 0 || found === null) return found ?? waiting;
        waiting = found;
        this.pull.hurry();
        await Promise.race([this.pull.turned(), over]);
        if (late.aborted) return waiting;
      }
    } catch (error) {
      if (error instanceof RelayCallFailed) return waiting;
      throw error;
    }
  }

  #entered(): void {
    this.looks.entered();
    if (this.#pace?.waitSeconds === 0) this.pull.hurry();
  }

  #accepted(rows: Parameters<RelayLooks['accepted']>[0]): void {
    this.looks.accepted(rows);
    const { guestSoonMs } = this.#options.timing;
    if (rows.length > 0 && this.#relay.role === 'guest' && (this.#pace?.restMs ?? 0) > guestSoonMs) this.pull.hurry();
  }

  /** The first two homes are, and each other one while one of these cannot be used. */
  get #isLongPolled(): boolean {
    const homes = this.#options.relays.uses.filter(({ relay }) => relay.role === 'home');
    const first = homes.slice(0, LONG_POLLED);
    return first.includes(this) || !first.every(({ link }) => link.health.isWell);
  }

  async #paceNow(): Promise<PullPace> {
    const { context, timing, relays } = this.#options;
    const { isFailing, isDown } = this.link.health;
    // Of several one that was away is to be known to be back as soon as it is.
    if (relays.uses.length > 1 && (isFailing || isDown)) this.#pace = { waitSeconds: 0, restMs: timing.pauseFirstMs };
    else if (this.#relay.role === 'guest') {
      const restMs = await context.store.read((reader) => guestRestMs(reader, context, this.#relay.row.pubkey, timing));
      this.#pace = { waitSeconds: 0, restMs };
    } else if (this.#isLongPolled) this.#pace = { waitSeconds: timing.waitSeconds, restMs: timing.pollMs };
    else this.#pace = { waitSeconds: 0, restMs: timing.homeMs };
    return this.#pace;
  }
}

/** Counts the items of the next page, and takes none. Throws `RelayCallFailed`. */
async function waitingAt({ scope, ...session }: RelaySession, { store }: HostContext): Promise<number> {
  if (session.protocol === 1) {
    const after = await store.read((reader) => cursorIn(reader, scope));
    return (await session.client.pull(after)).envelopes.length;
  }
  const after = await store.read((reader) => positionIn(reader, scope));
  const page = await session.client.pull({ after, limit: session.limits.max_pull, epoch: scope.epoch, wait: 0 });
  return page.items.length + page.unreadable.length;
}

/** What the owner sets; the rest of the row is written as it is learned. */
function settingsOf({ url, proof, ca }: RelayRow) {
  return { url, proof, ca };
}

/** The time between two pulls from a guest, by the messages of this host that wait there. */
async function guestRestMs(
  reader: Reader,
  context: HostContext,
  relayPubkey: PublicKey,
  { guestSoonMs, guestMs, guestIdleMs }: RelayTiming,
): Promise<number> {
  let restMs = guestIdleMs;
  for (const { peerId } of await livePeers(reader)) {
    for await (const row of openRows(reader, peerId)) {
      const copy = row.kind === 'envelope' ? copyAt(row, relayPubkey) : undefined;
      if (copy?.state !== 'live') continue;
      if (context.nowMs() - context.momentMs(copy.atMs) < HOUR_MS) return guestSoonMs;
      restMs = guestMs;
    }
  }
  return restMs;
}
