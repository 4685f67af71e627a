/** The mailbox as a list of conversations, newest first: unread, not done or all, narrowed by filters and search. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConversationsInput, ConversationsResult } from '../../host/contract/owner-page.ts';
import type { MessageKind } from '../../host/core/rows.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { ErrorBoundary, Warning } from '../shared/components.ts';
import { countText, time } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { perform, shownConversation, shownUnread } from './actions.ts';
import { ConversationRow } from './conversation-row.ts';
import { FILTERED_NOTHING, type Filters, InboxFilters, isFiltered, shownState } from './inbox-filters.ts';
import { focusItem } from './keys.ts';
import {
  type ListedConversation,
  PAGE_MESSAGES,
  askConversations,
  mailChanges,
  people,
  reloadLimit,
  unread,
} from './state.ts';

/** A search starts after a pause in typing of this length. */
const TYPING_MS = 250;

interface Shown {
  conversations: readonly ListedConversation[];
  /** The filters that they were asked for with. */
  filters: Filters;
  /** Stands for the newest message, for marking everything read. */
  through: number;
  /** The number of messages of the mailbox, and how many of them are unread. */
  total: number;
  unread: number;
  /** The cursor of the next page; null at the end. */
  cursor: string | null;
  /** The time to which this went back; 0 at the end. */
  backTo: number;
  /** The same as a text. */
  lookedBack: string;
}

/** Kept while the page is open, so that the way back from a conversation leads to the same list and row. */
const kept: { filters: Filters; opened: string | undefined } = { filters: FILTERED_NOTHING, opened: undefined };

export function Inbox(): VNode {
  const [filters, setFilters] = useState(kept.filters);
  kept.filters = filters;
  const isSearch = filters.text.trim() !== '';
  const load = (last: Shown | undefined, isMore: boolean): Promise<Shown> => loaded(filters, last, isMore);
  const when = { changes: mailChanges.value, delayMs: isSearch ? TYPING_MS : 0 };
  const { value, problem, isBusy, loadMore } = useLoaded(load, [filters], when);
  // Only the latest answer counts: answers may come in another order than they were asked for.
  useEffect(() => {
    if (value) unread.value = value.unread;
  }, [value]);
  useBackToRow(value !== undefined);
  const shown = value?.conversations.map(shownConversation).filter((one) => isListed(one, value.filters)) ?? [];
  // Of a narrowed list only the message by which a conversation stands there is surely meant.
  const isNarrowed = value !== undefined && isFiltered(value.filters);
  const unreadIds = shown.flatMap(({ unread: ids, newest }) =>
    isNarrowed ? ids.filter((id) => id === newest.message_id) : ids,
  );
  // Not while the list is still that of the filters before.
  const canReadAll = shownUnread.value > 0 && value?.filters === filters;
  const readAll = (): void => {
    if (!value) return;
    const all = { ...narrowing(value.filters), through: value.through };
    const meant = isFiltered(value.filters) ? unreadIds.length : shownUnread.value;
    perform({ type: 'read_all', messageIds: unreadIds, unread: meant, text: 'All marked read.', all });
    document.querySelector<HTMLElement>('main h1')?.focus();
  };

  return html`<${InboxFilters} filters=${filters} change=${setFilters}
      ><button type="button" disabled=${!canReadAll} onClick=${readAll}>Mark all read</button></${InboxFilters}
    >
    <${Warning} text=${problem} />
    ${!value && !problem && html`<p class="none">Opening the mailbox…</p>`}
    ${
      value &&
      (isSearch || (isFiltered(filters) && value.cursor !== null)) &&
      html`<p class="note" role="status">${value.lookedBack}</p>`
    }
    ${
      value &&
      html`<section class="panel list" aria-label=${isSearch ? 'Found' : 'Conversations'}>
        ${
          shown.length === 0 &&
          html`<${EmptyInbox} filters=${filters} total=${value.total} isWhole=${value.cursor === null}
            change=${setFilters} />`
        }
        <${Rows} conversations=${shown} />
        ${
          value.cursor !== null &&
          html`<p class="actions">
            <button type="button" data-more disabled=${isBusy} onClick=${() => void loadMore()}>
              ${isFiltered(filters) ? 'Search further back' : 'Show older'}
            </button>
          </p>`
        }
      </section>`
    }`;
}

function Rows({ conversations }: { conversations: readonly ListedConversation[] }): VNode | null {
  // An element that is the same as before is not compared: a long list costs what is new in it.
  const rows = useRef(new WeakMap<ListedConversation, VNode>()).current;
  const rowOf = (conversation: ListedConversation): VNode => {
    const row = rows.get(conversation) ?? rowElement(conversation);
    rows.set(conversation, row);
    return row;
  };
  if (conversations.length === 0) return null;
  return html`<ul class="mails" aria-label="Conversations">${conversations.map(rowOf)}</ul>`;
}

function rowElement(conversation: ListedConversation): VNode {
  const { thread } = conversation.newest;
  return html`<${ErrorBoundary} key=${thread} what="A conversation"
    ><${ConversationRow} conversation=${conversation} opened=${() => (kept.opened = thread)}
  /></${ErrorBoundary}>`;
}

