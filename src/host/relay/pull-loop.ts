/**
 * Takes what waits for this host at the relay, in the order of its seqs.
 *
 *     page after received-through ─▶ chunks: items received and received-through, one transaction each ─▶ ack
 *
 * Specification, "Receiving host rules". Invariants:
 *   - received-through moves over items that are done, without a gap, in the transaction that makes the last of them
 *     so;
 *   - an ack is asked for only when that is durable, never beyond it, and its failure changes nothing;
 *   - what shows that the store went back in time begins the queue at 0 again;
 *   - nothing that the relay showed is trusted, and all of it can be kept: an item that cannot be read goes into
 *     quarantine as it came, and does not hold up those behind it.
 */
import type { Timers } from '../../lib/clock.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { cursorIn, positionIn, putCursor, putPosition, type RelayScope } from './relay-rows.ts';
import { RelayCallFailed } from './relay-request.ts';
import type { V1Page } from './relay-v1-client.ts';
import { type PulledItem, type PulledPage, membersOf } from './relay-forms.ts';
import type { PeersAtRelay } from './peers-at-relay.ts';
import { receiveItems } from '../inbound/receive.ts';
import type { Transaction } from '../store/host-store.ts';
import type { RelayLink } from './relay-link.ts';
import type { RelayTiming } from './relay-timing.ts';
import type { RelayLooks } from './relay-looks.ts';
import type { RelaySession, V1Session, V2Session } from './register-host.ts';
import { ENVELOPE_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { NotCanonicalisable, canonicalBytes } from '../../protocol/documents.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { type IncomingItem, NOBODYS_KEY } from '../inbound/verify.ts';

/** After something that is no fault of the relay's. */
const FAILED_PAUSE_MS = 60_000;
/** A relay that went back in time again so soon is given a rest: it may do so for ever. */
const REWIND_OFTEN_MS = 60_000;
/** An empty page that came sooner was not held back by the relay. */
const HELD_BACK_MS = 900;

/** Says how often the queue is read while nothing comes. */
export interface PullPace {
  /** The time that the relay is asked to hold an empty page back; 0 for not at all. */
  waitSeconds: number;
  /** Between two pulls where it does not hold one back. */
  restMs: number;
}

interface PullLoopOptions {
  context: HostContext;
  link: RelayLink;
  timing: Pick<RelayTiming, 'pollMs'>;
  pace: () => PullPace | Promise<PullPace>;
  peers: PeersAtRelay;
  looks: Pick<RelayLooks, 'owe'>;
  timers: Timers;
  stopping: AbortSignal;
}

export class PullLoop {
  readonly #options: PullLoopOptions;
  #running: Promise<void> = Promise.resolve();
  /** Up to where the relay has deleted, as far as is known of this session. */
  #acked: { session: RelaySession; through: unknown } | undefined;
  /** Items asked for at once: fewer after a page that did not come. */
  #limit = Number.POSITIVE_INFINITY;
  #rewoundAtMs = Number.NEGATIVE_INFINITY;
  /** The last pull, when it failed: `resumed` is aborted when another answer of the relay cuts its pause short. */
  #failed: { session: RelaySession; resumed: AbortSignal } | undefined;
  #isHeldBack: boolean | null = null;
  #headSeq: number | null = null;
  #drained: { scope: RelayScope; askedMs: number } | undefined;
  #hurried = new AbortController();
  #waiting: (() => void)[] = [];

  constructor(options: PullLoopOptions) {
    this.#options = options;
  }

  /** True when the relay holds an empty page back; null before one came. */
  get isHeldBack(): boolean | null {
    return this.#isHeldBack;
  }

  /** The last seq that the relay gave an item for this host. */
  get headSeq(): number | null {
    return this.#headSeq;
  }

  /** When the last pull was asked for that showed a queue without items, with all acked: by the monotonic clock. */
  get drained(): { scope: RelayScope; askedMs: number } | undefined {
    return this.#drained;
  }

  start(): void {
    this.#running = this.#run().finally(() => this.#tellTurned());
  }

  /** Ends the rest between two pulls. */
  hurry(): void {
    this.#hurried.abort();
    this.#hurried = new AbortController();
  }

  /** Resolves when a pull that is under way, or the next one, ended, or when there will be none. */
  turned(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Resolves when nothing is under way any more. */
  stop(): Promise<void> {
    return this.#running;
  }

  #tellTurned(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async #run(): Promise<void> {
    const { context, link, stopping } = this.#options;
    for (;;) {
      await this.#sleep(link.pauseMs, link.resumed);
      const session = await link.ready();
      if (!session || stopping.aborted) return;
      if (link.pauseMs > 0) continue;
      try {
        // The caller of `hurry` may know more than a turn that had begun: its call counts for the rest after it.
        const { signal } = this.#hurried;
        const restMs = await this.#turn(session);
        this.#tellTurned();
        await this.#sleep(restMs, signal);
      } catch (error) {
        if (stopping.aborted || isStoreFailure(error)) return;
        if (error instanceof RelayCallFailed) {
          this.#limit = Math.max(1, Math.floor(Math.min(this.#limit, session.limits.max_pull) / 2));
          await this.#pauseAfter(session, error);
        } else {
          context.log('error', 'what the relay holds could not be taken', { err: error });
          await this.#sleep(FAILED_PAUSE_MS);
        }
      }
    }
  }

  /**
   * The link makes the pause. A pull that failed again after another answer cut the pause short is followed by a rest
   * that no answer cuts: else a relay that takes each push and fails each pull would get one more pull for every push.
   */
  async #pauseAfter(session: RelaySession, error: RelayCallFailed): Promise<void> {
    const { link, timing } = this.#options;
    const { resumed } = link;
    const wasCut = this.#failed?.session === session && this.#failed.resumed.aborted;
    await link.failed(session, error);
    this.#failed = { session, resumed };
    if (wasCut) await this.#sleep(this.#jittered(timing.pollMs), session.ending.signal);
  }

  /** One page; answers how long to rest after it. Throws `RelayCallFailed`. */
  #turn(session: RelaySession): Promise<number> {
    return session.protocol === 2 ? this.#turnInV2(session) : this.#turnInV1(session);
  }

  async #turnInV2(session: V2Session): Promise<number> {
    const { context, link, timing, pace, stopping } = this.#options;
    const { client, scope, limits } = session;
    const after = await context.store.read((reader) => positionIn(reader, scope));
    const acked = await this.#ack(session, after, () => client.ack(scope.epoch, after));
    if (acked === 'rewind') return this.#rewind(session);
    if (link.session !== session) return 0;
    const limit = Math.max(1, Math.min(this.#limit, limits.max_pull));
    const { waitSeconds, restMs } = await pace();
    const startedMs = context.monotonicMs();
    // What could not be acked is acked soon, and not when something comes.
    const wait = acked === 'failed' ? 0 : waitSeconds;
    const page = await client.pull({ after, limit, epoch: scope.epoch, wait });
    if (page.epoch !== scope.epoch) {
      link.ended(session);
      return 0;
    }
    link.worked();
    this.#failed = undefined;
    this.#limit = limit * 2;
    this.#headSeq = page.head_seq;
    if (page.head_seq < after) return this.#rewind(session);
    const placed = placedItems(page, after, scope);
    if (placed.length === 0) {
      // Its last items may have expired there, so received-through need not be the head.
      if (acked === 'acked' && !page.more) this.#drained = { scope, askedMs: startedMs };
      const isHeldBack = waitSeconds > 0 && context.monotonicMs() - startedMs >= HELD_BACK_MS;
      if (wait > 0) this.#isHeldBack = isHeldBack;
      if (isHeldBack) return 0;
      return this.#jittered(acked === 'failed' ? Math.min(restMs, timing.pollMs) : restMs);
    }
    const { skewMs } = link;
    const items = placed.map(({ item }) => ({ ...item, skewMs }));
    this.#options.looks.owe();
    await this.#options.peers.learnSenders(session, items);
    const throughOf = (count: number): number => placed[count - 1]?.through ?? after;
    let before = after;
    const moveTo = (tx: Transaction, through: number): void => {
      // A look may have set the queue to its start meanwhile.
      if (positionIn(tx, scope) !== before) return;
      putPosition(tx, context, scope, through);
      before = through;
    };
    // Whatever becomes of an item, it is done: what cannot be let in is in quarantine, if need be without its bytes.
    const { length: done } = await receiveItems(context, items, {
      goesOn: () => !stopping.aborted,
      done: (tx, count) => moveTo(tx, throughOf(count)),
    });
    if (done < items.length) return 0;
    // All of it is in quarantine, and the same page would come again.
    if (throughOf(done) === after) throw new RelayCallFailed('the relay showed no item that has a place', 200);
    return 0;
  }

  /** A page of v1 has no seqs: only what stands behind all of it moves the cursor, and known items are duplicates. */
  async #turnInV1(session: V1Session): Promise<number> {
    const { context, link, timing, stopping } = this.#options;
    const { client, scope } = session;
    const after = await context.store.read((reader) => cursorIn(reader, scope));
    if (after !== null) {
      const acked = await this.#ack(session, after, () => client.ack(after));
      if (acked === 'rewind') return this.#rewind(session);
      if (link.session !== session) return 0;
    }
    let page: V1Page;
    try {
      page = await client.pull(after);
    } catch (error) {
      // A cursor that the relay does not know is one of another time.
      if (!(error instanceof RelayCallFailed) || error.status !== 400 || after === null) throw error;
      return this.#rewind(session);
    }
    link.worked();
    this.#failed = undefined;
    this.#isHeldBack = false;
    const { envelopes, cursor, more } = page;
    const items = envelopes.map((envelope) => itemOfV1(envelope, scope));
    const { length: done } = await receiveItems(context, items, {
      goesOn: () => !stopping.aborted,
      done: (tx, count) => {
        if (count === items.length) putCursor(tx, context, scope, cursor);
      },
    });
    if (done < items.length) return 0;
    // Receipts and notices were passed over; and a cursor is what a new epoch shows itself by.
    if (items.length === 0 && cursor !== after) {
      await context.store.transact((tx) => putCursor(tx, context, scope, cursor));
    }
    return more && cursor !== after ? 0 : this.#jittered(timing.pollMs);
  }

  /** Asks the relay to delete what is done. A failure changes nothing: the ack is repeated before the next page. */
  async #ack(
    session: RelaySession,
    through: number | string,
    ask: () => Promise<unknown>,
  ): Promise<'acked' | 'failed' | 'rewind'> {
    const { link } = this.#options;
    const acked = this.#acked?.session === session ? this.#acked.through : 0;
    if (through === acked) return 'acked';
    try {
      await ask();
      link.answered();
      this.#acked = { session, through };
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      if (error.code === 'BAD_ACK') return 'rewind';
      await link.failed(session, error);
      return 'failed';
    }
    return 'acked';
  }

  /** Answers how long to rest after it. */
  async #rewind(session: RelaySession): Promise<number> {
    const { context, link, timing } = this.#options;
    context.log('warn', 'the relay went back in time: its queue is read from the start');
    this.#acked = undefined;
    await link.rewound(session);
    const isOften = context.monotonicMs() - this.#rewoundAtMs < REWIND_OFTEN_MS;
    this.#rewoundAtMs = context.monotonicMs();
    return isOften ? this.#jittered(timing.pollMs) : 0;
  }

  #jittered(ms: number): number {
    return ms * (0.5 + this.#options.context.randomBytes(1).readUInt8() / 256);
  }

  /** Ends early when this host stops, and when `woken` is aborted. */
  #sleep(ms: number, woken?: AbortSignal): Promise<void> {
    const { timers, stopping } = this.#options;
    if (ms <= 0 || stopping.aborted || woken?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        stopping.removeEventListener('abort', wake);
        woken?.removeEventListener('abort', wake);
        resolve();
      };
      const cancel = timers.after(ms, wake);
      stopping.addEventListener('abort', wake, { once: true });
      woken?.addEventListener('abort', wake, { once: true });
    });
  }
}

