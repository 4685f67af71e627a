/** The owner's sent messages, the newest first, with the state of each recipient. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { SentMessage, SentResult } from '../../host/api/schemas/mail.ts';
import { act } from '../shared/api.ts';
import { Each, StateMark, Time, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { deliveryPlace, sentChanges } from './state.ts';

const PAGE_MESSAGES = 50;
const REFRESHED_MAX = 100;
const RECIPIENTS_SHOWN = 5;

export function Sent(): VNode {
  const [messages, setMessages] = useState<readonly SentMessage[]>();
  const [cursor, setCursor] = useState<string | null>(null);
  const [problem, setProblem] = useState('');
  const run = useRef(0);
  const changes = sentChanges.value;
  const load = async (after: string | null): Promise<void> => {
    const mine = ++run.current;
    const shown = messages ?? [];
    const limit = after === null ? Math.min(REFRESHED_MAX, Math.max(PAGE_MESSAGES, shown.length)) : PAGE_MESSAGES;
    try {
      const found = await act<SentResult>('mail-sent', { limit, ...(after !== null && { cursor: after }) });
      if (mine !== run.current) return;
      setMessages(after === null ? found.messages : [...shown, ...found.messages]);
      setCursor(found.next_cursor);
      setProblem('');
    } catch (error) {
      const words = failed(error);
      if (mine === run.current) setProblem(words);
    }
  };
  useEffect(() => {
    void load(null);
    return () => void run.current++;
  }, [changes]);
  return html`<h1 tabindex="-1">Sent</h1>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    ${!messages && !problem && html`<p class="none">Looking for what you sent…</p>`}
    ${
      messages &&
      html`<section class="panel" aria-label="Sent messages">
        ${messages.length === 0 && html`<p class="none">You have sent nothing yet.</p>`}
        <ul class="mails" aria-label="Messages">
          ${messages.map(
            (message) =>
              html`<${Each} key=${message.message_id} what="A message"><${SentLine} message=${message} /></${Each}>`,
          )}
        </ul>
        ${
          cursor !== null &&
          html`<p class="actions"><button type="button" onClick=${() => void load(cursor)}>Show older</button></p>`
        }
      </section>`
    }`;
}

function SentLine({ message }: { message: SentMessage }): VNode {
  const { message_id, subject, kind, created_at, recipients } = message;
  const shown = recipients.slice(0, RECIPIENTS_SHOWN);
  return html`<li class="mail">
    <a class="mail-link" href=${deliveryPlace(message_id)}><span class="mail-subject"><${Words} text=${subject} /></span></a>
    <span class="mail-facts"><span class="mark mark-${kind}">${kind}</span> <${Time} at=${created_at} /></span>
    <ul class="reached" aria-label="Recipients">
      ${shown.map(
        ({ recipient, state }) => html`<li><${Words} text=${recipient} /> <${StateMark} state=${state} /></li>`,
      )}
      ${recipients.length > shown.length && html`<li>and ${recipients.length - shown.length} more</li>`}
    </ul>
  </li>`;
}
