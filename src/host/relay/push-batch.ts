/**
 * The carrier of the relay: pushes rows of paired hosts, one request at a time, and says what the answer makes of each
 * row; the dispatcher stores it.
 *
 *     rows of a peer ─▶ waiting rows of all peers ─▶ `relay-pushing`, durable ─▶ one request ─▶ checks ─▶ events
 *
 * Peers whose rows wait share the next request: a message to many hosts costs few requests, and no peer waits for all
 * that another one has. Retries carry the bytes that were sealed once.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { receiptCheck } from '../../protocol/receipt-tree.ts';
import { outboxEventOfResult } from '../core/receipts.ts';
import type { OutboxEvent } from '../core/outbox-event.ts';
import { isSending } from '../core/outbox-row.ts';
import type { RelayRole } from '../core/relay-rows.ts';
import type { OutboxRow, PeerRow } from '../core/rows.ts';
import type { RelayFacts } from '../core/transport-choice.ts';
import type { HostContext } from '../base/context.ts';
import type { RelayTransport, RowEvent, Sent } from '../outbox/peer-work.ts';
import { afterAttempt, wireOf } from '../outbox/outbox.ts';
import { currentKey } from '../peers/peers.ts';
import { ownRelays } from '../outbox/homes.ts';
import type { PeersAtRelay } from './peers-at-relay.ts';
import type { RelayLink } from './relay-link.ts';
import type { RelayLooks } from './relay-looks.ts';
import { RelayCallFailed, type RelayProblem } from './relay-request.ts';
import type { RelaySession, V1Session, V2Session } from './register-host.ts';
import type { V1Stored } from './relay-v1-client.ts';

/** A relay's refusals of a key, in v1 of a name, that it has no queue for. */
const ABSENT: ReadonlySet<string> = new Set(['unknown target', 'recipient host unknown', 'recipient host ambiguous']);
const REVOKED = 'target revoked';
const NO_RESULT = 'the relay gave no result for it';
/** Refusals that only an operator or the peer's owner can change. */
const WORTH_A_WARNING: ReadonlySet<string> = new Set(['sender not accepted by target', 'conflict']);

interface RelayCarrierOptions {
  context: HostContext;
  link: RelayLink;
  peers: PeersAtRelay;
  looks: Pick<RelayLooks, 'accepted'>;
}

/** Rows of one peer that wait for a request. */
interface Offer {
  rows: readonly OutboxRow[];
  resolve: (events: RowEvent[]) => void;
  reject: (error: unknown) => void;
}

/** A row whose bytes may leave. */
interface Pushed {
  row: OutboxRow;
  targetPubkey: PublicKey;
  wire: Buffer;
}

interface PushAnswer {
  /** One for each of the rows, in their order. */
  events: OutboxEvent[];
  /** The relay's, as far as it says. */
  epoch: Epoch;
  /** The relay took some and wants to be left alone: a limit of v1. */
  stopped?: RelayProblem | undefined;
}

export class RelayCarrier implements RelayTransport {
  /** There is signed evidence of two histories, which nobody dismissed. */
  hasTwoHistories = false;
  isLeft = false;
  role: RelayRole = 'home';
  readonly #options: RelayCarrierOptions;
  #offers: Offer[] = [];
  #isPushing = false;
  #size: BatchSize = BATCH_SIZE_MAX;

  constructor(options: RelayCarrierOptions) {
    this.#options = options;
  }

  get relayPubkey(): PublicKey {
    return this.#options.link.relayPubkey;
  }

