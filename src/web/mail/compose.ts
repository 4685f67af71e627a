/** The form for a new message, which starts a conversation. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { onValue } from '../shared/fields.ts';
import { BackLink } from './back-link.ts';
import { NEW_DRAFT, changeDraft, draftOf, useDraft } from './drafts.ts';
import { RecipientsField, type Unknown, addressesIn } from './recipients-field.ts';
import { BodyField, OptionFields, Outcome, SendActions, useSending } from './send-form.ts';

/** The name of its draft: a window has one new message. */
const NAME = 'new';

export function Compose({ first }: { first: string }): VNode {
  useState(() => addRecipient(first));
  const [draft, change, drop] = useDraft(NAME, NEW_DRAFT);
  const sending = useSending(NAME);
  const { to, typed, subject, body } = draft;
  const field = sending.problem?.details['field'];
  const submit = (event: Event): void => {
    event.preventDefault();
    const all = withAddresses(to, typed);
    if (typed !== '') change({ to: all, typed: '' });
    const { kind, needsReply } = draft;
    void sending.send('mail-send', { to: all, subject, body, kind, needs_reply: needsReply });
  };
  const isBegun = draftOf(NAME) !== undefined;
  const discard = (): void => {
    drop();
    sending.again();
    document.querySelector<HTMLElement>('main [data-first-focus]')?.focus();
  };
  const sent =
    sending.result &&
    html`<div class="panel">
      <${Outcome} result=${sending.result} />
      ${!isBegun && html`<p class="actions"><button type="button" onClick=${sending.again}>Write another</button></p>`}
    </div>`;
  return html`<${BackLink} />
    <h1 tabindex="-1">Write</h1>
    ${sent}
    ${
      (!sent || isBegun) &&
      html`<form class="panel sends" aria-label="New message" onSubmit=${submit}>
        <${RecipientsField}
          to=${to}
          typed=${typed}
          change=${change}
          unknown=${unknownOf(sending.problem?.details['recipients'])}
          isBad=${field === 'to'}
        />
        <label class="field">
          <span>Subject</span>
          <input
            value=${subject}
            aria-invalid=${field === 'subject' ? 'true' : undefined}
            onInput=${onValue((value) => change({ subject: value }))}
          />
        </label>
        <${BodyField} value=${body} change=${(text: string) => change({ body: text })} isBad=${field === 'body'} />
        <${OptionFields} options=${draft} change=${change} />
        <${SendActions} sending=${sending} text="Send" discard=${isBegun && discard} />
      </form>`
    }`;
}

/** The link of an agent adds it to what is being written. */
function addRecipient(address: string): void {
  const { to } = draftOf(NAME) ?? NEW_DRAFT;
  if (address !== '') changeDraft(NAME, NEW_DRAFT, { to: withAddresses(to, address) });
}

function withAddresses(to: readonly string[], text: string): string[] {
  return [...new Set([...to, ...addressesIn(text)])];
}

function unknownOf(recipients: unknown): Unknown[] {
  return Array.isArray(recipients) ? (recipients as Unknown[]) : [];
}