/** The focus goes to the conversation that the owner comes back from. */
function useBackToRow(isLoaded: boolean): void {
  useEffect(() => {
    if (!isLoaded || kept.opened === undefined) return;
    const row = document.querySelector<HTMLElement>(`main [data-item="${CSS.escape(kept.opened)}"]`);
    kept.opened = undefined;
    if (row && document.activeElement?.matches('body, h1')) focusItem(row);
  }, [isLoaded]);
}

/** Says whether the list still means the conversation, after what this page did with it. */
function isListed(conversation: ListedConversation, filters: Filters): boolean {
  const state = shownState(filters);
  if (filters.needsReply && conversation.not_done.length === 0) return false;
  if (state === 'all') return true;
  return state === 'unread' ? conversation.unread.length > 0 : conversation.not_done.length > 0;
}

function narrowing({ text, from, kind, needsReply }: Filters): Omit<ConversationsInput, 'state' | 'limit' | 'cursor'> {
  return {
    ...(text.trim() !== '' && { text: text.trim() }),
    ...(from !== '' && { from }),
    ...(kind !== '' && { kind: kind as MessageKind }),
    ...(needsReply && { needs_reply: true }),
  };
}

/** A page more, or the newest ones again: what is older than those stays as it was loaded. */
async function loaded(filters: Filters, last: Shown | undefined, isMore: boolean): Promise<Shown> {
  const before = last?.filters === filters ? last : undefined;
  const cursor = isMore ? before?.cursor : undefined;
  const limit = isMore ? PAGE_MESSAGES : reloadLimit(before?.conversations.length ?? 0);
  const input = { ...narrowing(filters), state: shownState(filters), limit, ...(cursor && { cursor }) };
  const found = await askConversations(input);
  const older = isMore || found.next_cursor === null ? [] : behind(found.conversations, before?.conversations ?? []);
  const parts = isMore ? [before?.conversations ?? [], found.conversations] : [found.conversations, older];
  const backTo = backToOf(found);
  // What was looked for further back and not found is not looked for again.
  const isFurther = !isMore && before !== undefined && (older.length > 0 || before.backTo < backTo);
  const byThread = new Map<string, ListedConversation>();
  for (const one of parts.flat()) if (!byThread.has(one.newest.thread)) byThread.set(one.newest.thread, one);
  return {
    conversations: [...byThread.values()],
    filters,
    through: isMore && before ? before.through : found.through,
    total: found.total,
    unread: found.unread,
    ...(isFurther
      ? { cursor: before.cursor, backTo: before.backTo, lookedBack: before.lookedBack }
      : { cursor: found.next_cursor, backTo, lookedBack: lookedBack(found) }),
  };
}

/** Returns what was loaded behind the last conversation of `newest`. */
function behind(
  newest: readonly ListedConversation[],
  loadedBefore: readonly ListedConversation[],
): readonly ListedConversation[] {
  const last = newest.at(-1)?.newest.thread;
  const at = loadedBefore.findIndex((one) => one.newest.thread === last);
  return at === -1 ? loadedBefore.slice(newest.length) : loadedBefore.slice(at + 1);
}

type LookedBack = Pick<ConversationsResult, 'next_cursor' | 'looked_back_to' | 'looked_at'>;

function backToOf({ next_cursor, looked_back_to }: LookedBack): number {
  return next_cursor === null || looked_back_to === null ? 0 : timeMsOf(looked_back_to);
}

function lookedBack({ next_cursor, looked_back_to, looked_at }: LookedBack): string {
  if (next_cursor === null || looked_back_to === null) return 'The whole mailbox was searched.';
  const backTo = time(timeMsOf(looked_back_to));
  return `It stopped after ${countText(looked_at, 'message')}, back to ${backTo}: older ones were not searched.`;
}

interface EmptyInboxProps {
  filters: Filters;
  /** The number of messages of the mailbox. */
  total: number;
  /** Says whether nothing older is left to look at. */
  isWhole: boolean;
  change: (filters: Filters) => void;
}

function EmptyInbox({ filters, total, isWhole, change }: EmptyInboxProps): VNode {
  if (total === 0) return html`<${NoMail} />`;
  if (isFiltered(filters)) {
    const clear = (): void => change({ ...FILTERED_NOTHING, state: filters.state });
    const wider = (): void => change({ ...filters, state: 'all' });
    return html`<div class="empty">
      <p>${isWhole ? 'No message matches.' : 'No message matches as far back as this looked.'}</p>
      <p class="actions">
        ${shownState(filters) !== 'all' && html`<button type="button" onClick=${wider}>Look in everything</button>`}
        <button type="button" onClick=${clear}>Clear search and filters</button>
      </p>
    </div>`;
  }
  return html`<div class="empty">
    <p>${filters.state === 'unread' ? 'Nothing is unread.' : 'Everything is done.'}</p>
    <p class="actions">
      <button type="button" onClick=${() => change({ ...FILTERED_NOTHING, state: 'all' })}>Show everything</button>
    </p>
  </div>`;
}

function NoMail(): VNode {
  const isAlone = people.value?.agents.length === 0;
  return html`<div class="empty">
    <p>No mail yet. Agents write to you as <code>owner</code>.</p>
    ${
      isAlone
        ? html`<p>No agent is set up on this host. This connects yours:</p>
            <pre><code>poste setup</code></pre>`
        : html`<p class="actions"><a class="button" href="#/compose">Write to an agent</a></p>`
    }
  </div>`;
}