  get #session(): RelaySession | undefined {
    return this.#options.link.current;
  }

  get isUsable(): boolean {
    return this.#session !== undefined;
  }

  get isDown(): boolean {
    return this.#options.link.health.isDown;
  }

  get unheardMs(): number {
    return this.#options.link.health.unheardMs;
  }

  get pauseMs(): number {
    return this.#options.link.pauseMs;
  }

  factsFor(peer: PeerRow): RelayFacts | null | 'unknown' {
    const session = this.#session;
    if (!session) return null;
    const isTargetEnrolled = this.#options.peers.isEnrolled(session, peer);
    if (isTargetEnrolled === undefined) return 'unknown';
    const { scope, retentionMs, protocol } = session;
    const { relayPubkey, epoch } = scope;
    return {
      relayPubkey,
      epoch,
      retentionMs,
      isTargetEnrolled,
      carriesReceipts: protocol === 2,
      hasTwoHistories: this.hasTwoHistories,
    };
  }

  async ask(peer: PeerRow): Promise<void> {
    const session = this.#session;
    if (session) await this.#options.peers.ask(session, peer);
  }

  async send(_peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal): Promise<Sent> {
    const session = this.#session;
    if (!session) return { events: [] };
    const { max_item_bytes: bytesMax } = session.limits;
    const tooLarge = rows.filter(({ wireBytes }) => wireBytes > bytesMax);
    const fitting = rows.filter(({ wireBytes }) => wireBytes <= bytesMax);
    const pushed = fitting.length > 0 ? await this.#offer(fitting, signal) : [];
    if (tooLarge.length === 0) return { events: pushed };
    const { relayPubkey } = session.scope;
    const unsent = { isOneOfMany: (await this.#options.context.store.read(ownRelays)).length > 1 };
    const event = { type: 'relay-refused', relayPubkey, code: 'too large', unsent } as const;
    return { events: [...tooLarge.map(({ rowId }): RowEvent => ({ rowId, event })), ...pushed] };
  }

  /** Resolves when a request with some of the rows was answered, or with nothing when none can be made. */
  #offer(rows: readonly OutboxRow[], signal: AbortSignal): Promise<RowEvent[]> {
    return new Promise((resolve, reject) => {
      this.#offers.push({ rows, resolve, reject });
      if (!this.#isPushing) void this.#pushAll(signal);
    });
  }

  async #pushAll(signal: AbortSignal): Promise<void> {
    this.#isPushing = true;
    // What is offered in this turn shares a request.
    await Promise.resolve();
    for (let session = this.#session; this.#offers.length > 0; session = this.#session) {
      if (session && !signal.aborted && this.pauseMs <= 0) await this.#pushNext(session, signal);
      else for (const { resolve } of this.#offers.splice(0)) resolve([]);
    }
    this.#isPushing = false;
  }

  /** Pushes what the next request holds, and answers those whose rows were in it. */
  async #pushNext(session: RelaySession, signal: AbortSignal): Promise<void> {
    const { max_batch: itemsMax, max_pull_bytes: bytesMax } = session.limits;
    const { items, bytes } = this.#size;
    const waiting = inTurns(this.#offers, itemsMax);
    const count = batchOf(waiting, { items, bytes: Math.min(bytes, bytesMax) }, itemsMax);
    const batch = new Set(waiting.slice(0, count));
    const isInIt = ({ rows }: Offer): boolean => rows.some((row) => batch.has(row));
    const offers = this.#offers.filter(isInIt);
    this.#offers = this.#offers.filter((offer) => !isInIt(offer));
    try {
      const events = await this.#push(session, [...batch], signal);
      for (const { rows, resolve } of offers) {
        const rowIds = new Set(rows.map(({ rowId }) => rowId));
        resolve(events.filter(({ rowId }) => rowIds.has(rowId)));
      }
    } catch (error) {
      for (const { reject } of offers) reject(error);
    }
  }

  async #push(session: RelaySession, rows: readonly OutboxRow[], signal: AbortSignal): Promise<RowEvent[]> {
    const { context, link, looks } = this.#options;
    const { relayPubkey } = session.scope;
    const pushed = await this.#leaving(rows, relayPubkey);
    if (pushed.length === 0 || session !== this.#session) return [];
    const startedMs = context.monotonicMs();
    let answer: PushAnswer;
    try {
      answer = await requestPush(session, pushed, context.nowMs());
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      // What this host itself ended is no failure of the relay: the rows are as due as before.
      if (signal.aborted || session.ending.signal.aborted) return [];
      this.#size = batchSizeAfter(this.#size, Infinity);
      await link.failed(session, error);
      const event = { type: 'relay-failed', relayPubkey, reason: error.message } as const;
      return pushed.map(({ row }) => ({ rowId: row.rowId, event }));
    }
    this.#size = batchSizeAfter(this.#size, context.monotonicMs() - startedMs);
    const events = pushed.map(({ row, targetPubkey }, at): RowEvent => {
      const event = answer.events[at] ?? { type: 'relay-failed', relayPubkey, reason: NO_RESULT };
      this.#noteRefusal(session, targetPubkey, event);
      return { rowId: row.rowId, event };
    });
    looks.accepted(pushed.flatMap(({ row }, at) => (answer.events[at]?.type === 'relay-accepted' ? [row] : [])));
    if (answer.stopped) await link.failed(session, answer.stopped);
    else if (answer.epoch === session.scope.epoch) link.worked();
    else link.ended(session);
    return events;
  }

  /** The rows whose bytes may leave: that they did is durable before. */
  #leaving(rows: readonly OutboxRow[], relayPubkey: PublicKey): Promise<Pushed[]> {
    const { context } = this.#options;
    return context.store.transact(async (tx) => {
      const own = (await ownRelays(tx)).map(({ row }) => row).toSorted((a, b) => a.pinnedAtMs - b.pinnedAtMs);
      const [oldest] = own;
      const several =
        own.length > 1 && oldest ? { isOneOfMany: true, oldestRelay: oldest.pubkey } : { isOneOfMany: false };
      return rows.flatMap(({ rowId, peerId }): Pushed[] => {
        const peer = tx.get('peer', peerId);
        const row = tx.get('outbox', rowId);
        if (!row || !isSending(row) || !peer || peer.unpairedAtMs !== null) return [];
        const leaving = afterAttempt(tx, context, rowId, { type: 'relay-pushing', relayPubkey, ...several });
        // A deadline may have ended it.
        if (leaving?.state !== row.state) return [];
        return [{ row: leaving, targetPubkey: currentKey(peer).publicKey, wire: wireOf(tx, rowId) }];
      });
    });
  }

  #noteRefusal(session: RelaySession, targetPubkey: PublicKey, event: OutboxEvent): void {
    if (event.type !== 'relay-refused') return;
    const { context, peers } = this.#options;
    const { code } = event;
    if (ABSENT.has(code)) peers.noteAbsent(session, targetPubkey);
    else if (code === REVOKED) peers.forget(targetPubkey);
    else if (WORTH_A_WARNING.has(code)) context.log('warn', 'the relay does not take an item of this host', { code });
  }
}

