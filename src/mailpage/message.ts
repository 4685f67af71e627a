/** One message of a conversation: who wrote what to whom, and what can be done with it. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { WholeMessage } from '../host/documents/mail.ts';
import { Time, Words } from '../page/parts.ts';
import { printable } from '../protocol/printable.ts';
import { failed } from '../page/session.ts';
import { bytes } from '../page/text.ts';
import { BodyText } from './body-text.ts';
import { Reply } from './reply.ts';
import { askInbox, deliveryPlace, mark } from './state.ts';
import { Marks } from './summaries.ts';

interface MessageProps {
  message: WholeMessage;
  /** Whether it is the one that was opened. */
  isMeant: boolean;
  /** Whether its subject is the heading of the page. */
  isFirst: boolean;
}

export function Message({ message, isMeant, isFirst }: MessageProps): VNode {
  const { message_id, from, subject, body, state, refs, created_at } = message;
  const [rest, setRest] = useState<{ text: string; next: number | null }>();
  const [answering, setAnswering] = useState<'sender' | 'all'>();
  const [problem, setProblem] = useState('');
  const next = rest ? rest.next : message.next_body_offset;
  const isSent = state === 'sent';
  const readOn = async (): Promise<void> => {
    if (next === null) return;
    try {
      const { messages = [] } = await askInbox({ action: 'read', message_ids: [message_id], body_offset: next });
      const [more] = messages;
      if (more) setRest({ text: (rest?.text ?? '') + more.body, next: more.next_body_offset });
      setProblem('');
    } catch (error) {
      setProblem(failed(error));
    }
  };
  return html`<article class=${isMeant ? 'panel is-meant' : 'panel'} aria-label="Message from ${printable(from)}">
    <header class="message-head">
      <p class="message-from">
        <${Words} text=${from} />${isSent && html` <span class="mark">sent by you</span>`}
        <span class="message-time"><${Time} at=${created_at} /></span>
      </p>
      <p class="message-to">To ${recipients(message)}</p>
      ${!isFirst && html`<h2 class="message-subject"><${Words} text=${subject} /></h2>`}
      <p class="message-marks"><${Marks} message=${message} /></p>
    </header>
    <${BodyText} text=${body + (rest?.text ?? '')} />
    ${
      next !== null &&
      html`<p class="actions">
        <button type="button" onClick=${() => void readOn()}>Show more of ${bytes(message.body_bytes)}</button>
      </p>`
    }
    ${refs.length > 0 && html`<${Refs} refs=${refs} />`}
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <p class="actions">
      <button type="button" onClick=${() => setAnswering('sender')}>${isSent ? 'Follow up' : 'Reply'}</button>
      ${
        message.to_count > 1 &&
        !isSent &&
        html`<button type="button" onClick=${() => setAnswering('all')}>Reply to all</button>`
      }
      ${
        (state === 'unread' || state === 'read') &&
        html`<button type="button" onClick=${() => void mark('ack', [message_id])}>Done</button>`
      }
      ${isSent && html`<a class="button" href=${deliveryPlace(message_id)}>Delivery</a>`}
    </p>
    ${
      answering &&
      html`<${Reply}
        key=${answering}
        message=${message}
        isToAll=${answering === 'all'}
        close=${() => setAnswering(undefined)}
      />`
    }
  </article>`;
}

function recipients({ to, to_count }: WholeMessage): (VNode | string)[] {
  const shown = to.flatMap((address, at) => [at > 0 ? ', ' : '', html`<${Words} text=${address} />`]);
  return to_count > to.length ? [...shown, ` and ${to_count - to.length} more`] : shown;
}

/** References are words of others too: shown, never followed. */
function Refs({ refs }: { refs: readonly string[] }): VNode {
  return html`<section class="refs" aria-label="References">
    <h3>References</h3>
    <ul>
      ${refs.map((ref) => html`<li><${Words} text=${ref} /></li>`)}
    </ul>
  </section>`;
}
