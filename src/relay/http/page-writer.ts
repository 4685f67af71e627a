/**
 * Writes large pages in slices: each is read, checked against its hashes, encoded and sent before the next is read.
 *
 * So a page of 8 MiB holds about one slice in memory instead of several copies of itself, the loop is free between
 * slices, and a slow reader holds no snapshot of the store. A payload that does not match its hash is never served:
 * the page ends before it, and the loss is reported.
 */
import { type Sha256Hex, sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Clock, Timers } from '../engine/ambient.ts';
import type { Engine, Page } from '../engine/engine.ts';
import type { Exchange, Reply, ReplyStream } from './exchange.ts';
import { ByteBudget } from './body.ts';
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
    exchange: Exchange,
    headers: Readonly<Record<string, string>>,
  ): Promise<'streamed' | Reply> {
    if (!this.#budget.take(PAGE_HELD_BYTES)) return problemReply('UNAVAILABLE', 'too many pages are being sent');
    const cancel = this.#options.timers.after(PAGE_DEADLINE_MS, () => exchange.abort());
    let isBegun = false;
    try {
      // Read before the reply begins: until then a failure can still be said.
      let slices = slicesOf(page.rows);
      let next = slices.shift();
      let items = next && (await this.#readSlice(next));
      const stream = exchange.startReply(200, { 'content-type': 'application/json', ...headers });
      isBegun = true;
      let prefix = pageHead(page);
      let lastSeq = after;
      while (next && items && !exchange.isAborted) {
        await writeSlice(stream, prefix, items.texts);
        if (items.texts.length > 0) prefix = ',';
        lastSeq = next[items.texts.length - 1]?.seq ?? lastSeq;
        if (items.texts.length < next.length) slices = [];
        next = slices.shift();
        items = next && (await this.#readSlice(next));
      }
      const isWhole = lastSeq === page.rows.at(-1)?.seq;
      const head = prefix === ',' ? '' : prefix;
      // Waited for like the slices: the page is under way until the peer has taken it.
      await stream.write(Buffer.from(`${head}${pageTail(lastSeq, page.more || !isWhole)}`, 'latin1'));
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

  /** The encoded items of a slice, up to the first that cannot be served. */
  async #readSlice(rows: readonly QueueRow[]): Promise<{ texts: string[] }> {
    const { engine, clock, newEpoch } = this.#options;
    const wires = await engine.payloads(rows);
    const texts: string[] = [];
    for (const [position, row] of rows.entries()) {
      const wire = wires[position];
      if (!wire || !isIntact(wire, row.wireHash)) {
        const { targetPubkey, seq } = row;
        const command = {
          type: 'ReportLostItem',
          targetPubkey,
          seq,
          freshEpoch: newEpoch(),
          nowMs: clock.nowMs(),
        } as const;
        await engine.reportLostItem(command);
        break;
      }
      texts.push(itemText(row, wire));
    }
    return { texts };
  }
}

/** An empty page, or the text of one without items. */
export function jsonPage(page: Page, after: number): string {
  return `${pageHead(page)}${pageTail(after, page.more)}`;
}

function pageHead({ epoch, headSeq }: Page): string {
  return `{"epoch":${JSON.stringify(epoch)},"head_seq":${headSeq},"items":[`;
}

function pageTail(lastSeq: number, more: boolean): string {
  return `],"last_seq":${lastSeq},"more":${more}}`;
}

/** Ids, kinds and keys are ASCII without quotes or backslashes, by the patterns they passed when they were stored. */
function itemText({ seq, kind, itemId, senderPubkey }: QueueRow, wire: Buffer): string {
  const head = `{"seq":${seq},"kind":"${kind}","item_id":"${itemId}","sender_pubkey":"${senderPubkey}"`;
  return `${head},"wire_b64":"${wire.toString('base64')}"}`;
}

async function writeSlice(stream: ReplyStream, prefix: string, texts: readonly string[]): Promise<void> {
  if (texts.length > 0) await stream.write(Buffer.from(prefix + texts.join(','), 'latin1'));
}

function isIntact(wire: Buffer, wireHash: Sha256Hex): boolean {
  return sha256Hex(wire) === wireHash;
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
