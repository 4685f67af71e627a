/**
 * Writes large pages in slices: each is read, checked, encoded and sent before the next is read.
 *
 * The rows of a page are chosen by `Engine.page`. A page of 8 MiB holds about one slice in memory instead of several
 * copies of itself, the loop is free between slices, and a slow reader holds no snapshot of the store. A payload that
 * is not what was stored is never served: the page ends before it, and the loss is reported. A page whose host loses
 * its enrolment is cut. Items are encoded straight into one buffer of their exact size: building a string first costs
 * half of all the time that a page takes. A thread of the store does so where it runs, and in memory that is used
 * again.
 */
import { type TextsAround, hasHash } from '../../protocol/encodings.ts';
import { Budget, type Claim, type Holder } from '../../http/budget.ts';
import type { EnrolmentRow, QueueRow } from '../core/rows.ts';
import type { Clock, Timers } from '../../lib/clock.ts';
import type { Engine, Page } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';

/** Wire bytes of one slice, about. */
const SLICE_BYTES = 512 << 10;
/** Bytes that a page under way may hold: slices as read and as encoded, and what the connection has not sent. */
const PAGE_HELD_BYTES_MAX = 2 << 20;
/** A page of 64 KiB of wire bytes: up to here it has room of its own. */
const SMALL_PAGE_HELD_BYTES_MAX = 256 << 10;
/** Bytes of all pages of one host. */
const PAGES_SHARE_BYTES = 4 * PAGE_HELD_BYTES_MAX;
/** A page that was not taken by then is cut. */
const PAGE_DEADLINE_MS = 60_000;

interface PageWriterOptions {
  engine: Engine;
  clock: Clock;
  timers: Timers;
  lostItems: LostItems;
  heldBytes: HeldBytes;
}

interface PageRequest {
  exchange: Exchange;
  id: string;
  caller: EnrolmentRow;
  clientAddress: string;
}

export class PageWriter {
  readonly #options: PageWriterOptions;
  readonly #budget: Budget;

  constructor(options: PageWriterOptions) {
    this.#options = options;
    this.#budget = new Budget({
      bytesMax: options.heldBytes.pages,
      small: { bytesMax: options.heldBytes.smallPages, claimBytesMax: SMALL_PAGE_HELD_BYTES_MAX },
      monotonicMs: options.clock.monotonicMs,
    });
  }

  async write(page: Page, after: number, encoder: PageEncoder, request: PageRequest): Promise<'streamed' | Reply> {
    const { exchange, caller } = request;
    const { engine, timers } = this.#options;
    const claim = this.#budget.claim({
      holders: holdersOf(request),
      bytes: heldAtMost(page.rows),
      expectedBytes: encodedBytes(page.rows),
      deadlineMs: PAGE_DEADLINE_MS,
      cut: () => exchange.abort(),
    });
    if (!claim) return problemReply('UNAVAILABLE', 'too many pages are being sent to this host, or in all');
    const cancel = timers.after(PAGE_DEADLINE_MS, () => exchange.abort());
    let state: 'reading' | 'begun' | 'ended' = 'reading';
    const stopWatching = engine.onEnrolmentEnded(caller.hostPubkey, () => {
      if (state === 'begun') exchange.abort();
      state = 'ended';
    });
    try {
      const slices = slicesOf(page.rows);
      // Read before the reply begins: until then a failure can still be answered.
      const first = await this.#readSlice(slices[0] ?? [], encoder);
      // Looked up again: the page and the slice were waited for.
      if (engine.directory.get(caller.hostPubkey)?.revokedAtMs !== null)
        return problemReply('NOT_ENROLLED', 'not enrolled');
      state = 'begun';
      await this.#send(page, after, encoder, request, { slices, first, claim });
      return 'streamed';
    } catch (error) {
      // Half a page cannot be taken back: the peer sees the connection end.
      if (state !== 'reading') exchange.abort();
      throw error;
    } finally {
      cancel();
      stopWatching();
      claim.release();
    }
  }

  async #send(
    page: Page,
    after: number,
    encoder: PageEncoder,
    { exchange, id }: PageRequest,
    { slices, first, claim }: { slices: QueueRow[][]; first: Slice; claim: Claim },
  ): Promise<void> {
    const headers = { ...encoder.headers, 'x-request-id': id };
    const stream = exchange.startReply(200, headers, (bytes) => claim.moved(bytes));
    let slice = first;
    let lastSeq = after;
    for (let n = 0; n < slices.length && !exchange.isAborted; ) {
      const { bytes, release } = slice;
      const written = bytes.length > 0 ? stream.write(bytes) : undefined;
      lastSeq = slice.lastSeq ?? lastSeq;
      if (slice.isCut) {
        await written;
        break;
      }
      // The next one is read while this one goes out.
      [slice] = await Promise.all([this.#readSlice(slices[++n] ?? [], encoder), written]);
      release?.();
    }
    const isWhole = lastSeq === page.rows.at(-1)?.seq;
    // Waited for like the slices: the page is under way until the peer has taken it.
    await stream.write(encoder.end(lastSeq, page.more || !isWhole));
    stream.end();
  }

  /** The rows as they are sent, up to the first that cannot be served; those acked meanwhile are left out. */
  async #readSlice(rows: readonly QueueRow[], encoder: PageEncoder): Promise<Slice> {
    const { engine, lostItems } = this.#options;
    const encoded = await this.#encodeWhole(rows, encoder);
    if (encoded) return { lastSeq: rows.at(-1)?.seq, isCut: false, ...encoded };
    const found = await engine.payloads(rows);
    const whole: QueueRow[] = [];
    const wires: Buffer[] = [];
    let lastSeq: number | undefined;
    let isCut = false;
    for (const [position, row] of rows.entries()) {
      const wire = found[position];
      if (wire && isWhole(row, wire)) {
        whole.push(row);
        wires.push(wire);
      } else if (row.seq > engine.head(row.targetPubkey).ackedThrough) {
        await lostItems.report([row], 'pull');
        isCut = true;
        break;
      }
      lastSeq = row.seq;
    }
    return { bytes: encoder.items(whole, wires), lastSeq, isCut };
  }

  /** The rows as they are sent, where memory or the store has all of them so and they are what was stored. */
  async #encodeWhole(rows: readonly QueueRow[], encoder: PageEncoder): Promise<EncodedPage | undefined> {
    if (rows.length === 0) return undefined;
    const { engine } = this.#options;
    const wires = engine.recent.wires(rows);
    if (wires) return { bytes: encoder.items(rows, wires) };
    const lengths = rows.map(({ bytes }) => bytes);
    const texts = encoder.texts?.(rows, lengths);
    const encoded = texts && (await engine.encodedPayloads(rows, texts));
    if (encoded) encoder.wrote?.();
    return encoded;
  }
}

