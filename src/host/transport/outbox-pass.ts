/**
 * Empties the outbox: for each paired host, one pass at a time takes the rows that are due and sends them.
 *
 *     due rows ─▶ which way ─▶ one request ─▶ each row's answer ─▶ afterAttempt ─▶ next due row, or sleep until then
 *
 * A pass ends with nothing due; it is begun again by what is queued, by the time the next row is due, and by the peer
 * being reached. A host that does not answer costs one request for all that is due to it.
 */
import { encodeBase64 } from '../../protocol/base64.ts';
import type { LanItem, LanItemsAnswer } from '../../protocol/lan.ts';
import { LAN_BATCH_MAX } from '../../protocol/lan.ts';
import type { OutboxHappening } from '../core/outbox.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import { chooseTransport } from '../core/transport-choice.ts';
import type { Office } from '../office/office.ts';
import { afterAttempt, dueRows, nextDueMs, wireOf } from '../office/outbox.ts';
import { currentKey, markReached, markUnreached } from '../office/peers.ts';
import { isStoreFailure } from '../office/store-failure.ts';
import { type LanClient, LanCallFailed } from './lan-client.ts';
import { tellOwnKey } from './tell-own-key.ts';

/** Wire bytes of one request: base64 makes a third more of them, the body has a bound, and a slow link is to get on. */
const BATCH_BYTES_MAX = 2 << 20;
/** Rows that are put back together when their host does not answer. */
const PUT_BACK_MAX = 1000;
/** A timer is set for no longer than this: clocks are stepped. */
const SLEEP_MAX_MS = 60_000;

interface Batch {
  peer: PeerRow;
  address: string;
  rows: OutboxRow[];
  items: LanItem[];
}

export interface OutboxPassOptions {
  office: Office;
  client: LanClient;
  /** The peer may not know this host's key, by what it answered. */
  doubted: (peerId: PeerId) => void;
}

export class OutboxPass {
  readonly #options: OutboxPassOptions;
  readonly #running = new Map<PeerId, Promise<void>>();
  readonly #again = new Set<PeerId>();
  readonly #timers = new Map<PeerId, NodeJS.Timeout>();
  #isStopped = false;

  constructor(options: OutboxPassOptions) {
    this.#options = options;
  }

