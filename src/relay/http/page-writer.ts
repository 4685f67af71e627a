/**
 * Writes large pages in slices: each is read, checked against its hashes, encoded and sent before the next is read.
 *
 * So a page of 8 MiB holds about one slice in memory instead of several copies of itself, the loop is free between
 * slices, and a slow reader holds no snapshot of the store. A payload that does not match its hash is never served:
 * the page ends before it, and the loss is reported.
 */
import { sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Clock, Timers } from '../engine/ambient.ts';
import type { Engine, Page } from '../engine/engine.ts';
import type { Exchange, Reply } from './exchange.ts';
import { ByteBudget } from './body.ts';
import type { PageEncoder } from './page-encoding.ts';
import { problemReply } from './replies.ts';

/** Wire bytes of one slice, about. */
const SLICE_BYTES = 512 << 10;
/** What a page under way may hold in memory: a slice as read and as encoded, and what the connection has not sent. */
const PAGE_HELD_BYTES = 2 << 20;
/** Over all pages under way. */
const PAGES_HELD_BYTES_MAX = 128 << 20;
/** A page that was not taken by then is cut. */
const PAGE_DEADLINE_MS = 60_000;

export interface PageWriterOptions {
  engine: Engine;
  clock: Clock;
  timers: Timers;
  newEpoch: () => Epoch;
}

export class PageWriter {
  readonly #options: PageWriterOptions;
  readonly #budget = new ByteBudget(PAGES_HELD_BYTES_MAX);

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
    if (!this.#budget.take(PAGE_HELD_BYTES)) return problemReply('UNAVAILABLE', 'too many pages are being sent');
    const cancel = this.#options.timers.after(PAGE_DEADLINE_MS, () => exchange.abort());
    let isBegun = false;
    try {
      const slices = slicesOf(page.rows);
      // Read before the reply begins: until then a failure can still be said.
      let slice = await this.#readSlice(slices[0] ?? []);
      const stream = exchange.startReply(200, { 'content-type': 'application/json', ...headers });
      isBegun = true;
      let lastSeq = after;
      for (let n = 0; slice.rows.length > 0 && !exchange.isAborted; ) {
        const isWhole = slice.rows.length === slices[n]?.length;
        const written = stream.write(encoder.items(slice.rows, slice.wires));
        lastSeq = slice.rows.at(-1)?.seq ?? lastSeq;
        // The next one is read while this one goes out.
        const next = isWhole ? slices[++n] : undefined;
        [slice] = await Promise.all([this.#readSlice(next ?? []), written]);
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
      this.#budget.give(PAGE_HELD_BYTES);
    }
  }

  /** Rows with their wire bytes, up to the first that cannot be served. */
  async #readSlice(rows: readonly QueueRow[]): Promise<Slice> {
    const { engine } = this.#options;
    const found = await engine.payloads(rows);
    const wires: Buffer[] = [];
    for (const [position, row] of rows.entries()) {
      const wire = found[position];
      if (!wire || sha256Hex(wire) !== row.wireHash) {
        await this.#reportLost(row);
        break;
      }
      wires.push(wire);
    }
    return { rows: rows.slice(0, wires.length), wires };
  }

  #reportLost({ targetPubkey, seq }: QueueRow): Promise<void> {
    const { engine, clock, newEpoch } = this.#options;
    const freshEpoch = newEpoch();
    return engine.reportLostItem({ type: 'ReportLostItem', targetPubkey, seq, freshEpoch, nowMs: clock.nowMs() });
  }
}

interface Slice {
  rows: readonly QueueRow[];
  wires: readonly Buffer[];
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