/** Wire bytes of a run were compared with their checksum when they were read; others are with their hash. */
function isWhole({ payloadBound, wireHash }: QueueRow, wire: Buffer): boolean {
  return payloadBound !== undefined || hasHash(wire, wireHash);
}

interface EncodedPage {
  /** The bytes that are sent. */
  bytes: Buffer;
  /** Gives the memory of the bytes back, when they have been sent. */
  release?(this: void): void;
}

interface Slice extends EncodedPage {
  /** The last row that was dealt with. */
  lastSeq: number | undefined;
  /** True when the slice ends before a row that was lost. */
  isCut: boolean;
}

/**
 * Returns those against whom a page counts: the host alone has a fixed share, the others weigh when there is no room.
 */
function holdersOf({ caller, clientAddress }: PageRequest): Holder[] {
  const { hostPubkey, account } = caller;
  const holders: Holder[] = [
    { kind: 'key', name: hostPubkey, bytesMax: PAGES_SHARE_BYTES },
    { kind: 'address', name: clientAddress },
  ];
  return account === null ? holders : [...holders, { kind: 'account', name: account }];
}

function wireBytes(rows: readonly QueueRow[]): number {
  let bytes = 0;
  for (const row of rows) bytes += row.bytes;
  return bytes;
}

/** About: as base64, and as text no more. */
function encodedBytes(rows: readonly QueueRow[]): number {
  return wireBytes(rows) * (4 / 3);
}

/** A small page holds less than a large one. */
function heldAtMost(rows: readonly QueueRow[]): number {
  return Math.min(4 * wireBytes(rows), PAGE_HELD_BYTES_MAX);
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

/** Bytes that requests and pages under way may hold in memory, all together. Small ones have room of their own. */
export interface HeldBytes {
  bodies: number;
  /** Bodies of up to 64 KiB. */
  smallBodies: number;
  pages: number;
  /** Pages of up to 64 KiB of wire bytes. */
  smallPages: number;
}

export const HELD_BYTES: HeldBytes = {
  bodies: 56 << 20,
  smallBodies: 8 << 20,
  pages: 112 << 20,
  smallPages: 16 << 20,
};

export interface PageEncoder {
  readonly headers: Readonly<Record<string, string>>;
  /** The next items, in order; what is written before the first of them is in front. */
  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer;
  /** The texts that `items` writes around wire bytes of these lengths; absent where only `items` can write them. */
  texts?(rows: readonly QueueRow[], lengths: readonly number[]): TextsAround;
  /** The next items were written, by these texts. */
  wrote?(): void;
  end(lastSeq: number, more: boolean): Buffer;
}
