/** A conversation in a list, on one line: who wrote, the newest subject, how it goes on, its marks, and the time. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { FullSummary } from '../../host/contract/usual-mail.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { printable } from '../../protocol/printable.ts';
import { Untrusted } from '../shared/components.ts';
import { countText, shortTime, time } from '../shared/format.ts';
import { focusItem } from './keys.ts';
import { perform } from './actions.ts';
import { type ListedConversation, messageHref, shortAddress } from './state.ts';

/** The most names of senders that a row shows. */
const SENDERS_SHOWN = 3;

export function ConversationRow({ conversation }: { conversation: ListedConversation }): VNode {
  const { newest, preview, messages, unread, not_done: notDone, needs_reply: needsReply } = conversation;
  const { message_id, thread, subject, stored_at } = newest;
  const storedAtMs = timeMsOf(stored_at);
  const isUnread = unread.length > 0;
  return html`<li class=${isUnread ? 'mail mail-unread' : 'mail'} data-item=${thread}>
    <a class="mail-link" href=${messageHref(message_id)}>
      <span class="mail-from"
        >${isUnread && html`<span class="unseen">Unread, from </span>`}<${Senders} conversation=${conversation} />${
          messages > 1 && html` <span class="mail-count">${messages}<span class="unseen"> messages</span></span>`
        }</span
      >
      <span class="mail-text"
        ><span class="mail-subject"><${Untrusted} text=${subject} /></span>${
          preview !== '' && html` <span class="mail-preview"><${Untrusted} text=${preview} /></span>`
        }</span
      >
      <span class="mail-facts"
        ><${Marks} message=${{ ...newest, needs_reply: needsReply }} /> <time
          datetime=${stored_at}
          title=${time(storedAtMs)}
          >${shortTime(storedAtMs, Date.now())}</time
        ></span
      >
    </a>
    <span class="mail-actions">
      ${
        isUnread &&
        html`<button
          type="button"
          class="quiet"
          aria-label="Mark read: ${printable(subject)}"
          aria-keyshortcuts="m"
          onClick=${() => actOnConversation(conversation, 'mark_read')}
        >
          Mark read
        </button>`
      }
      ${
        notDone.length > 0 &&
        html`<button
          type="button"
          class="quiet"
          aria-label="Done: ${printable(subject)}"
          aria-keyshortcuts="e"
          title="Acknowledges it: its sender sees that you dealt with it"
          onClick=${() => actOnConversation(conversation, 'ack')}
        >
          Done
        </button>`
      }
    </span>
  </li>`;
}

/** Acts on the whole conversation. The focus goes on to the next row, because this one may leave the list. */
function actOnConversation({ newest, unread, not_done: notDone }: ListedConversation, type: 'mark_read' | 'ack'): void {
  const row = document.querySelector<HTMLElement>(`main [data-item="${CSS.escape(newest.thread)}"]`);
  const hadFocus = row?.contains(document.activeElement) ?? false;
  const next = row?.nextElementSibling ?? row?.previousElementSibling;
  const messageIds = type === 'ack' ? notDone : unread;
  const what = messageIds.length === 1 ? '' : ` (${countText(messageIds.length, 'message')})`;
  const text = type === 'ack' ? `Done${what}.` : `Marked read${what}.`;
  perform({ type, messageIds, unread: unread.length, text });
  if (hadFocus && next instanceof HTMLElement) focusItem(next);
}

function Senders({ conversation: { senders } }: { conversation: ListedConversation }): (VNode | string)[] {
  // The last writer matters most.
  const shown = senders.slice(-SENDERS_SHOWN);
  const names = shown.flatMap((address, at) => [
    at > 0 ? ', ' : '',
    html`<${Untrusted} text=${shortAddress(address)} />`,
  ]);
  return senders.length > shown.length ? ['… ', ...names] : names;
}

/** The kind and flags of a message; a plain message has no mark. */
export function Marks({ message }: { message: FullSummary }): VNode {
  const { kind, needs_reply, origin, state, forwarded_from } = message;
  return html`
    ${kind !== 'message' && html`<span class="mark mark-${kind}">${kind}</span>`}
    ${needs_reply && html` <span class="mark mark-waiting">needs a reply</span>`}
    ${
      origin === 'external' &&
      html` <span class="mark mark-lost" title="From outside: a web page, an issue, an e-mail">external</span>`
    }
    ${state === 'acked' && html` <span class="mark mark-acked">done</span>`}
    ${forwarded_from !== null && html` <span class="mark">for <${Untrusted} text=${forwarded_from} /></span>`}
  `;
}
