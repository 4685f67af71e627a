/**
 * The index of words: of each block of 256 positions of a mailbox, which of its messages have which term. Rows of whole
 * blocks are few and are written in the order of their keys: one row per word and message would double what a message
 * costs. It is derived from the mail, and may be made again at any time.
 *
 * Invariants:
 *   - a block that has its row has all terms of all entries that it holds: entries never come into a full block;
 *   - an entry and the index of its block go in one transaction, so that no word stays behind its message.
 */
import { termsOfMessage } from '../core/mail-query.ts';
import type { AgentId, MessageRow } from '../core/rows.ts';
import type { Term, WordBlockRow, WordChunkRow } from '../core/words.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

/** A place in a block is one byte. */
export const BLOCK_POSITIONS = 256;
const CHUNK_TERMS = 128;
/** A block is made in memory and written at once: a message whose terms would be more is looked at for every query. */
export const BLOCK_TERMS_MAX = 65_536;
/** The rules that say what a term is. Count the number up when they change. Another Unicode has other letters. */
const RULES = `1, Unicode ${process.versions.unicode}`;

export function blockAt(position: number): number {
  return Math.floor(position / BLOCK_POSITIONS);
}

/** Collects the terms of the messages of one block. */
export class BlockWords {
  readonly agentId: AgentId;
  readonly block: number;
  readonly #places = new Map<string, number[]>();
  readonly #cut: number[] = [];
  #sinceMs = Number.POSITIVE_INFINITY;
  #untilMs = 0;
  messages = 0;

  constructor(agentId: AgentId, block: number) {
    this.agentId = agentId;
    this.block = block;
  }

  add(position: number, message: MessageRow, body: string, storedAtMs: number): void {
    const place = position % BLOCK_POSITIONS;
    const terms = termsOfMessage(message, body);
    if (!terms || this.#places.size + terms.size > BLOCK_TERMS_MAX) this.#cut.push(place);
    else this.#addTerms(terms, place);
    this.#sinceMs = Math.min(this.#sinceMs, storedAtMs);
    this.#untilMs = Math.max(this.#untilMs, storedAtMs);
    this.messages++;
  }

  #addTerms(terms: Iterable<string>, place: number): void {
    for (const term of terms) {
      const places = this.#places.get(term);
      if (places) places.push(place);
      else this.#places.set(term, [place]);
    }
  }

  put(tx: Transaction): void {
    const { agentId, block } = this;
    dropBlock(tx, agentId, block);
    const terms = [...this.#places.keys()].toSorted();
    const firsts: string[] = [];
    for (let at = 0; at < terms.length; at += CHUNK_TERMS) {
      const some = terms.slice(at, at + CHUNK_TERMS);
      tx.put('wordChunk', [agentId, block, firsts.length], { terms: some, places: this.#placesOf(some) });
      firsts.push(some[0] ?? '');
    }
    const times = { sinceMs: this.#sinceMs, untilMs: this.#untilMs };
    tx.put('wordBlock', [agentId, block], { rules: RULES, firsts, cut: Buffer.from(this.#cut), ...times });
  }

  #placesOf(terms: readonly string[]): Buffer {
    const lists = terms.map((term) => this.#places.get(term) ?? []);
    const bytes = Buffer.alloc(lists.reduce((sum, { length }) => sum + 1 + length, 0));
    let at = 0;
    for (const list of lists) {
      bytes[at++] = list.length - 1;
      for (const place of list) bytes[at++] = place;
    }
    return bytes;
  }
}

/** Returns undefined for a block that is not in the index, or by other rules: it is read, and made. */
export function wordBlockOf(reader: Reader, agentId: AgentId, block: number): WordBlockRow | undefined {
  const row = reader.get('wordBlock', agentId, block);
  return row?.rules === RULES ? row : undefined;
}

/** Removes the index of a block, if it has one. */
export function dropBlock(tx: Transaction, agentId: AgentId, block: number): void {
  const row = tx.get('wordBlock', agentId, block);
  if (!row) return;
  tx.delete('wordBlock', [agentId, block]);
  for (const chunk of row.firsts.keys()) tx.delete('wordChunk', [agentId, block, chunk]);
}

/** The places of a block, by their bytes: 1 for a message that may have all terms. `chunkAt` reads a chunk of it. */
export function placesWith(
  row: WordBlockRow,
  terms: readonly Term[],
  chunkAt: (chunk: number) => WordChunkRow,
): Uint8Array {
  const places = new Uint8Array(BLOCK_POSITIONS).fill(1);
  for (const term of terms) {
    const found = placesOf(row, term, chunkAt);
    for (let place = 0; place < BLOCK_POSITIONS; place++) if (found[place] === 0) places[place] = 0;
    if (!places.includes(1)) break;
  }
  return places;
}

/** The places that are set, the last one first. */
export function placesSet(places: Uint8Array): number[] {
  const set: number[] = [];
  for (let at = places.lastIndexOf(1); at >= 0; at = at === 0 ? -1 : places.lastIndexOf(1, at - 1)) set.push(at);
  return set;
}

function placesOf(
  { firsts, cut }: WordBlockRow,
  { text, isPrefix }: Term,
  chunkAt: (chunk: number) => WordChunkRow,
): Uint8Array {
  const places = new Uint8Array(BLOCK_POSITIONS);
  for (const place of cut) places[place] = 1;
  // The last chunk that does not begin behind it, and those behind that begin with it.
  const first = Math.max(
    0,
    firsts.findLastIndex((term) => term <= text),
  );
  for (let at = first; at < firsts.length; at++) {
    if (at > first && !(isPrefix && firsts[at]?.startsWith(text) === true)) break;
    const chunk = chunkAt(at);
    let from = 0;
    for (const term of chunk.terms) {
      const end = from + (chunk.places[from] ?? 0) + 2;
      if (isPrefix ? term.startsWith(text) : term === text)
        for (let place = from + 1; place < end; place++) places[chunk.places[place] ?? 0] = 1;
      from = end;
    }
  }
  return places;
}