/** The rows of all offers, one of each in turn, those of an offer in their order; no more than a request can hold. */
function inTurns(offers: readonly Offer[], max: number): OutboxRow[] {
  const longest = Math.max(...offers.map(({ rows }) => rows.length));
  const found: OutboxRow[] = [];
  for (let at = 0; at < longest && found.length < max; at++) {
    for (const { rows } of offers) {
      const row = rows[at];
      if (row) found.push(row);
    }
  }
  return found;
}

/** One request, in the session's protocol. Throws `RelayCallFailed`. */
function requestPush(session: RelaySession, rows: readonly Pushed[], nowMs: number): Promise<PushAnswer> {
  return session.protocol === 2 ? pushInV2(session, rows, nowMs) : pushInV1(session, rows);
}

async function pushInV2(
  { client, scope, retentionMs }: V2Session,
  rows: readonly Pushed[],
  nowMs: number,
): Promise<PushAnswer> {
  const items = rows.map(({ row, targetPubkey, wire }) => {
    const targets = [{ host_pubkey: targetPubkey, wire }];
    return { kind: row.kind, item_id: row.itemId, targets };
  });
  const answer = await client.push(items);
  const epoch = answer.epoch as Epoch;
  const { relayPubkey, hostPubkey: senderPubkey } = scope;
  const isSigned = receiptCheck(relayPubkey);
  const events = rows.map(({ row, targetPubkey }, at) => {
    const { itemId, wireHash } = row;
    const asked = { relayPubkey, epoch, senderPubkey, itemId, targetPubkey, wireHash };
    return outboxEventOfResult(answer.results[at] ?? { status: '' }, asked, { retentionMs, nowMs }, isSigned);
  });
  return { events, epoch };
}

/** The wire bytes are the canonical form of the envelope, so the relay makes the same of what is parsed of them. */
async function pushInV1({ client, scope }: V1Session, rows: readonly Pushed[]): Promise<PushAnswer> {
  const { results, stopped } = await client.push(rows.map(({ wire }) => JSON.parse(wire.toString('utf8')) as unknown));
  const events = rows.map(({ row }, at) => outboxEventInV1(results[at], row, scope.relayPubkey));
  return { events, epoch: scope.epoch, stopped };
}

function outboxEventInV1(result: V1Stored | undefined, { itemId }: OutboxRow, relayPubkey: PublicKey): OutboxEvent {
  if (!result) return { type: 'relay-failed', relayPubkey, reason: 'the relay stopped at a limit before it' };
  if (result.error !== undefined && result.error !== '')
    return { type: 'relay-refused', relayPubkey, code: result.error.slice(0, 100) };
  if (result.id !== itemId) return { type: 'relay-failed', relayPubkey, reason: NO_RESULT };
  return { type: 'relay-stored', relayPubkey };
}

export interface BatchSize {
  items: number;
  /** The wire bytes of a batch at most; an item that is larger goes alone. */
  bytes: number;
}

/** Base64 makes a third more of wire bytes, and a body has a bound of 8 MiB. */
export const BATCH_SIZE_MAX: BatchSize = { items: 200, bytes: 5 << 20 };
export const BATCH_SIZE_MIN: BatchSize = { items: 1, bytes: 64 << 10 };
/** An answer that took longer is slow. */
export const SLOW_MS = 5_000;

/** The size of the next batch, by how long the answer took; `Infinity` when none came. */
export function batchSizeAfter(size: BatchSize, tookMs: number): BatchSize {
  const factor = tookMs <= SLOW_MS ? 2 : 0.5;
  return {
    items: within(Math.floor(size.items * factor), BATCH_SIZE_MIN.items, BATCH_SIZE_MAX.items),
    bytes: within(Math.floor(size.bytes * factor), BATCH_SIZE_MIN.bytes, BATCH_SIZE_MAX.bytes),
  };
}

/** Counts the first rows that make a batch, one at least. `itemsMax` is the relay's own bound. */
export function batchOf(rows: readonly { wireBytes: number }[], size: BatchSize, itemsMax: number): number {
  let bytes = 0;
  let count = 0;
  for (const { wireBytes } of rows) {
    bytes += wireBytes;
    if (count > 0 && (bytes > size.bytes || count >= Math.min(size.items, itemsMax))) break;
    count++;
  }
  return count;
}

function within(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
