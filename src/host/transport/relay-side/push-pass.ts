/**
 * Pushes to the relay what goes that way: the due rows of all paired hosts, in batches.
 *
 *     due rows ─▶ which way ─▶ `relay-pushing`, durable ─▶ one request ─▶ receipts verified ─▶ each row's happening
 *
 * A pass ends with nothing due or with a pause of the link; it is begun again by what is queued, by the time the next
 * row is due, and by a new session. Retries carry the bytes that were sealed once.
 */
import type { PublicKey } from '../../../protocol/public-key.ts';
import { BATCH_SIZE_MAX, type BatchSize, batchOf, batchSizeAfter } from '../../core/batch-size.ts';
import type { OutboxHappening } from '../../core/outbox.ts';
import type { OutboxRow, PeerRow } from '../../core/rows.ts';
import { type RelayFacts, chooseTransport } from '../../core/transport-choice.ts';
import type { Office } from '../../office/office.ts';
import { afterAttempt, dueRows, nextDueMs, wireOf } from '../../office/outbox.ts';
import { currentKey, livePeers } from '../../office/peers.ts';
import { isStoreFailure } from '../../office/store-failure.ts';
import { RelayCallFailed } from '../relay-request.ts';
import type { RelayLink } from './relay-link.ts';
import { type PushAnswer, type Pushed, requestPush } from './push-request.ts';
import type { RelaySession } from './relay-session.ts';
import type { Targets } from './targets.ts';

/** Due rows of one host that are looked at for one batch. */
const LOOKED_AT_MAX = 2000;
/** Between passes while rows are due: most of them wait for the LAN, or for the link. */
const REST_MS = 1_000;
const SLEEP_MAX_MS = 60_000;

/** What a relay says of a key, in v1 of a name, that it has no queue for. */
const ABSENT = new Set(['unknown target', 'target revoked', 'recipient host unknown', 'recipient host ambiguous']);

export interface PushPassOptions {
  office: Office;
  link: RelayLink;
  targets: Targets;
}

export class PushPass {
  readonly #options: PushPassOptions;
  #running: Promise<void> | undefined;
  #again = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #size: BatchSize = BATCH_SIZE_MAX;

  constructor(options: PushPassOptions) {
    this.#options = options;
  }

  /** What the choice of a way rests on; null while no relay can be used. */
  async factsFor(peer: PeerRow): Promise<RelayFacts | null> {
    const { link, targets } = this.#options;
    const { session } = link;
    if (!session) return null;
    const { scope, retentionMs, protocol } = session;
    const isTargetEnrolled = await targets.isEnrolled(session, peer);
    const { relayPubkey, epoch } = scope;
    return { relayPubkey, epoch, retentionMs, isTargetEnrolled, carriesReceipts: protocol === 2 };
  }

  begin(): void {
    if (this.#isStopped) return;
    this.#again = true;
    this.#running ??= this.#run();
  }

  /** Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      while (this.#again && !this.#isStopped) {
        this.#again = false;
        await this.#pass();
      }
    } catch (error) {
      if (!isStoreFailure(error)) {
        this.#options.office.log('error', 'nothing could be pushed', { err: error });
        this.#wakeIn(SLEEP_MAX_MS);
      }
    } finally {
      this.#running = undefined;
    }
  }

  async #pass(): Promise<void> {
    const { link } = this.#options;
    while (!this.#isStopped) {
      const { session } = link;
      // A new session begins a pass.
      if (!session) return;
      if (link.pauseMs > 0) {
        this.#wakeIn(link.pauseMs);
        return;
      }
      const rows = await this.#dueForRelay(session);
      const { max_batch: itemsMax, max_pull_bytes: bytesMax } = session.limits;
      const { items, bytes } = this.#size;
      const count = batchOf(rows, { items, bytes: Math.min(bytes, bytesMax) }, itemsMax);
      if (count === 0) break;
      await this.#push(session, rows.slice(0, count));
    }
    await this.#sleepUntilDue();
  }

  /** The rows that go to the relay now, longest due first. */
  async #dueForRelay(session: RelaySession): Promise<OutboxRow[]> {
    const { office } = this.#options;
    const peers = await office.store.read(livePeers);
    const found: OutboxRow[] = [];
    for (const peer of peers) {
      const dueMs = await office.store.read((reader) => nextDueMs(reader, peer.peerId));
      if (dueMs === null) continue;
      const facts = await this.factsFor(peer);
      const nowMs = office.nowMs();
      const rows = await office.store.read((reader) => dueRows(reader, peer.peerId, nowMs, LOOKED_AT_MAX));
      found.push(...rows.filter((row) => chooseTransport(row, peer, facts, nowMs) === 'relay'));
    }
    const isTooLarge = (row: OutboxRow): boolean => row.wireBytes > session.limits.max_item_bytes;
    const tooLarge = found.filter(isTooLarge);
    if (tooLarge.length > 0) {
      await this.#step(tooLarge.map((row) => ({ row, happening: { type: 'relay-refused', code: 'too large' } })));
    }
    const sendable = found.filter((row) => !isTooLarge(row));
    return sendable.toSorted((a, b) => (a.nextAtMs ?? 0) - (b.nextAtMs ?? 0) || a.rowId - b.rowId);
  }

