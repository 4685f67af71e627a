/** The recipients of a message: addresses one by one, completed from the people who are known; each can be removed. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { Untrusted } from '../shared/components.ts';
import { PRESENCE_TEXTS, WAY_TEXTS } from './people.ts';
import { people, shortAddress } from './state.ts';
import { countText } from '../shared/format.ts';

/** An unknown address, with suggestions. */
export interface Unknown {
  to: string;
  suggestions: readonly string[];
}

interface RecipientsFieldProps {
  to: readonly string[];
  /** An address that is half typed. */
  typed: string;
  change: (changes: { to?: readonly string[]; typed?: string }) => void;
  unknown: readonly Unknown[];
  isBad: boolean;
}

interface Choice {
  address: string;
  /** The agent that it means, or where that is and whether it runs. */
  detail: string;
}

/** The most choices that are shown. */
const CHOICES_MAX = 8;
const LIST_ID = 'address-choices';

/** The pattern "editable combobox with list autocomplete": arrow keys choose, Enter takes, Esc closes. */
export function RecipientsField({ to, typed, change, unknown, isBad }: RecipientsFieldProps): VNode {
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const choices = isOpen ? choicesFor(typed, to) : [];
  const show = (text: string): void => {
    change({ typed: text });
    setOpen(true);
    // Enter takes an address that begins with the typed text; for any other the arrow keys say so.
    const [first] = choicesFor(text, to);
    setActive(text.trim() !== '' && first?.address.toLowerCase().startsWith(text.trim().toLowerCase()) ? 0 : -1);
  };
  const close = (): void => {
    setOpen(false);
    setActive(-1);
  };
  const add = (text: string): void => {
    const added = addressesIn(text).filter((address) => !to.includes(address));
    if (added.length > 0) change({ to: [...to, ...added], typed: '' });
    else if (typed !== '') change({ typed: '' });
    close();
  };
  const step = (by: 1 | -1): void => {
    const all = choicesFor(typed, to).length;
    setOpen(true);
    if (all > 0) setActive(active < 0 ? (by === 1 ? 0 : all - 1) : (active + by + all) % all);
  };
  const onKey = (event: KeyboardEvent): void => {
    const chosen = choices[active];
    // The form is sent, with what is typed.
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') step(event.key === 'ArrowDown' ? 1 : -1);
    else if (event.key === 'Escape' && choices.length > 0) close();
    else if (event.key === 'Enter' && chosen) add(chosen.address);
    // Enter must not submit the form while an address is half typed.
    else if ((event.key === 'Enter' && typed.trim() !== '') || event.key === ',') add(typed);
    else {
      if (event.key === 'Backspace' && typed === '') change({ to: to.slice(0, -1) });
      return;
    }
    event.preventDefault();
  };
  return html`<div class="field">
    <label>
      <span>To</span>
      <input
        role="combobox"
        aria-autocomplete="list"
        aria-expanded=${choices.length > 0 ? 'true' : 'false'}
        aria-controls=${LIST_ID}
        aria-activedescendant=${choices[active] ? `${LIST_ID}-${active}` : undefined}
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
        placeholder="an agent, agent@host, role:name, * or owner"
        aria-invalid=${isBad ? 'true' : undefined}
        data-first-focus
        value=${typed}
        onInput=${(event: { currentTarget: HTMLInputElement }) => show(event.currentTarget.value)}
        onKeyDown=${onKey}
        onBlur=${() => add(typed)}
      />
    </label>
    <${Choices} choices=${choices} active=${active} choose=${add} />
    ${to.length > 0 && html`<${Chips} to=${to} change=${change} unknown=${unknown} />`}
    <${Suggestions} to=${to} change=${change} unknown=${unknown} />
  </div>`;
}

interface ChoicesProps {
  choices: readonly Choice[];
  active: number;
  choose: (address: string) => void;
}

function Choices({ choices, active, choose }: ChoicesProps): VNode {
  return html`<ul id=${LIST_ID} class="choices" role="listbox" aria-label="Known addresses"
    hidden=${choices.length === 0}>
    ${choices.map(
      ({ address, detail }, at) =>
        html`<li
          id=${`${LIST_ID}-${at}`}
          role="option"
          aria-selected=${at === active ? 'true' : 'false'}
          onMouseDown=${(event: Event) => event.preventDefault()}
          onClick=${() => choose(address)}
        >
          <${Untrusted} text=${address} /> <span class="choice-detail"><${Untrusted} text=${detail} /></span>
        </li>`,
    )}
  </ul>`;
}

type ChipsProps = Pick<RecipientsFieldProps, 'to' | 'change' | 'unknown'>;

function Chips({ to, change, unknown }: ChipsProps): VNode {
  return html`<ul class="chips" aria-label="Recipients">
    ${to.map(
      (address) =>
        html`<li key=${address} class=${unknown.some((one) => one.to === address) ? 'chip chip-bad' : 'chip'}>
          <${Untrusted} text=${address} />
          <button
            type="button"
            class="quiet"
            aria-label="Remove ${address}"
            onClick=${() => change({ to: to.filter((one) => one !== address) })}
          >
            ×
          </button>
        </li>`,
    )}
  </ul>`;
}

function Suggestions({ to, change, unknown }: ChipsProps): (VNode | null)[] {
  return unknown
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
                  onClick=${() => change({ to: [...new Set(to.map((known) => (known === one.to ? address : known)))] })}
                >
                  Use ${address} instead</button
                >${' '}`,
          )}
        </p>`,
    );
}

/** No address contains a comma, a semicolon or a space. */
export function addressesIn(text: string): string[] {
  return [...new Set(text.split(/[\s,;]+/u).filter((address) => address !== ''))];
}

/** The known addresses that contain the text; those that begin with it come first. */
function choicesFor(typed: string, to: readonly string[]): Choice[] {
  const text = typed.trim().toLowerCase();
  const fitting = knownChoices().filter(({ address }) => address.toLowerCase().includes(text) && !to.includes(address));
  const isBegun = ({ address }: Choice): boolean => address.toLowerCase().startsWith(text);
  return [...fitting.filter(isBegun), ...fitting.filter((one) => !isBegun(one))].slice(0, CHOICES_MAX);
}

/** Agents of this host by name, others with their host, then the roles, everybody and the owner. */
function knownChoices(): Choice[] {
  const { agents = [], hosts = [] } = people.value ?? {};
  const choices = agents.map(({ address, host, presence }) => {
    const way = hosts.find((one) => one.host === host)?.way ?? 'none';
    const detail = presence === 'remote' ? `${host}, ${WAY_TEXTS[way]}` : `${host}, ${PRESENCE_TEXTS[presence]}`;
    return { address: shortAddress(address), detail };
  });
  const roles = [...new Set(agents.flatMap((agent) => agent.roles))].map((role) => {
    const all = agents.filter((agent) => agent.roles.includes(role)).length;
    return { address: `role:${role}`, detail: all === 1 ? 'one agent' : countText(all, 'agent') };
  });
  return [...choices, ...roles, { address: '*', detail: 'every agent' }, { address: 'owner', detail: 'you' }];
}
