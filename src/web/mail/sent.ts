/** The owner's sent messages, the newest first, with the state of each recipient. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { SentMessage, SentResult } from '../../host/contract/mail.ts';
import { act } from '../shared/api.ts';
import { ErrorBoundary, StateMark, Time, Untrusted, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { PAGE_MESSAGES, deliveryHref, reloadLimit, sentChanges } from './state.ts';

const RECIPIENTS_SHOWN = 5;

export function Sent(): VNode {
  const { value, problem, loadMore } = useLoaded(list, [], { changes: sentChanges.value });
  return html`<h1 tabindex="-1">Sent</h1>
    <${Warning} text=${problem} />
    ${!value && !problem && html`<p class="none">Loading your sent messages…</p>`}
    ${
      value &&
      html`<section class="panel" aria-label="Sent messages">
        ${value.messages.length === 0 && html`<p class="none">You have sent nothing yet. <a href="#/compose">Write to an agent</a></p>`}
        <ul class="mails" aria-label="Messages">
          ${value.messages.map(
            (message) =>
              html`<${ErrorBoundary} key=${message.message_id} what="A message"><${SentLine} message=${message} /></${ErrorBoundary}>`,
          )}
        </ul>
        ${
          value.next_cursor !== null &&
          html`<p class="actions"><button type="button" data-more onClick=${() => void loadMore()}>Show older</button></p>`
        }
      </section>`
    }`;
}

async function list(shown: SentResult | undefined, isMore: boolean): Promise<SentResult> {
  if (isMore && shown?.next_cursor) {
    const more = await act<SentResult>('mail-sent', { limit: PAGE_MESSAGES, cursor: shown.next_cursor });
    return { ...more, messages: [...shown.messages, ...more.messages] };
  }
  return act<SentResult>('mail-sent', { limit: reloadLimit(shown?.messages.length ?? 0) });
}

function SentLine({ message }: { message: SentMessage }): VNode {
  const { message_id, subject, kind, created_at, recipients } = message;
  const shown = recipients.slice(0, RECIPIENTS_SHOWN);
  return html`<li class="mail mail-sent" data-item=${message_id}>
    <a class="mail-link" href=${deliveryHref(message_id)}><span class="mail-subject"><${Untrusted} text=${subject} /></span></a>
    <span class="mail-facts"><span class="mark mark-${kind}">${kind}</span> <${Time} at=${created_at} /></span>
    <ul class="reached" aria-label="Recipients">
      ${shown.map(
        ({ recipient, state }) => html`<li><${Untrusted} text=${recipient} /> <${StateMark} state=${state} /></li>`,
      )}
      ${recipients.length > shown.length && html`<li>and ${recipients.length - shown.length} more</li>`}
    </ul>
  </li>`;
}
