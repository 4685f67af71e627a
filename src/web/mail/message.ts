/** One message of a conversation: sender, recipients and text, with its actions. */
import { html } from 'htm/preact';
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { FullMessage } from '../../host/contract/usual-mail.ts';
import { printable } from '../../protocol/printable.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { Time, Untrusted, Warning } from '../shared/components.ts';
import { failureText } from '../shared/session.ts';
import { bytes } from '../shared/format.ts';
import { BodyField, OptionFields, Outcome, SendActions, useSending } from './send-form.ts';
import { perform, stateOf } from './actions.ts';
import { BodyText, link } from './body.ts';
import { type Draft, NEW_DRAFT, changeDraft, draftOf, useDraft } from './drafts.ts';
import { Marks } from './conversation-row.ts';
import { askInbox, deliveryHref } from './state.ts';

interface MessageProps {
  message: FullMessage;
  /** Says whether it is the one that was opened. */
  isMeant: boolean;
  /** Says whether its subject is the heading of the page. */
  isFirst: boolean;
  /** Says whether a key that means no other message means this one. */
  isStanding: boolean;
}

export function Message({ message, isMeant, isFirst, isStanding }: MessageProps): VNode {
  const { message_id, from, subject, body, refs, created_at } = message;
  const state = stateOf(message);
  const [rest, setRest] = useState<{ text: string; next: number | null }>();
  const [answering, setAnswering] = useState(() => answererOf(draftOf(replyName(message_id))));
  const [asked, setAsked] = useState(0);
  const answer = (to: Answerer): void => {
    const name = replyName(message_id);
    if (draftOf(name)) changeDraft(name, NEW_REPLY, { isToAll: to === 'all' });
    setAnswering(to);
    setAsked(asked + 1);
  };
  const [problem, setProblem] = useState('');
  const next = rest ? rest.next : message.next_body_offset;
  const isSent = state === 'sent';
  const readOn = async (): Promise<void> => {
    if (next === null) return;
    try {
      const { messages } = await askInbox({ action: 'read', message_ids: [message_id], body_offset: next });
      const [more] = messages;
      if (more) setRest({ text: (rest?.text ?? '') + more.body, next: more.next_body_offset });
      setProblem('');
    } catch (error) {
      setProblem(failureText(error));
    }
  };
  const done = (): void => {
    perform({ type: 'ack', messageIds: [message_id], unread: state === 'unread' ? 1 : 0, text: 'Done.' });
  };
  return html`<article
    class=${isMeant ? 'panel is-meant' : 'panel'}
    aria-label="Message from ${printable(from)}"
    tabindex="-1"
    data-item=${isStanding ? 'main' : message_id}
  >
    <header class="message-head">
      <h2 class="message-from">
        <${Untrusted} text=${from} />${isSent && html` <span class="mark">sent by you</span>`}
        <span class="message-time"><${Time} at=${timeMsOf(created_at)} /></span>
      </h2>
      <p class="message-to">To ${recipients(message)}</p>
      ${!isFirst && html`<p class="message-subject"><${Untrusted} text=${subject} /></p>`}
      <p class="message-marks"><${Marks} message=${{ ...message, state }} /></p>
    </header>
    <${BodyText} text=${body + (rest?.text ?? '')} />
    ${
      next !== null &&
      html`<p class="actions">
        <button type="button" onClick=${() => void readOn()}>Show more of ${bytes(message.body_bytes ?? 0)}</button>
      </p>`
    }
    ${refs.length > 0 && html`<${Refs} refs=${refs} />`}
    <${Warning} text=${problem} />
    <p class="actions">
      <button type="button" aria-keyshortcuts="r" onClick=${() => answer('sender')}>
        ${isSent ? 'Follow up' : 'Reply'}
      </button>
      ${
        message.to_count > 1 &&
        !isSent &&
        html`<button type="button" aria-keyshortcuts="a" onClick=${() => answer('all')}>Reply to all</button>`
      }
      ${
        (state === 'unread' || state === 'read') &&
        html`<button type="button" aria-keyshortcuts="e" onClick=${done}>Done</button>`
      }
      ${isSent && html`<a class="button" href=${deliveryHref(message_id)}>Delivery</a>`}
    </p>
    ${
      answering &&
      html`<${Reply}
        key=${answering}
        message=${message}
        to=${answering}
        asked=${asked}
        close=${() => setAnswering(undefined)}
      />`
    }
  </article>`;
}

function recipients({ to, to_count }: FullMessage): (VNode | string)[] {
  const shown = to.flatMap((address, at) => [at > 0 ? ', ' : '', html`<${Untrusted} text=${address} />`]);
  return to_count > to.length ? [...shown, ` and ${to_count - to.length} more`] : shown;
}

/** References are untrusted text too; the links in them lead where they say. */
function Refs({ refs }: { refs: readonly string[] }): VNode {
  return html`<section class="refs" aria-label="References">
    <h3>References</h3>
    <ul>
      ${refs.map((ref) => html`<li><bdi class="untrusted">${link(ref)}</bdi></li>`)}
    </ul>
  </section>`;
}

type Answerer = 'sender' | 'all';

const NEW_REPLY: Draft = { ...NEW_DRAFT, kind: 'reply' };

/** The name of the draft that answers a message. */
function replyName(messageId: string): string {
  return `reply ${messageId}`;
}

function answererOf(draft: Draft | undefined): Answerer | undefined {
  return draft && (draft.isToAll ? 'all' : 'sender');
}

interface ReplyProps {
  message: FullMessage;
  to: Answerer;
  /** The number of times that the owner asked for the form: each time it gets the focus. */
  asked: number;
  close: () => void;
}

/** The form that answers a message, below it. */
function Reply({ message: { message_id }, to, asked, close }: ReplyProps): VNode {
  const isToAll = to === 'all';
  const [{ body, ...options }, change, drop] = useDraft(replyName(message_id), { ...NEW_REPLY, isToAll });
  const sending = useSending(replyName(message_id));
  const form = useRef<HTMLFormElement>(null);
  const { result } = sending;
  const isShown = !result || draftOf(replyName(message_id)) !== undefined;
  useEffect(() => {
    // After a reply that was sent, the owner wants another one.
    if (asked > 0) sending.again();
  }, [asked]);
  useEffect(() => {
    // One that was begun before waits, and takes no focus.
    if (asked > 0) form.current?.querySelector('textarea')?.focus();
  }, [asked, isShown]);
  const discard = (): void => {
    drop();
    close();
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const { kind, needsReply } = options;
    void sending.send('mail-reply', { message_id, body, kind, needs_reply: needsReply, to_all: isToAll });
  };
  return html`${result && html`<${Outcome} result=${result} />`}
    ${
      isShown &&
      html`<form
        ref=${form}
        class="reply sends"
        aria-label=${isToAll ? 'Reply to all' : 'Reply'}
        onSubmit=${submit}
      >
        <${BodyField}
          value=${body}
          change=${(text: string) => change({ body: text })}
          isBad=${sending.problem?.details['field'] === 'body'}
        />
        <${OptionFields} options=${options} change=${change} />
        <${SendActions} sending=${sending} text=${isToAll ? 'Send to all' : 'Send reply'} discard=${discard} />
      </form>`
    }`;
}
