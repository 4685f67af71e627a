/** The common part of a new message and a reply: kind, options, sending once, and the result. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useRef, useState } from 'preact/hooks';
import type { SendResult } from '../../host/contract/mail.ts';
import { type Problem, act } from '../shared/api.ts';
import { Untrusted } from '../shared/components.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { failureText } from '../shared/session.ts';
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

export interface Sending {
  isUnderWay: boolean;
  result: SendResult | undefined;
  problem: Problem | undefined;
  /** Sends `input` by an operation. If the answer was lost and the user sends the same again, it is sent once. */
  /** Resolves to whether it was sent. */
  send: (operation: 'mail-send' | 'mail-reply', input: object) => Promise<boolean>;
  again: () => void;
}

export function useSending(): Sending {
  const [isUnderWay, setUnderWay] = useState(false);
  const [result, setResult] = useState<SendResult>();
  const [problem, setProblem] = useState<Problem>();
  const sent = useRef({ content: '', key: '' });
  const send = async (operation: string, input: object): Promise<boolean> => {
    let isSent = false;
    const content = JSON.stringify(input);
    if (sent.current.content !== content) sent.current = { content, key: crypto.randomUUID() };
    setUnderWay(true);
    try {
      setResult(await act<SendResult>(operation, { ...input, idempotency_key: sent.current.key }));
      setProblem(undefined);
      isSent = true;
    } catch (error) {
      // Throws what is not a `Problem`, and notices the end of the session.
      failureText(error);
      setProblem(error as Problem);
    }
    setUnderWay(false);
    return isSent;
  };
  const again = (): void => {
    sent.current = { content: '', key: '' };
    setResult(undefined);
  };
  return { isUnderWay, result, problem, send, again };
}

export interface Options {
  kind: string;
  needsReply: boolean;
}

interface OptionFieldsProps {
  options: Options;
  change: (options: Options) => void;
}

export function OptionFields({ options, change }: OptionFieldsProps): VNode {
  return html`<div class="filters">
    <${SelectField}
      label="Kind"
      value=${options.kind}
      options=${KINDS.map((kind) => [kind, kind])}
      change=${(kind: string) => change({ ...options, kind })}
    />
    <label class="switch">
      <input
        type="checkbox"
        checked=${options.needsReply}
        onChange=${(event: { currentTarget: HTMLInputElement }) =>
          change({ ...options, needsReply: event.currentTarget.checked })}
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