/** An item of a page, and received-through when it and those before it are done. */
interface PlacedItem {
  item: IncomingItem;
  through: number;
}

/**
 * The items of a page behind `after`, in the order of their seqs. One whose seq cannot be read, or is none of the
 * queue's, has no place: it comes first and moves nothing, and the page's `last_seq` leads past it.
 */
export function placedItems(page: PulledPage, after: number, scope: RelayScope): PlacedItem[] {
  const { head_seq: headSeq, last_seq: lastSeq } = page;
  const placeOf = (seq: number | null): number | null => (seq !== null && seq > 0 && seq <= headSeq ? seq : null);
  const items = [
    ...page.items.map((item) => itemOfV2(item, placeOf(item.seq), scope)),
    ...page.unreadable.map(({ seq, bytes }) => unreadableItem(bytes, placeOf(seq), scope)),
  ].toSorted((a, b) => seqOf(a) - seqOf(b));
  let through = after;
  const placed = items.map((item) => ({ item, through: (through = Math.max(through, seqOf(item))) }));
  const last = placed.at(-1);
  if (last && items.some((item) => seqOf(item) === 0) && lastSeq <= headSeq) {
    last.through = Math.max(last.through, lastSeq);
  }
  return placed;
}

/** 0 for an item without a place. */
function seqOf({ relay }: IncomingItem): number {
  return relay?.seq ?? 0;
}

