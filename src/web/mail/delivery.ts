/** The states of one sent message for each recipient, with times. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import type { SentMessage, SentResult } from '../../host/api/schemas/mail.ts';
import { act } from '../shared/api.ts';
import { Panel, StateMark, Time, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { messagePlace, sentChanges } from './state.ts';

type Recipient = SentMessage['recipients'][number];

const STEP_WORDS: Readonly<Record<Recipient['state'], string>> = {
  pending: 'Queued for its host',
  delivered: 'In its mailbox',
  notified: 'It was told of it',
  read: 'It read it',
  acked: 'It is done with it',
  quarantined: 'Its host keeps it in quarantine',
  undelivered: 'Not delivered',
  unconfirmed: 'Taken, and never confirmed',
  cancelled: 'Cancelled',
};

export function Delivery({ messageId }: { messageId: string }): VNode {
  const [message, setMessage] = useState<SentMessage>();
  const [problem, setProblem] = useState('');
  const changes = sentChanges.value;
  useEffect(() => {
    let isStale = false;
    act<SentResult>('mail-sent', { message_id: messageId }).then(
      ({ messages: [found] }) => {
        if (isStale) return;
        setMessage(found);
        setProblem('');
      },
      (error: unknown) => {
        const words = failed(error);
        if (!isStale) setProblem(words);
      },
    );
    return () => {
      isStale = true;
    };
  }, [messageId, changes]);

  return html`<p><a href="#/sent">Back to what you sent</a></p>
    <h1 tabindex="-1">${message ? html`<${Words} text=${message.subject} />` : 'Delivery'}</h1>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    ${!message && !problem && html`<p class="none">Asking how far it came…</p>`}
    ${
      message &&
      html`<p class="note">
          <span class="mark mark-${message.kind}">${message.kind}</span> sent <${Time} at=${message.created_at} />.${' '}
          <a href=${messagePlace(message.message_id)}>Show the conversation</a>
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
            <span class="step-what">${STEP_WORDS[step.state] ?? step.state}</span>
            <span class="step-when"><${Time} at=${step.at} /></span>
          </li>`,
      )}
    </ol>
  </${Panel}>`;
}
