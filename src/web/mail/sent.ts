/** The owner's sent messages, the newest first, and the delivery of one: its state for each recipient, with times. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { SentMessage, SentResult } from '../../host/contract/sent-mail.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { act } from '../shared/api.ts';
import { ErrorBoundary, Panel, StateMark, Time, Untrusted, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { BackLink } from './back-link.ts';
import { PAGE_MESSAGES, behind, deliveryHref, messageHref, reloadLimit, sentChanges } from './state.ts';

const RECIPIENTS_SHOWN = 5;

export function Sent(): VNode {
  const { value, problem, loadMore } = useLoaded(list, [], { changes: sentChanges.value, keptAs: 'sent' });
  return html`<h1 tabindex="-1">Sent</h1>
    <${Warning} text=${problem} />
    ${!value && !problem && html`<p class="none">Loading your sent messages…</p>`}
    ${
      value &&
      html`<section class="panel list" aria-label="Sent messages">
        ${
          value.messages.length === 0 &&
          html`<p class="none">You have sent nothing yet. <a href="#/compose">Write to an agent</a></p>`
        }
        <ul class="mails" aria-label="Messages">
          ${value.messages.map(
            (message) =>
              html`<${ErrorBoundary} key=${message.message_id} what="A message">
                <${SentLine} message=${message} />
              </${ErrorBoundary}>`,
          )}
        </ul>
        ${
          value.next_cursor !== null &&
          html`<p class="actions">
            <button type="button" data-more onClick=${() => void loadMore()}>Show older</button>
          </p>`
        }
      </section>`
    }`;
}

async function list(shown: SentResult | undefined, isMore: boolean): Promise<SentResult> {
  if (isMore && shown?.next_cursor) {
    const more = await act<SentResult>('mail-sent', { limit: PAGE_MESSAGES, cursor: shown.next_cursor });
    return { ...more, messages: [...shown.messages, ...more.messages] };
  }
  const before = shown?.messages ?? [];
  const newest = await act<SentResult>('mail-sent', { limit: reloadLimit(before.length) });
  const older = newest.next_cursor === null ? [] : behind(newest.messages, before, ({ message_id }) => message_id);
  // Older ones that were loaded stay, and the list goes on where they ended.
  const next_cursor = older.length > 0 && shown ? shown.next_cursor : newest.next_cursor;
  return { messages: [...newest.messages, ...older], next_cursor };
}

function SentLine({ message }: { message: SentMessage }): VNode {
  const { message_id, subject, kind, created_at, recipients } = message;
  const shown = recipients.slice(0, RECIPIENTS_SHOWN);
  return html`<li class="mail mail-sent" data-item=${message_id}>
    <a class="mail-link" href=${deliveryHref(message_id)}>
      <span class="mail-subject"><${Untrusted} text=${subject} /></span>
    </a>
    <span class="mail-facts">
      ${kind !== 'message' && html`<span class="mark mark-${kind}">${kind}</span>`}${' '}
      <${Time} at=${timeMsOf(created_at)} />
    </span>
    <ul class="reached" aria-label="Recipients">
      ${shown.map(
        ({ recipient, state }) => html`<li><${Untrusted} text=${recipient} /> <${StateMark} state=${state} /></li>`,
      )}
      ${recipients.length > shown.length && html`<li>and ${recipients.length - shown.length} more</li>`}
    </ul>
  </li>`;
}

type Recipient = SentMessage['recipients'][number];

const STEP_TEXTS: Readonly<Record<Recipient['state'], string>> = {
  stored: 'Queued for its host',
  relay: 'At the relay, for its host',
  delivered: 'In the mailbox',
  notified: 'Its agent was notified',
  read: 'Its agent read it',
  acked: 'Its agent is done with it',
  quarantined: 'In quarantine at its host',
  undelivered: 'Not delivered',
  unconfirmed: 'Accepted, but never confirmed',
  cancelled: 'Cancelled',
};

export function Delivery({ messageId }: { messageId: string }): VNode {
  const { value: message, problem } = useLoaded(async () => {
    const { messages } = await act<SentResult>('mail-sent', { message_id: messageId });
    return messages[0];
  }, [messageId, sentChanges.value]);

  return html`<${BackLink} />
    <h1 tabindex="-1">${message ? html`<${Untrusted} text=${message.subject} />` : 'Delivery'}</h1>
    <${Warning} text=${problem} />
    ${!message && !problem && html`<p class="none">Loading its delivery…</p>`}
    ${
      message &&
      html`<p class="note">
          <span class="mark mark-${message.kind}">${message.kind}</span> sent${' '}
          <${Time} at=${timeMsOf(message.created_at)} />.${' '}
          <a href=${messageHref(message.message_id)}>Show the conversation</a>
        </p>
        ${message.recipients.map((recipient) => html`<${Way} key=${recipient.recipient} recipient=${recipient} />`)}`
    }`;
}

function Way({ recipient: { recipient, state, steps } }: { recipient: Recipient }): VNode {
  return html`<${Panel} title=${`To ${recipient}`}>
    <p><${StateMark} state=${state} /></p>
    <ol class="steps" aria-label="Delivery to ${recipient}">
      ${steps.map(
        (step) =>
          html`<li class="step step-${step.state}">
            <span class="step-what">${STEP_TEXTS[step.state] ?? step.state}</span>
            <span class="step-when"><${Time} at=${timeMsOf(step.at)} /></span>
          </li>`,
      )}
    </ol>
  </${Panel}>`;
}
