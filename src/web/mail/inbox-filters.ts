/** The bar above the list of conversations: search, state, sender, kind, and what needs a reply. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { SearchField, SelectField } from '../shared/fields.ts';
import { KINDS } from './send-form.ts';
import { SEARCH, people, route, shortAddress } from './state.ts';

export interface Filters {
  state: 'unread' | 'unacked' | 'all';
  text: string;
  /** An address; `''`: everybody. */
  from: string;
  /** `''`: every kind. */
  kind: string;
  needsReply: boolean;
}

export const FILTERED_NOTHING: Filters = { state: 'unread', text: '', from: '', kind: '', needsReply: false };
const STATES: Readonly<Record<Filters['state'], string>> = {
  unread: 'Unread',
  unacked: 'Not done',
  all: 'Everything',
};

/** Says whether anything but the state narrows the list. */
export function isFiltered({ text, from, kind, needsReply }: Filters): boolean {
  return text.trim() !== '' || from !== '' || kind !== '' || needsReply;
}

/** A search looks at everything, whatever else is shown. */
export function shownState({ text, state }: Filters): Filters['state'] {
  return text.trim() === '' ? state : 'all';
}

interface InboxFiltersProps {
  filters: Filters;
  change: (filters: Filters) => void;
  children?: ComponentChildren;
}

export function InboxFilters({ filters, change, children }: InboxFiltersProps): VNode {
  const set = (changes: Partial<Filters>): void => change({ ...filters, ...changes });
  return html`<div class="bar">
    <h1 tabindex="-1">Inbox</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <${SearchField}
        placeholder="Search sender, subject and body"
        charactersMax=${200}
        value=${filters.text}
        change=${(text: string) => set({ text })}
        isFirstFocused=${route.value.subject === SEARCH}
      />
      <${SelectField}
        label="Show"
        value=${shownState(filters)}
        options=${Object.entries(STATES)}
        isDisabled=${filters.text.trim() !== ''}
        change=${(state: string) => set({ state: state as Filters['state'] })}
      />
      <${SelectField}
        label="From"
        value=${filters.from}
        options=${[['', 'From anyone'], ...senders(filters.from)]}
        change=${(from: string) => set({ from })}
      />
      <${SelectField}
        label="Kind"
        value=${filters.kind}
        options=${[['', 'Every kind'], ...KINDS.map((kind) => [kind, kind])]}
        change=${(kind: string) => set({ kind })}
      />
      <label class="switch">
        <input
          type="checkbox"
          checked=${filters.needsReply}
          onChange=${() => set({ needsReply: !filters.needsReply })}
        />
        <span>Needs a reply</span>
      </label>
      ${children}
    </form>
  </div>`;
}

/** Every agent that is known, and this host itself, which reports under the name `poste`. */
function senders(chosen: string): [string, string][] {
  const { agents = [], hosts = [] } = people.value ?? {};
  const here = hosts.find(({ way }) => way === 'here');
  const known = agents.map(({ address }) => address);
  const addresses = [...known, ...(here ? [`poste@${here.host}`] : []), ...(chosen === '' ? [] : [chosen])];
  return [...new Set(addresses)].map((address) => [address, shortAddress(address)]);
}
