/** Answers a message, where it stands. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { WholeMessage } from '../host/documents/mail.ts';
import { BodyField, type Options, OptionFields, Outcome, useSending } from './send-form.ts';

interface ReplyProps {
  message: WholeMessage;
  isToAll: boolean;
  close: () => void;
}

export function Reply({ message, isToAll, close }: ReplyProps): VNode {
  const [body, setBody] = useState('');
  const [options, setOptions] = useState<Options>({ kind: 'reply', needsReply: false });
  const sending = useSending();
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector('textarea')?.focus(), []);
  const submit = (event: Event): void => {
    event.preventDefault();
    const { kind, needsReply } = options;
    const input = { message_id: message.message_id, body, kind, needs_reply: needsReply, to_all: isToAll };
    void sending.send('mail-reply', input);
  };
  if (sending.result) return html`<${Outcome} result=${sending.result} />`;
  return html`<form ref=${form} class="reply" aria-label=${isToAll ? 'Reply to all' : 'Reply'} onSubmit=${submit}>
    <${BodyField} value=${body} change=${setBody} isBad=${sending.problem?.details['field'] === 'body'} />
    <${OptionFields} options=${options} change=${setOptions} />
    ${sending.words && html`<p class="warning" role="alert">${sending.words}</p>`}
    <p class="actions">
      <button type="submit" class="primary" disabled=${sending.isUnderWay}>
        ${isToAll ? 'Send to all' : 'Send reply'}
      </button>
      <button type="button" onClick=${close}>Discard</button>
    </p>
  </form>`;
}