/** An item as it is received; a key that cannot be read is nobody's. */
function broughtItem(
  { relayPubkey, epoch }: RelayScope,
  seq: number | null,
  item: Pick<IncomingItem, 'kind' | 'itemId' | 'wire'> & { key: unknown },
): IncomingItem {
  const { kind, itemId, wire, key } = item;
  const relay = { pubkey: relayPubkey, epoch, seq };
  return { via: 'relay', relay, kind, itemId, senderPubkey: parsePublicKey(key) ?? NOBODYS_KEY, wire };
}

function itemOfV2(
  { kind, item_id: itemId, sender_pubkey: key, wire }: PulledItem,
  seq: number | null,
  scope: RelayScope,
): IncomingItem {
  return broughtItem(scope, seq, { kind, itemId, key, wire });
}

/** Each member that can be read is kept as such; without wire bytes the whole item stands for them. */
function unreadableItem(bytes: Buffer, seq: number | null, scope: RelayScope): IncomingItem {
  const { kind, item_id: id, sender_pubkey: key, wire = bytes } = membersOf(bytes);
  return broughtItem(scope, seq, { kind: textOf(kind), itemId: textOf(id), key, wire });
}

/** v1 tells neither a seq nor who pushed the item: the key that the envelope names stands for the sender. */
export function itemOfV1(bytes: Buffer, scope: RelayScope): IncomingItem {
  const value = parseJsonBounded(bytes, ENVELOPE_JSON_BOUNDS);
  const { id, from_host_pubkey: key } = isObject(value) ? value : {};
  const wire = (value !== undefined && canonicalOf(value)) || bytes;
  return broughtItem(scope, null, { kind: 'envelope', itemId: textOf(id), key, wire });
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function canonicalOf(value: unknown): Buffer | undefined {
  try {
    return canonicalBytes(value);
  } catch (error) {
    if (!(error instanceof NotCanonicalisable)) throw error;
    return undefined;
  }
}
