/**
 * Finds the messages of a mailbox that a query means, the newest first. The index of words and the rows of states
 * propose messages (what the index does not have yet is read), and each is compared with the query itself.
 *
 * One answer reads a bounded number of messages and of rows of the index; then its cursor goes on from there, and its
 * page is not full. That comes to pass only before the index is whole, where the index proposes much that is not meant,
 * and where a query has many short words.
 *
 * An answer is of one moment, that of its reader, and gives the event loop back after each time slice.
 */
import { type MailQuery, emptyQuery, isInState, isMeantBy, parseMailQuery } from '../core/mail-query.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, EntryRow, MessageRow } from '../core/rows.ts';
import { SEARCH_LIMIT_DEFAULT } from '../contract/limits.ts';
import type { MessageSummary, SearchInput, SearchResult } from '../contract/mail.ts';
import { TERM_CHARACTERS_MAX, type Term } from '../core/words.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { badInput } from '../contract/parse-input.ts';
import type { Reader } from '../store/host-store.ts';
import { cursorOf, messageSummary, parseCursor } from './inbox-pages.ts';
import { isOwed } from '../mailbox/debts.ts';
import { mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { BLOCK_POSITIONS, blockAt, placesSet, placesWith, wordBlockOf } from '../mailbox/word-blocks.ts';
import type { HostContext } from '../base/context.ts';
import { TimeSlice } from '../../lib/clock.ts';

/** One answer reads so much. */
export const SEARCH_MESSAGES_MAX = 2000;
export const SEARCH_BYTES_MAX = 8 << 20;
const ACTION = 'search';
/** For each message that it may read, it reads so many rows of the index. */
const INDEX_ROWS = 2;
/** So many keys are read at once. */
const KEYS_AT_ONCE = 128;
/** Where the index leaves so many of a block, their state is looked at, and not the table of the state. */
const FEW_PLACES = 4;

/** Refuses `BAD_INPUT` and `NO_SUCH_AGENT`. Marks nothing. */
export async function searchMail(
  context: HostContext,
  agentId: AgentId,
  { text, limit = SEARCH_LIMIT_DEFAULT, cursor }: SearchInput,
): Promise<SearchResult | Refusal> {
  const query = queryOf('text', text);
  if (isRefusal(query)) return query;
  const before = cursor === undefined ? undefined : parseCursor(ACTION, cursor);
  if (isRefusal(before)) return before;
  return context.store.read<SearchResult | Refusal>(async (reader) => {
    const absent = refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const { found, next } = await foundPage(new MailLook(context, reader, agentId, query), { before, limit });
    const summaries: MessageSummary[] = found.map(({ message, entry }) => messageSummary(message, entry));
    return { notice: UNTRUSTED_NOTICE, summaries, next_cursor: next === null ? null : cursorOf(ACTION, next) };
  });
}

/** The query of a text, which stands in this member of the input; without a text the one that means everything. */
export function queryOf(field: string, text: string | undefined): MailQuery | Refusal {
  const query = text === undefined ? emptyQuery() : parseMailQuery(text);
  return typeof query === 'string' ? badInput(field, query) : query;
}

export interface FoundMessage {
  position: number;
  entry: EntryRow;
  message: MessageRow;
}

/**
 * The newest messages that are meant, and the position that the next page is `before`; null when there is none.
 * `isListed` says what the page shows already.
 */
export async function foundPage(
  look: MailLook,
  { before, limit }: { before: number | undefined; limit: number },
  isListed: (found: FoundMessage) => boolean | Promise<boolean> = () => false,
): Promise<{ found: FoundMessage[]; next: number | null }> {
  const found: FoundMessage[] = [];
  for await (const one of look.messages(before)) {
    if (await isListed(one)) continue;
    if (found.length === limit) return { found, next: one.position + 1 };
    found.push(one);
  }
  return { found, next: look.endedBefore };
}

/** Higher for a term that fewer messages have. */
function rank({ text, isPrefix }: Term): number {
  return text.length - (isPrefix ? TERM_CHARACTERS_MAX : 0);
}

/** One answer's look at a mailbox for messages that are meant. Counts what it reads. */
export class MailLook {
  readonly reader: Reader;
  readonly agentId: AgentId;
  readonly #query: MailQuery;
  /** The terms that few messages have come first: where none is left, the others are not looked for. */
  readonly #terms: readonly Term[];
  readonly #messagesMax: number;
  readonly #slice: TimeSlice;
  #read = 0;
  #bytes = 0;
  #rows = 0;
  /** Set when it read as much as one may: what is before this position was not looked at. */
  endedBefore: number | null = null;

  constructor(
    context: Pick<HostContext, 'monotonicMs'>,
    reader: Reader,
    agentId: AgentId,
    query: MailQuery,
    messagesMax = SEARCH_MESSAGES_MAX,
  ) {
    this.#slice = new TimeSlice(context.monotonicMs);
    this.reader = reader;
    this.agentId = agentId;
    this.#query = query;
    const different = new Map(query.terms.map((term) => [`${term.isPrefix} ${term.text}`, term]));
    this.#terms = [...different.values()].toSorted((a, b) => rank(b) - rank(a));
    this.#messagesMax = messagesMax;
  }

  /** Finds the messages that are meant, the newest first, from before a position on. */
  async *messages(before = Number.MAX_SAFE_INTEGER): AsyncGenerator<FoundMessage> {
    for await (const position of this.#propose(before)) {
      if (this.#read >= this.#messagesMax || this.#bytes >= SEARCH_BYTES_MAX) {
        this.endedBefore = position + 1;
        return;
      }
      if (this.#slice.isOver) await this.#slice.pause();
      const found = this.#at(position);
      if (found && this.isMeant(found)) yield found;
    }
  }

  /**
   * Says whether a message of the same conversation is meant that stands at `position` or later. It reads once more as
   * much as an answer may: a conversation that is longer may be in two pages.
   */
  async isMeantFrom({ thread }: EntryRow, position: number): Promise<boolean> {
    const { reader, agentId } = this;
    const readMax = this.#read + this.#messagesMax;
    for await (const { key } of reader.range('threadEntry', [agentId, thread], { from: [agentId, thread, position] })) {
      if (this.#read >= readMax || this.#bytes >= 2 * SEARCH_BYTES_MAX) return false;
      if (this.#slice.isOver) await this.#slice.pause();
      const found = this.#at(key[2]);
      if (found && this.isMeant(found)) return true;
    }
    return false;
  }

  isMeant({ position, entry, message }: FoundMessage): boolean {
    const { state, needsReply, sinceMs, untilMs } = this.#query;
    if (!isInState(entry, state) || entry.storedAtMs < sinceMs || entry.storedAtMs >= untilMs) return false;
    if (needsReply !== undefined && needsReply !== isOwed(this.reader, this.agentId, position)) return false;
    return isMeantBy(this.#query, message, () => {
      this.#bytes += message.bodyBytes;
      return this.reader.get('body', message.ref) ?? '';
    });
  }

  /** Says whether it read as much of the index as one answer may. */
  get #hasReadIndex(): boolean {
    return this.#rows >= INDEX_ROWS * this.#messagesMax;
  }

  #at(position: number): FoundMessage | undefined {
    const entry = this.reader.get('entry', this.agentId, position);
    if (!entry) return undefined;
    const message = this.reader.get('message', entry.ref);
    if (!message) throw new Error('invariant: what is in a mailbox or a thread is kept');
    this.#read++;
    return { position, entry, message };
  }

  /**
   * The positions of all that may be meant, the last one first: what the index has for the terms; and where that is
   * much, or the block is not in the index, what the shortest table of a state that is asked for has.
   */
  async *#propose(before: number): AsyncGenerator<number> {
    const { reader, agentId } = this;
    const { state, needsReply, sinceMs, untilMs } = this.#query;
    const table =
      needsReply === true ? 'owed' : ({ unread: 'unread', unacked: 'unacked', all: 'entry' } as const)[state];
    const isNarrow = this.#terms.length > 0 || sinceMs > 0 || untilMs < Number.POSITIVE_INFINITY;
    let known: { block: number; places: Uint8Array | undefined } | undefined;
    const placesIn = (block: number): Uint8Array | undefined => {
      if (known?.block !== block) known = { block, places: this.#placesIn(block) };
      return known.places;
    };
    const { nextPosition } = mailboxOf(reader, agentId);
    for (let end = Math.min(before, nextPosition); end > 0; ) {
      if (this.#hasReadIndex) {
        this.endedBefore = end;
        return;
      }
      if (this.#slice.isOver) await this.#slice.pause();
      const begin = blockAt(end - 1) * BLOCK_POSITIONS;
      const places = isNarrow ? placesIn(blockAt(end - 1)) : undefined;
      const few = places && placesSet(places.subarray(0, end - begin));
      if (few && (table === 'entry' || few.length <= FEW_PLACES)) {
        for (const place of few) yield begin + place;
        end = begin;
      } else {
        const until: [AgentId, number] = [agentId, end];
        const keys = await reader.keys(table, [agentId], { until, reverse: true, limit: KEYS_AT_ONCE });
        for (const [, position] of keys) {
          if (blockAt(position) !== known?.block) {
            if (this.#hasReadIndex) {
              this.endedBefore = position + 1;
              return;
            }
            if (this.#slice.isOver) await this.#slice.pause();
          }
          const isProposed = !isNarrow || (placesIn(blockAt(position))?.[position % BLOCK_POSITIONS] ?? 1) === 1;
          if (isProposed) yield position;
        }
        end = keys.at(-1)?.[1] ?? 0;
      }
    }
  }

  /** Undefined when the block is not in the index. */
  #placesIn(block: number): Uint8Array | undefined {
    const { sinceMs, untilMs } = this.#query;
    this.#rows++;
    const row = wordBlockOf(this.reader, this.agentId, block);
    if (!row) return undefined;
    if (row.untilMs < sinceMs || row.sinceMs >= untilMs) return new Uint8Array(BLOCK_POSITIONS);
    return placesWith(row, this.#terms, (at) => {
      this.#rows++;
      const chunk = this.reader.get('wordChunk', this.agentId, block, at);
      if (!chunk) throw new Error('invariant: a block has its chunks');
      return chunk;
    });
  }
}