  /** Looks at every host there is a row for: at the start. Rows of one that was let go have deadlines too. */
  async beginAll(): Promise<void> {
    const peerIds = await this.#options.office.store.read(async (reader) => {
      const found: PeerId[] = [];
      for await (const { row } of reader.range('peer', [])) found.push(row.peerId);
      return found;
    });
    for (const peerId of peerIds) this.begin(peerId);
  }

  /** Looks at what is due to a host now, or once more when it is being looked at. */
  begin(peerId: PeerId): void {
    if (this.#isStopped) return;
    this.#again.add(peerId);
    if (!this.#running.has(peerId)) this.#running.set(peerId, this.#run(peerId));
  }

  /** Resolves when no pass runs any more. Requests under way are to be ended by whoever made the client. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    await Promise.all(this.#running.values());
  }

  async #run(peerId: PeerId): Promise<void> {
    try {
      while (!this.#isStopped && this.#again.delete(peerId)) await this.#pass(peerId);
    } catch (error) {
      // A store that failed ends the daemon.
      if (!isStoreFailure(error)) {
        this.#options.office.log('error', 'the outbox could not be sent', { err: error });
        this.#sleep(peerId, SLEEP_MAX_MS);
      }
    } finally {
      this.#running.delete(peerId);
    }
    if (this.#again.has(peerId)) this.begin(peerId);
  }

  async #pass(peerId: PeerId): Promise<void> {
    for (;;) {
      if (this.#isStopped) return;
      const batch = await this.#nextBatch(peerId);
      if (!batch) break;
      if (!(await this.#send(batch))) break;
    }
    await this.#sleepUntilDue(peerId);
  }

  /** What goes over the LAN now; rows that can go nowhere are given another time. */
  async #nextBatch(peerId: PeerId): Promise<Batch | undefined> {
    const { office } = this.#options;
    const nowMs = office.nowMs();
    const found = await office.store.read(async (reader) => {
      const peer = reader.get('peer', peerId);
      if (!peer) return undefined;
      const rows: OutboxRow[] = [];
      const items: LanItem[] = [];
      const waiting: number[] = [];
      let bytes = 0;
      for (const row of await dueRows(reader, peerId, nowMs, LAN_BATCH_MAX)) {
        if (chooseTransport(row, peer, null, nowMs) !== 'lan') {
          waiting.push(row.rowId);
          continue;
        }
        if (rows.length > 0 && bytes + row.wireBytes > BATCH_BYTES_MAX) break;
        bytes += row.wireBytes;
        rows.push(row);
        items.push({ kind: row.kind, item_id: row.itemId, wire_b64: encodeBase64(wireOf(reader, row.rowId)) });
      }
      return { peer, rows, items, waiting };
    });
    if (!found) return undefined;
    const { peer, rows, items, waiting } = found;
    await this.#step(waiting.map((rowId) => ({ rowId, happening: { type: 'time-passed' } })));
    if (rows.length === 0 || peer.address === null) return undefined;
    return { peer, address: peer.address, rows, items };
  }

  /** Whether the host answered. */
  async #send({ peer, address, rows, items }: Batch): Promise<boolean> {
    const { office, client } = this.#options;
    const { peerId } = peer;
    const host = { address, publicKey: currentKey(peer).publicKey };
    try {
      await tellOwnKey(office, client, { ...host, peer });
      const results = await client.items(host, items);
      await this.#step(
        rows.map(({ rowId }, at) => ({ rowId, happening: happeningOf(results[at]) })),
        (tx) => markReached(tx, office, peerId),
      );
      // A host that forgot this one quarantines its items as a stranger's.
      if (results.some(({ status }) => status === 'quarantined')) this.#options.doubted(peerId);
      return true;
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
      // What the daemon itself ended is no failure of the host.
      if (this.#isStopped) return false;
      const happening: OutboxHappening = { type: 'lan-failed', reason: error.message };
      if (error.isAnswered) {
        await this.#step(rows.map(({ rowId }) => ({ rowId, happening })));
        if (error.code === 'NOT_ENROLLED' || error.code === 'BAD_SIGNATURE') this.#options.doubted(peerId);
        return false;
      }
      const nowMs = office.nowMs();
      const due = await office.store.read((reader) => dueRows(reader, peerId, nowMs, PUT_BACK_MAX));
      await this.#step(
        due.map(({ rowId }) => ({ rowId, happening })),
        (tx) => markUnreached(tx, peerId),
      );
      return false;
    }
  }

  async #step(
    steps: readonly { rowId: number; happening: OutboxHappening }[],
    also?: (tx: Parameters<Parameters<Office['store']['transact']>[0]>[0]) => void | Promise<void>,
  ): Promise<void> {
    const { office } = this.#options;
    if (steps.length === 0 && !also) return;
    await office.store.transact(async (tx) => {
      for (const { rowId, happening } of steps) afterAttempt(tx, office, rowId, happening);
      await also?.(tx);
    });
  }

  async #sleepUntilDue(peerId: PeerId): Promise<void> {
    const { office } = this.#options;
    const dueMs = await office.store.read((reader) => nextDueMs(reader, peerId));
    this.#sleep(peerId, dueMs === null ? null : Math.max(0, dueMs - office.nowMs()));
  }

  /** Until the next look; null when only an event begins one. */
  #sleep(peerId: PeerId, ms: number | null): void {
    clearTimeout(this.#timers.get(peerId));
    this.#timers.delete(peerId);
    if (ms === null || this.#isStopped) return;
    this.#timers.set(
      peerId,
      setTimeout(() => this.begin(peerId), Math.min(SLEEP_MAX_MS, ms)),
    );
  }
}

function happeningOf(result: LanItemsAnswer['results'][number] | undefined): OutboxHappening {
  const status = result?.status ?? '';
  if (status === 'accepted' || status === 'duplicate') return { type: 'lan-accepted' };
  if (status === 'quarantined') return { type: 'lan-quarantined' };
  const code = /^rejected:(.*)$/s.exec(status)?.[1];
  return code === undefined
    ? { type: 'lan-failed', reason: 'the host answered with a status that is unknown here' }
    : { type: 'lan-rejected', code };
}
