/** The common part of a new message and a reply: kind, options, sending once, and the result. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useRef, useState } from 'preact/hooks';
import type { SendResult } from '../../host/contract/mail.ts';
import { type Problem, act } from '../shared/api.ts';
import { Untrusted, Warning } from '../shared/components.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { failureText } from '../shared/session.ts';
import { type Draft, NEW_DRAFT, draftOf, dropSent, isUnkept, keepDraft } from './drafts.ts';
import { deliveryHref, messageHref } from './state.ts';

export const KINDS = ['message', 'request', 'reply', 'status', 'decision', 'alert', 'task'] as const;
/** The page's texts for each status. */
const STATUS_TEXTS: Readonly<Record<string, string>> = {
  'live-wake': 'woken',
  'live-next-prompt': 'at its next prompt',
  offline: 'waits in its mailbox',
  forwarded: 'forwarded',
  remote: 'queued for its host',
};

const UNKEPT_TEXT = 'This browser has no room for a copy of what you write: a reload would lose it.';

interface Sending {
  isUnderWay: boolean;
  result: SendResult | undefined;
  problem: Problem | undefined;
  /**
   * Sends `input` by an operation, and lets go of what the draft was then. If the answer was lost and the user sends
   * the same again, it is sent once, also after a reload.
   */
  send: (operation: 'mail-send' | 'mail-reply', input: object) => Promise<void>;
  again: () => void;
}

/** `name`: of the draft that is sent. */
export function useSending(name: string): Sending {
  const [isUnderWay, setUnderWay] = useState(false);
  const [result, setResult] = useState<SendResult>();
  const [problem, setProblem] = useState<Problem>();
  const sent = useRef({ content: '', key: '', isUnderWay: false });
  const send = async (operation: string, input: object): Promise<void> => {
    if (sent.current.isUnderWay) return;
    const content = JSON.stringify(input);
    const draft = draftOf(name) ?? NEW_DRAFT;
    const key = sent.current.content === content ? sent.current.key : (draft.sentWith ?? crypto.randomUUID());
    sent.current = { content, key, isUnderWay: true };
    setUnderWay(true);
    setResult(undefined);
    try {
      // First of all: the window may end before the answer comes, and the draft be sent again.
      if (draft !== NEW_DRAFT) await keepDraft(name, { ...draft, sentWith: key });
      setResult(await act<SendResult>(operation, { ...input, idempotency_key: key }));
      setProblem(undefined);
      // The next message of the owner is another one, even if it has the same words.
      sent.current.content = '';
      dropSent(name, draft);
    } catch (error) {
      // Throws what is not a `Problem`, and notices the end of the session.
      failureText(error);
      setProblem(error as Problem);
    }
    sent.current.isUnderWay = false;
    setUnderWay(false);
  };
  return { isUnderWay, result, problem, send, again: () => setResult(undefined) };
}

interface OptionFieldsProps {
  options: Pick<Draft, 'kind' | 'needsReply'>;
  change: (changes: Partial<Draft>) => void;
}

export function OptionFields({ options, change }: OptionFieldsProps): VNode {
  return html`<div class="filters">
    <${SelectField}
      label="Kind"
      value=${options.kind}
      options=${KINDS.map((kind) => [kind, kind])}
      change=${(kind: string) => change({ kind })}
    />
    <label class="switch">
      <input
        type="checkbox"
        checked=${options.needsReply}
        onChange=${(event: { currentTarget: HTMLInputElement }) => change({ needsReply: event.currentTarget.checked })}
      />
      <span>Needs a reply (wakes an idle agent)</span>
    </label>
  </div>`;
}

interface BodyFieldProps {
  value: string;
  change: (text: string) => void;
  isBad: boolean;
}

export function BodyField({ value, change, isBad }: BodyFieldProps): VNode {
  return html`<label class="field">
    <span>Message</span>
    <textarea
      rows="8"
      aria-invalid=${isBad ? 'true' : undefined}
      value=${value}
      onInput=${onValue(change)}
    ></textarea>
  </label>`;
}

interface SendActionsProps {
  sending: Sending;
  /** The text of the button that sends. */
  text: string;
  /** Absent: there is nothing to discard. */
  discard?: (() => void) | undefined;
}

export function SendActions({ sending: { problem, isUnderWay }, text, discard }: SendActionsProps): VNode {
  const shortcuts = 'Control+Enter Meta+Enter';
  return html`<${Warning} text=${problem?.message ?? ''} />
    ${discard && isUnkept.value && html`<p class="note" role="status">${UNKEPT_TEXT}</p>`}
    <p class="actions">
      <button
        type="submit"
        class="primary"
        disabled=${isUnderWay}
        aria-keyshortcuts=${shortcuts}
        title="Ctrl+Enter, or Cmd+Enter"
      >
        ${text}
      </button>
      ${discard && html`<button type="button" onClick=${discard}>Discard</button>`}
    </p>`;
}

/** The result of a send, for each recipient. */
export function Outcome({ result }: { result: SendResult }): VNode {
  const { recipients, left_out = [], message_id, thread } = result;
  return html`<section class="outcome" aria-label="Sent">
    <p role="status"><strong>Sent.</strong> That does not mean delivered:</p>
    <ul class="recipients">
      ${recipients.map(
        ({ recipient, status, detail }) =>
          html`<li>
            <${Untrusted} text=${recipient} />${' '}
            <span class="mark mark-${status}">${STATUS_TEXTS[status] ?? status}</span>
            <span class="recipient-detail"><${Untrusted} text=${detail} /></span>
          </li>`,
      )}
      ${left_out.map(
        ({ recipient, detail }) =>
          html`<li>
            <${Untrusted} text=${recipient} /> <span class="mark mark-lost">left out</span>
            <span class="recipient-detail"><${Untrusted} text=${detail} /></span>
          </li>`,
      )}
    </ul>
    <p class="actions">
      <a class="button" href=${deliveryHref(message_id)}>Follow its delivery</a>
      <a class="button" href=${messageHref(thread)}>Show the conversation</a>
    </p>
  </section>`;
}
