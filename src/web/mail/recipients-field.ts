/** The recipients of a message: addresses one by one, with suggestions while typing; each can be removed. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { Untrusted } from '../shared/components.ts';
import { agents } from './state.ts';

/** An unknown address, with suggestions. */
export interface Unknown {
  to: string;
  suggestions: readonly string[];
}

interface RecipientsFieldProps {
  to: readonly string[];
  change: (to: readonly string[]) => void;
  unknown: readonly Unknown[];
  isBad: boolean;
}

export function RecipientsField({ to, change, unknown, isBad }: RecipientsFieldProps): VNode {
  const [typed, setTyped] = useState('');
  const add = (text: string): void => {
    const added = addressesIn(text).filter((address) => !to.includes(address));
    if (added.length > 0) change([...to, ...added]);
    setTyped('');
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' || event.key === ',') {
      // Enter must not submit the form while an address is half typed.
      if (typed.trim() === '' && event.key === 'Enter') return;
      event.preventDefault();
      add(typed);
    } else if (event.key === 'Backspace' && typed === '') change(to.slice(0, -1));
  };
  return html`<div class="field">
    <label>
      <span>To</span>
      <input
        list="addresses"
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
        placeholder="an agent, agent@host, role:name, * or owner"
        aria-invalid=${isBad ? 'true' : undefined}
        value=${typed}
        onInput=${(event: InputEvent & { currentTarget: HTMLInputElement }) => {
          if (isChosen(event)) add(event.currentTarget.value);
          else setTyped(event.currentTarget.value);
        }}
        onKeyDown=${onKey}
        onBlur=${() => add(typed)}
      />
    </label>
    <datalist id="addresses">
      ${suggested()
        .filter((address) => !to.includes(address))
        .map((address) => html`<option value=${address}></option>`)}
    </datalist>
    ${
      to.length > 0 &&
      html`<ul class="chips" aria-label="Recipients">
        ${to.map(
          (address) =>
            html`<li key=${address} class=${unknown.some((one) => one.to === address) ? 'chip chip-bad' : 'chip'}>
              <${Untrusted} text=${address} />
              <button
                type="button"
                class="quiet"
                aria-label="Remove ${address}"
                onClick=${() => change(to.filter((one) => one !== address))}
              >
                ×
              </button>
            </li>`,
        )}
      </ul>`
    }
    ${unknown
      .filter((one) => to.includes(one.to))
      .map(
        (one) =>
          html`<p class="field-note">
            <${Untrusted} text=${one.to} /> is unknown.${' '}
            ${one.suggestions.map(
              (address) =>
                html`<button
                    type="button"
                    class="quiet"
                    onClick=${() => change([...new Set(to.map((known) => (known === one.to ? address : known)))])}
                  >
                    Use ${address} instead</button
                  >${' '}`,
            )}
          </p>`,
      )}
  </div>`;
}

/** A chosen suggestion arrives as a whole; browsers report it in two ways. */
function isChosen({ inputType }: InputEvent): boolean {
  return inputType === undefined || inputType === 'insertReplacementText';
}

/** No address contains a comma, a semicolon or a space. */
function addressesIn(text: string): string[] {
  return [...new Set(text.split(/[\s,;]+/u).filter((address) => address !== ''))];
}

/** Agents of this host by name, others with their host, then the roles, everybody and the owner. */
function suggested(): string[] {
  const known = agents.value?.agents ?? [];
  const names = known.map(({ name, address, presence }) => (presence === 'remote' ? address : name));
  const roles = [...new Set(known.flatMap((agent) => agent.roles))].map((role) => `role:${role}`);
  return [...names, ...roles, '*', 'owner'];
}
