/** A conversation, the oldest message first. A message that is shown to its end is marked read. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { WholeMessage } from '../../host/api/schemas/mail.ts';
import { Each, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { Message } from './message.ts';
import { askInbox, mailChanges, mark, sentChanges } from './state.ts';

const READ_MAX = 20;

interface Shown {
  messages: readonly WholeMessage[];
  cursor: string | null;
}

export function Conversation({ messageId }: { messageId: string }): VNode {
  const [shown, setShown] = useState<Shown>();
  const [problem, setProblem] = useState('');
  const [isMissing, setMissing] = useState(false);
  const pages = useRef(1);
  const run = useRef(0);
  // What the owner sends belongs to it too.
  const changes = mailChanges.value + sentChanges.value;

  const load = async (): Promise<void> => {
    const mine = ++run.current;
    try {
      const found = await conversation(messageId, pages.current);
      if (mine !== run.current) return;
      setMissing(found.messages.length === 0);
      setShown(found);
      setProblem('');
      await markShown(found.messages);
    } catch (error) {
      const words = failed(error);
      if (mine === run.current) setProblem(words);
    }
  };
  useEffect(() => {
    void load();
    return () => void run.current++;
  }, [messageId, changes]);
  const isThere = shown !== undefined && !isMissing;
  useEffect(() => {
    if (!isThere) return;
    const article = document.querySelector<HTMLElement>('article.is-meant');
    // The first one stands below the heading of the page anyway.
    if (article && shown.messages[0]?.message_id !== messageId) article.scrollIntoView({ block: 'start' });
  }, [isThere]);

  const [first] = shown?.messages ?? [];
  return html`<p><a href="#/">Back to the inbox</a></p>
    <h1 tabindex="-1">${first ? html`<${Words} text=${first.subject} />` : 'Message'}</h1>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    ${!shown && !problem && html`<p class="none">Opening the conversation…</p>`}
    ${isMissing && html`<p class="none">No message of your mailbox has this id; it may have been kept long enough.</p>`}
    ${shown?.messages.map(
      (message) =>
        html`<${Each} key=${message.message_id} what="A message of this conversation">
          <${Message} message=${message} isMeant=${message.message_id === messageId} isFirst=${message === first} />
        </${Each}>`,
    )}
    ${
      shown && shown.cursor !== null
        ? html`<p class="actions">
            <button
              type="button"
              onClick=${() => {
                pages.current++;
                void load();
              }}
            >
              Show later messages
            </button>
          </p>`
        : null
    }`;
}

async function conversation(thread: string, pages: number): Promise<Shown> {
  const messages: WholeMessage[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pages && (page === 0 || cursor !== null); page++) {
    const result = await askInbox({ action: 'thread', thread, ...(cursor !== null && { cursor }) });
    messages.push(...(result.messages ?? []));
    cursor = result.next_cursor;
  }
  return { messages, cursor };
}

async function markShown(messages: readonly WholeMessage[]): Promise<void> {
  const ids = messages
    .filter(({ state, next_body_offset }) => state === 'unread' && next_body_offset === null)
    .map(({ message_id }) => message_id);
  for (let at = 0; at < ids.length; at += READ_MAX) await mark('mark_read', ids.slice(at, at + READ_MAX));
}