  async #push(session: RelaySession, rows: readonly OutboxRow[]): Promise<void> {
    const { office, link } = this.#options;
    const pushed = await this.#leaving(rows);
    if (pushed.length === 0) return;
    const startedMs = office.monotonicMs();
    let answer: PushAnswer;
    try {
      answer = await requestPush(session, pushed, office.nowMs());
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      // What this host itself ended is no failure of the relay: the rows are as due as before.
      if (this.#isStopped || session.ending.signal.aborted) return;
      this.#size = batchSizeAfter(this.#size, { type: 'failed' });
      const happening = { type: 'relay-failed', reason: error.message } as const;
      await this.#step(pushed.map(({ row }) => ({ row, happening })));
      await link.failed(session, error);
      return;
    }
    this.#size = batchSizeAfter(this.#size, { type: 'answered', tookMs: office.monotonicMs() - startedMs });
    const { happenings, epoch, stopped } = answer;
    await this.#step(
      pushed.map(({ row, targetPubkey }, at) => {
        const happening = happenings[at] ?? { type: 'relay-failed', reason: 'the relay gave no result for it' };
        this.#noteRefusal(session, targetPubkey, happening);
        return { row, happening };
      }),
    );
    if (stopped) return link.failed(session, stopped);
    if (epoch === session.scope.epoch) link.worked();
    else link.ended(session);
  }

  /** The rows whose bytes may leave: that they did is durable before. */
  #leaving(rows: readonly OutboxRow[]): Promise<Pushed[]> {
    const { office } = this.#options;
    return office.store.transact((tx) =>
      rows.flatMap(({ rowId, peerId }): Pushed[] => {
        const peer = tx.get('peer', peerId);
        const row = tx.get('outbox', rowId);
        const isOpen = row?.state === 'pending' || row?.state === 'relay-accepted';
        if (!isOpen || !peer || peer.unpairedAtMs !== null) return [];
        const leaving = afterAttempt(tx, office, rowId, { type: 'relay-pushing' });
        // A deadline may have ended it.
        if (leaving?.state !== row.state) return [];
        const targetPubkey = currentKey(peer).publicKey;
        return [{ row: leaving, targetPubkey, wire: wireOf(tx, rowId) }];
      }),
    );
  }

  #noteRefusal(session: RelaySession, targetPubkey: PublicKey, happening: OutboxHappening): void {
    if (happening.type !== 'relay-refused') return;
    const { code } = happening;
    if (ABSENT.has(code)) this.#options.targets.noteAbsent(session, targetPubkey);
    else if (code === 'sender not accepted by target' || code === 'conflict') {
      this.#options.office.log('warn', 'the relay does not take an item of this host', { code });
    }
  }

  #step(steps: readonly { row: OutboxRow; happening: OutboxHappening }[]): Promise<void> {
    const { office } = this.#options;
    return office.store.transact((tx) => {
      for (const { row, happening } of steps) afterAttempt(tx, office, row.rowId, happening);
    });
  }

  async #sleepUntilDue(): Promise<void> {
    const { office } = this.#options;
    const dueMs = await office.store.read(async (reader) => {
      let soonest: number | null = null;
      for (const { peerId } of await livePeers(reader)) {
        const next = await nextDueMs(reader, peerId);
        if (next !== null && (soonest === null || next < soonest)) soonest = next;
      }
      return soonest;
    });
    if (dueMs !== null) this.#wakeIn(Math.max(REST_MS, dueMs - office.nowMs()));
  }

  #wakeIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#isStopped) this.#timer = setTimeout(() => this.begin(), Math.min(SLEEP_MAX_MS, ms));
  }
}
