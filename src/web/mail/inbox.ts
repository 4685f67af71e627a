/** The mailbox as a list of conversations, newest first: unread, not done or all, narrowed by filters and search. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConversationsInput } from '../../host/contract/owner-page.ts';
import type { MessageKind } from '../../host/core/rows.ts';
import { ErrorBoundary, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { perform, shownConversation, shownUnread } from './actions.ts';
import { ConversationRow } from './conversation-row.ts';
import { FILTERED_NOTHING, type Filters, InboxFilters, isFiltered, shownState } from './inbox-filters.ts';
import {
  type ConversationsPage,
  type ListedConversation,
  PAGE_MESSAGES,
  askConversations,
  behind,
  mailChanges,
  people,
  reloadLimit,
  unread,
} from './state.ts';

/** A search starts after a pause in typing of this length. */
const TYPING_MS = 250;

interface ShownConversations {
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
}

/** The page keeps it while it is open, so that the way back from a conversation leads to the same list. */
const kept: { filters: Filters } = { filters: FILTERED_NOTHING };

export function Inbox(): VNode {
  const [filters, setFilters] = useState(kept.filters);
  kept.filters = filters;
  const isSearch = filters.text.trim() !== '';
  const load = (last: ShownConversations | undefined, isMore: boolean): Promise<ShownConversations> =>
    loadPage(filters, last, isMore);
  const when = { changes: mailChanges.value, delayMs: isSearch ? TYPING_MS : 0, keptAs: 'inbox' };
  const { value, problem, isBusy, loadMore } = useLoaded(load, [filters], when);
  // Only the latest answer counts: answers may come in another order than they were asked for.
  useEffect(() => {
    if (value) unread.value = value.unread;
  }, [value]);
  const shown = value?.conversations.map(shownConversation).filter((one) => isListed(one, value.filters)) ?? [];
  // Only the message by which a conversation stands in a narrowed list is surely meant.
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
      html`<section class="panel list" aria-label=${isSearch ? 'Found' : 'Conversations'}>
        ${shown.length === 0 && html`<${EmptyInbox} filters=${filters} total=${value.total} change=${setFilters} />`}
        <${Rows} conversations=${shown} />
        ${
          value.cursor !== null &&
          html`<p class="actions">
            <button type="button" data-more disabled=${isBusy} onClick=${() => void loadMore()}>
              Show older
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
    ><${ConversationRow} conversation=${conversation} /></${ErrorBoundary}>`;
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
async function loadPage(
  filters: Filters,
  last: ShownConversations | undefined,
  isMore: boolean,
): Promise<ShownConversations> {
  const before = last?.filters === filters ? last : undefined;
  const cursor = isMore ? before?.cursor : undefined;
  const limit = isMore ? PAGE_MESSAGES : reloadLimit(before?.conversations.length ?? 0);
  const found = await askPage(filters, limit, cursor ?? null);
  const older =
    isMore || found.next_cursor === null ? [] : behind(found.conversations, before?.conversations ?? [], threadOf);
  const parts = isMore ? [before?.conversations ?? [], found.conversations] : [found.conversations, older];
  const byThread = new Map<string, ListedConversation>();
  for (const one of parts.flat()) if (!byThread.has(one.newest.thread)) byThread.set(one.newest.thread, one);
  return {
    conversations: [...byThread.values()],
    filters,
    through: isMore && before ? before.through : found.through,
    total: found.total,
    unread: found.unread,
    cursor: before && older.length > 0 ? before.cursor : found.next_cursor,
  };
}

/** A full page, or all there is: an answer that read as much as one may is continued while these filters are shown. */
async function askPage(filters: Filters, limit: number, cursor: string | null): Promise<ConversationsPage> {
  const input = { ...narrowing(filters), state: shownState(filters) };
  const first = await askConversations({ ...input, limit, ...(cursor !== null && { cursor }) });
  const conversations = [...first.conversations];
  let next = first.next_cursor;
  while (next !== null && conversations.length < limit && kept.filters === filters) {
    const more = await askConversations({ ...input, limit: limit - conversations.length, cursor: next });
    conversations.push(...more.conversations);
    next = more.next_cursor;
  }
  // Mail that came meanwhile is not shown: it must not be marked read with the rest.
  return { ...first, conversations, next_cursor: next };
}

function threadOf({ newest }: ListedConversation): string {
  return newest.thread;
}

interface EmptyInboxProps {
  filters: Filters;
  /** The number of messages of the mailbox. */
  total: number;
  change: (filters: Filters) => void;
}

function EmptyInbox({ filters, total, change }: EmptyInboxProps): VNode {
  if (total === 0) return html`<${NoMail} />`;
  if (isFiltered(filters)) {
    const clear = (): void => change({ ...FILTERED_NOTHING, state: filters.state });
    const wider = (): void => change({ ...filters, state: 'all' });
    return html`<div class="empty">
      <p>No message matches.</p>
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
