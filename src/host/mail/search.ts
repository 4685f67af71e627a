/**
 * Searches a mailbox for words, from the newest message back. There is no index: one answer searches a bounded part,
 * says how far it came, and its cursor continues from there. Marks nothing.
 */
import { isoSecond } from '../../protocol/time.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, MessageRow } from '../core/rows.ts';
import type { MessageSummary, SearchInput, SearchResult } from '../contract/mail.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { badInput } from '../contract/parse-input.ts';
import type { Reader } from '../store/host-store.ts';
import { cursorOf, parseCursor, summaryOf } from './inbox-pages.ts';
import { refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';

/** One answer searches so much. */
export const SEARCH_MESSAGES_MAX = 2000;
export const SEARCH_BYTES_MAX = 8 << 20;
const LIMIT_DEFAULT = 50;
const ACTION = 'search';

/** Refuses `BAD_INPUT` and `NO_SUCH_AGENT`. */
export async function searchMail(
  context: HostContext,
  agentId: AgentId,
  { text, limit = LIMIT_DEFAULT, cursor }: SearchInput,
): Promise<SearchResult | Refusal> {
  const words = wordsOf(text);
  if (words.length === 0) return badInput('text', 'holds no word');
  const before = cursor === undefined ? undefined : parseCursor(ACTION, cursor);
  if (isRefusal(before)) return before;
  return context.store.read<SearchResult | Refusal>(async (reader) => {
    const absent = refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const summaries: MessageSummary[] = [];
    const until = before === undefined ? {} : { until: [agentId, before] as [AgentId, number] };
    let searched = 0;
    let bytes = 0;
    let searchedBackTo: number | null = null;
    let last = 0;
    for await (const { key, row: entry } of reader.range('entry', [agentId], { reverse: true, ...until })) {
      if (searched === SEARCH_MESSAGES_MAX || bytes >= SEARCH_BYTES_MAX || summaries.length === limit) {
        return searchResult({ summaries, searched, searchedBackTo, next: cursorOf(ACTION, last) });
      }
      const message = reader.get('message', entry.ref);
      if (!message) throw new Error('invariant: what is in a mailbox is kept');
      if (hasAll(reader, message, words)) summaries.push(summaryOf(message, entry));
      searched++;
      bytes += message.bodyBytes;
      searchedBackTo = entry.storedAtMs;
      last = key[1];
    }
    return searchResult({ summaries, searched, searchedBackTo, next: null });
  });
}

interface SearchMatches {
  summaries: MessageSummary[];
  searched: number;
  searchedBackTo: number | null;
  next: string | null;
}

function searchResult({ summaries, searched, searchedBackTo, next }: SearchMatches): SearchResult {
  return {
    notice: UNTRUSTED_NOTICE,
    summaries,
    looked_at: searched,
    looked_back_to: searchedBackTo === null ? null : isoSecond(searchedBackTo),
    next_cursor: next,
  };
}

/** The words of a search, in the form in which they are compared. */
export function wordsOf(text: string): string[] {
  return foldText(text)
    .split(/\s+/u)
    .filter((word) => word !== '');
}

/** Says whether each of these words is in the sender, the subject or the body. */
export function hasAll(reader: Reader, { ref, from, subject }: MessageRow, words: readonly string[]): boolean {
  const head = foldText(`${from}\n${subject}`);
  const missing = words.filter((word) => !head.includes(word));
  if (missing.length === 0) return true;
  const body = foldText(reader.get('body', ref) ?? '');
  return missing.every((word) => body.includes(word));
}

function foldText(text: string): string {
  return text.normalize('NFC').toLowerCase();
}
