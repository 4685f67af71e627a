/** A conversation, the oldest message first. A message that is shown to its end is marked read. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import type { FullMessage } from '../../host/contract/usual-mail.ts';
import { ErrorBoundary, Untrusted, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { Message } from './message.ts';
import { failureText, notice } from '../shared/session.ts';
import { isReturning } from '../shared/place.ts';
import { BackLink } from './back-link.ts';
import { askInbox, mailChanges, sentChanges } from './state.ts';

const READ_MAX = 20;
/** The pages that are loaded to come to the message that was opened. */
const PAGES_MAX = 20;

interface ShownMessages {
  messages: readonly FullMessage[];
  cursor: string | null;
  /** The pages that were asked for; Infinity: all. */
  pages: number;
}

export function Conversation({ messageId }: { messageId: string }): VNode {
  /** The place that the owner asked to see, until it is loaded: the focus goes there. */
  const goTo = useRef<'newest' | number | undefined>(undefined);
  const isAll = useRef(false);
  const load = (last: ShownMessages | undefined, isMore: boolean): Promise<ShownMessages> =>
    conversation(messageId, isAll.current ? Infinity : (last?.pages ?? 1) + (isMore ? 1 : 0));
  // The owner's replies belong to the conversation, too.
  const changes = mailChanges.value + sentChanges.value;
  const {
    value: shown,
    problem,
    loadMore,
  } = useLoaded(load, [messageId], {
    changes,
    keptAs: `message ${messageId}`,
  });
  useEffect(() => void (shown && markShown(shown.messages)), [shown]);
  const isMissing = shown?.messages.length === 0;
  const isThere = shown !== undefined && !isMissing;
  useEffect(() => {
    if (!isThere) return;
    const article = document.querySelector<HTMLElement>('article.is-meant');
    // The first message is below the heading of the page anyway.
    if (article && !isReturning() && shown.messages[0]?.message_id !== messageId)
      article.scrollIntoView({ block: 'start' });
  }, [isThere]);

  useEffect(() => {
    if (goTo.current === undefined || !shown) return;
    const isToCome = goTo.current === 'newest' || shown.messages.length <= goTo.current;
    // The messages of an earlier request are shown just now.
    if (isToCome && shown.cursor !== null) return;
    const at = goTo.current === 'newest' ? -1 : goTo.current;
    const article = [...document.querySelectorAll<HTMLElement>('main article')].at(at);
    goTo.current = undefined;
    article?.scrollIntoView({ block: 'start' });
    article?.focus({ preventScroll: true });
  }, [shown]);
  const showMore = (all: boolean): void => {
    isAll.current ||= all;
    goTo.current = all ? 'newest' : shown?.messages.length;
    void loadMore();
  };

  const [first] = shown?.messages ?? [];
  const standing = shown?.messages.findLast(({ state }) => state !== 'sent') ?? shown?.messages.at(-1);
  return html`<${BackLink} />
    <h1 tabindex="-1">${first ? html`<${Untrusted} text=${first.subject} />` : 'Message'}</h1>
    <${Warning} text=${problem} />
    ${!shown && !problem && html`<p class="none">Opening the conversation…</p>`}
    ${isMissing && html`<p class="none">Your mailbox has no message with this id; its retention may have ended.</p>`}
    ${shown?.messages.map(
      (message) =>
        html`<${ErrorBoundary} key=${message.message_id} what="A message of this conversation">
          <${Message}
            message=${message}
            isMeant=${message.message_id === messageId}
            isFirst=${message === first}
            isStanding=${message === standing}
          />
        </${ErrorBoundary}>`,
    )}
    ${
      shown && shown.cursor !== null
        ? html`<p class="actions">
            <button type="button" data-more onClick=${() => showMore(false)}>Show later messages</button>
            <button type="button" onClick=${() => showMore(true)}>Show all, go to the newest</button>
          </p>`
        : null
    }`;
}

async function conversation(thread: string, pages: number): Promise<ShownMessages> {
  const messages: FullMessage[] = [];
  let cursor: string | null = null;
  const isThere = (): boolean => messages.some(({ message_id }) => message_id === thread);
  for (let page = 0; page < pages || (page < PAGES_MAX && !isThere()); page++) {
    if (page > 0 && cursor === null) break;
    const result = await askInbox({ action: 'thread', thread, ...(cursor !== null && { cursor }) });
    messages.push(...result.messages);
    cursor = result.cursor;
  }
  return { messages, cursor, pages };
}

async function markShown(messages: readonly FullMessage[]): Promise<void> {
  const ids = messages
    .filter(({ state, next_body_offset }) => state === 'unread' && next_body_offset === null)
    .map(({ message_id }) => message_id);
  try {
    for (let at = 0; at < ids.length; at += READ_MAX) {
      await askInbox({ action: 'mark_read', message_ids: ids.slice(at, at + READ_MAX) });
    }
  } catch (error) {
    notice.value = failureText(error);
  }
}
