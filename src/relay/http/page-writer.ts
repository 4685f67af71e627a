/**
 * Writes large pages in slices: each is read, checked against its hashes, encoded and sent before the next is read.
 *
 * So a page of 8 MiB holds about one slice in memory instead of several copies of itself, the loop is free between
 * slices, and a slow reader holds no snapshot of the store. A payload that does not match its hash is never served:
 * the page ends before it, and the loss is reported.
 */
import { hasHash } from '../../protocol/digest.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Timers } from '../engine/ambient.ts';
import type { Engine, Page } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import type { PageEncoder } from './page-encoding.ts';
import { problemReply } from '../../http/replies.ts';
import { SharedBudget } from '../../http/shared-budget.ts';

/** Wire bytes of one slice, about. */
const SLICE_BYTES = 512 << 10;
/** What a page under way may hold in memory: slices as read and as encoded, and what the connection has not sent. */
const PAGE_HELD_BYTES_MAX = 2 << 20;
/** Over all pages under way, and of one host. */
const PAGES_HELD_BYTES_MAX = 128 << 20;
const PAGES_SHARE_BYTES = 4 * PAGE_HELD_BYTES_MAX;
/** A page that was not taken by then is cut. */
const PAGE_DEADLINE_MS = 60_000;

export interface PageWriterOptions {
  engine: Engine;
  timers: Timers;
  lostItems: LostItems;
}

export class PageWriter {
  readonly #options: PageWriterOptions;
  readonly #budget = new SharedBudget(PAGES_HELD_BYTES_MAX, PAGES_SHARE_BYTES);

  constructor(options: PageWriterOptions) {
    this.#options = options;
  }

  /** Streams the page as the reply of `exchange`. */
  async write(
    page: Page,
    after: number,
    encoder: PageEncoder,
    exchange: Exchange,
    headers: Readonly<Record<string, string>>,
  ): Promise<'streamed' | Reply> {
    const caller = page.rows[0]?.targetPubkey ?? '';
    const heldBytes = heldAtMost(page.rows);
    if (!this.#budget.take(caller, heldBytes)) {
      return problemReply('UNAVAILABLE', 'too many pages are being sent to this host, or in all');
    }
    const cancel = this.#options.timers.after(PAGE_DEADLINE_MS, () => exchange.abort());
    let isBegun = false;
    try {
      const slices = slicesOf(page.rows);
      // Read before the reply begins: until then a failure can still be said.
      let slice = await this.#readSlice(slices[0] ?? []);
      const stream = exchange.startReply(200, { 'content-type': 'application/json', ...headers });
      isBegun = true;
      let lastSeq = after;
      for (let n = 0; n < slices.length && !exchange.isAborted; ) {
        const bytes = encoder.items(slice.rows, slice.wires);
        const written = bytes.length > 0 ? stream.write(bytes) : undefined;
        lastSeq = slice.lastSeq ?? lastSeq;
        if (slice.isCut) break;
        // The next one is read while this one goes out.
        [slice] = await Promise.all([this.#readSlice(slices[++n] ?? []), written]);
      }
      const isWhole = lastSeq === page.rows.at(-1)?.seq;
      // Waited for like the slices: the page is under way until the peer has taken it.
      await stream.write(Buffer.from(encoder.end(lastSeq, page.more || !isWhole)));
      stream.end();
      return 'streamed';
    } catch (error) {
      // Half a page cannot be taken back: the peer sees the connection end.
      if (isBegun) exchange.abort();
      throw error;
    } finally {
      cancel();
      this.#budget.give(caller, heldBytes);
    }
  }

  /** Rows with their wire bytes, up to the first that cannot be served; those acked meanwhile are left out. */
  async #readSlice(rows: readonly QueueRow[]): Promise<Slice> {
    const { engine, lostItems } = this.#options;
    const found = await engine.payloads(rows);
    const slice: Slice = { rows: [], wires: [], lastSeq: undefined, isCut: false };
    for (const [position, row] of rows.entries()) {
      const wire = found[position];
      if (hasHash(wire, row.wireHash)) {
        slice.rows.push(row);
        slice.wires.push(wire);
      } else if (row.seq > engine.head(row.targetPubkey).ackedThrough) {
        await lostItems.report([row], 'pull');
        return { ...slice, isCut: true };
      }
      slice.lastSeq = row.seq;
    }
    return slice;
  }
}

interface Slice {
  rows: QueueRow[];
  wires: Buffer[];
  /** The last row that was dealt with. */
  lastSeq: number | undefined;
  /** Whether it ends before a row that was lost. */
  isCut: boolean;
}

/** A small page holds less than a large one. */
function heldAtMost(rows: readonly QueueRow[]): number {
  let bytes = 0;
  for (const row of rows) bytes += 4 * row.bytes;
  return Math.min(bytes, PAGE_HELD_BYTES_MAX);
}

/** Runs of rows of about `SLICE_BYTES`, at least one row each. */
function slicesOf(rows: readonly QueueRow[]): QueueRow[][] {
  const slices: QueueRow[][] = [];
  let bytes = SLICE_BYTES;
  for (const row of rows) {
    if (bytes + row.bytes > SLICE_BYTES) {
      slices.push([]);
      bytes = 0;
    }
    slices.at(-1)?.push(row);
    bytes += row.bytes;
  }
  return slices;
}
