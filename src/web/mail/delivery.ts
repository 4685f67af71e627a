/** The states of one sent message for each recipient, with times. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { SentMessage, SentResult } from '../../host/contract/mail.ts';
import { act } from '../shared/api.ts';
import { Panel, StateMark, Time, Untrusted, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { messageHref, sentChanges } from './state.ts';

type Recipient = SentMessage['recipients'][number];

const STEP_TEXTS: Readonly<Record<Recipient['state'], string>> = {
  pending: 'Queued for its host',
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

  return html`<p><a href="#/sent" aria-keyshortcuts="u Escape">Back to what you sent</a></p>
    <h1 tabindex="-1">${message ? html`<${Untrusted} text=${message.subject} />` : 'Delivery'}</h1>
    <${Warning} text=${problem} />
    ${!message && !problem && html`<p class="none">Loading its delivery…</p>`}
    ${
      message &&
      html`<p class="note">
          <span class="mark mark-${message.kind}">${message.kind}</span> sent <${Time} at=${message.created_at} />.${' '}
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
            <span class="step-when"><${Time} at=${step.at} /></span>
          </li>`,
      )}
    </ol>
  </${Panel}>`;
}
