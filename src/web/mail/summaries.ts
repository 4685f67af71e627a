/** A list of messages, each with its actions. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { MessageSummary } from '../../host/api/schemas/mail.ts';
import { ErrorBoundary, Time, Untrusted } from '../shared/components.ts';
import { printable } from '../../protocol/printable.ts';
import { mark, messageHref } from './state.ts';

interface SummariesProps {
  summaries: readonly MessageSummary[];
  /** The text when there is none. */
  none: string;
}

export function Summaries({ summaries, none }: SummariesProps): VNode {
  if (summaries.length === 0) return html`<p class="none">${none}</p>`;
  return html`<ul class="mails" aria-label="Messages">
    ${summaries.map(
      (summary) =>
        html`<${ErrorBoundary} key=${summary.message_id} what="A message"><${Summary} summary=${summary} /></${ErrorBoundary}>`,
    )}
  </ul>`;
}

function Summary({ summary }: { summary: MessageSummary }): VNode {
  const { message_id, from, subject, state, stored_at } = summary;
  const isUnread = state === 'unread';
  return html`<li class=${isUnread ? 'mail mail-unread' : 'mail'}>
    <a class="mail-link" href=${messageHref(message_id)}>
      <span class="mail-from"
        >${isUnread && html`<span class="unseen">Unread, from </span>`}<${Untrusted} text=${from}
      /></span>
      <span class="mail-subject"><${Untrusted} text=${subject} /></span>
    </a>
    <span class="mail-facts"><${Marks} message=${summary} /> <${Time} at=${stored_at} /></span>
    <span class="mail-actions">
      ${
        isUnread &&
        html`<button
          type="button"
          class="quiet"
          aria-label="Mark read: ${printable(subject)}"
          onClick=${() => void mark('mark_read', [message_id])}
        >
          Mark read
        </button>`
      }
      ${
        (isUnread || state === 'read') &&
        html`<button
          type="button"
          class="quiet"
          aria-label="Done: ${printable(subject)}"
          title="Acknowledges the message: its sender sees that you dealt with it"
          onClick=${() => void mark('ack', [message_id])}
        >
          Done
        </button>`
      }
    </span>
  </li>`;
}

/** The kind and flags of a message. */
export function Marks({ message }: { message: MessageSummary }): VNode {
  const { kind, needs_reply, origin, state, forwarded_from } = message;
  return html`
    <span class="mark mark-${kind}">${kind}</span>
    ${needs_reply && html` <span class="mark mark-waiting">needs a reply</span>`}
    ${origin === 'external' && html` <span class="mark mark-lost" title="From outside: a web page, an issue, an e-mail">external</span>`}
    ${state === 'acked' && html` <span class="mark mark-acked">done</span>`}
    ${forwarded_from !== null && html` <span class="mark">for <${Untrusted} text=${forwarded_from} /></span>`}
  `;
}
