/** The form for a new message, which starts a conversation. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { Warning } from '../shared/components.ts';
import { onValue } from '../shared/fields.ts';
import { RecipientsField, type Unknown } from './recipients-field.ts';
import { BodyField, type Options, OptionFields, Outcome, useSending } from './send-form.ts';

const EMPTY = { to: [] as readonly string[], subject: '', body: '' };
const FIRST: Options = { kind: 'message', needsReply: false };
/** Kept while the page is open, so that the owner can look something up and come back to the draft. */
const kept = { draft: EMPTY, options: FIRST };

export function Compose({ first }: { first: string }): VNode {
  const [draft, setDraft] = useState(() => withRecipient(kept.draft, first));
  const [options, setOptions] = useState(kept.options);
  const sending = useSending();
  Object.assign(kept, { draft, options });
  const { to, subject, body } = draft;
  const field = sending.problem?.details['field'];
  const submit = (event: Event): void => {
    event.preventDefault();
    const { kind, needsReply } = options;
    const input = { to, subject, body, kind, needs_reply: needsReply };
    // Also when this view was left meanwhile: a draft that was sent could be sent again.
    void sending
      .send('mail-send', input)
      .then((isSent) => isSent && Object.assign(kept, { draft: EMPTY, options: FIRST }));
  };
  const another = (): void => {
    setDraft(EMPTY);
    setOptions(FIRST);
    sending.again();
  };
  if (sending.result) {
    // The message is sent, so the draft is empty again.
    Object.assign(kept, { draft: EMPTY, options: FIRST });
    return html`<h1 tabindex="-1">Write</h1>
      <div class="panel">
        <${Outcome} result=${sending.result} />
        <p class="actions"><button type="button" onClick=${another}>Write another</button></p>
      </div>`;
  }
  return html`<h1 tabindex="-1">Write</h1>
    <form class="panel" aria-label="New message" onSubmit=${submit}>
      <${RecipientsField}
        to=${to}
        change=${(changed: readonly string[]) => setDraft((before) => ({ ...before, to: changed }))}
        unknown=${unknownOf(sending.problem?.details['recipients'])}
        isBad=${field === 'to'}
      />
      <label class="field">
        <span>Subject</span>
        <input
          value=${subject}
          aria-invalid=${field === 'subject' ? 'true' : undefined}
          onInput=${onValue((value) => setDraft((before) => ({ ...before, subject: value })))}
        />
      </label>
      <${BodyField}
        value=${body}
        change=${(text: string) => setDraft((before) => ({ ...before, body: text }))}
        isBad=${field === 'body'}
      />
      <${OptionFields} options=${options} change=${setOptions} />
      <${Warning} text=${sending.problem?.message ?? ''} />
      <p class="actions">
        <button type="submit" class="primary" disabled=${sending.isUnderWay}>Send</button>
      </p>
    </form>`;
}

/** The link of an agent adds it to what is being written. */
function withRecipient(draft: typeof EMPTY, address: string): typeof EMPTY {
  return address === '' || draft.to.includes(address) ? draft : { ...draft, to: [...draft.to, address] };
}

function unknownOf(recipients: unknown): Unknown[] {
  return Array.isArray(recipients) ? (recipients as Unknown[]) : [];
}
