/** The mailbox as a list, the newest first: unread, unacked or all messages, or a search. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { MessageSummary, SearchResult } from '../../host/api/schemas/mail.ts';
import { act } from '../shared/api.ts';
import { Warning } from '../shared/components.ts';
import { SearchField, SelectField } from '../shared/fields.ts';
import { count, time } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { Summaries } from './summaries.ts';
import { PAGE_MESSAGES, askInbox, mailChanges, reloadLimit } from './state.ts';

const FILTERS = { unread: 'Unread', unacked: 'Not done', all: 'Everything' } as const;
type Filter = keyof typeof FILTERS;
const NONE: Readonly<Record<Filter, string>> = {
  unread: 'Nothing is unread.',
  unacked: 'Everything is done.',
  all: 'No mail yet. Agents write to you as owner.',
};
/** A search starts after a pause in typing of this length. */
const TYPING_MS = 250;

interface Shown {
  summaries: readonly MessageSummary[];
  /** The cursor of the next page; null at the end. */
  cursor: string | null;
  /** How far back a search went, as a text. */
  searched: string;
}

/** Kept while the page is open, so that the way back from a message leads to the same list. */
const kept: { filter: Filter; text: string } = { filter: 'unread', text: '' };

export function Inbox(): VNode {
  const [filter, setFilter] = useState<Filter>(kept.filter);
  const [text, setText] = useState(kept.text);
  Object.assign(kept, { filter, text });
  const isSearch = text.trim() !== '';
  const load = async (last: Shown | undefined, isMore: boolean): Promise<Shown> => {
    const before = isMore ? (last?.summaries ?? []) : [];
    const limit = isMore ? PAGE_MESSAGES : reloadLimit(last?.summaries.length ?? 0);
    const cursor = isMore ? last?.cursor : undefined;
    const found = await (isSearch ? search(text, limit, cursor) : list(filter, limit, cursor));
    return { ...found, summaries: [...before, ...found.summaries] };
  };
  const inputs = [filter, text, mailChanges.value];
  const { value: shown, problem, isBusy, loadMore } = useLoaded(load, inputs, isSearch ? TYPING_MS : 0);

  return html`<h1 tabindex="-1">Inbox</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <${SearchField}
        placeholder="words of the sender, subject or body"
        charactersMax=${200}
        value=${text}
        change=${setText}
      />
      <${SelectField}
        label="Show"
        value=${filter}
        options=${Object.entries(FILTERS)}
        change=${setFilter}
        isDisabled=${isSearch}
      />
    </form>
    <${Warning} text=${problem} />
    ${!shown && !problem && html`<p class="none">Opening the mailbox…</p>`}
    ${isSearch && shown && html`<p class="note" role="status">${shown.searched}</p>`}
    ${
      shown &&
      html`<section class="panel" aria-label=${isSearch ? 'Found' : FILTERS[filter]}>
        <${Summaries} summaries=${shown.summaries} none=${isSearch ? 'Nothing was found.' : NONE[filter]} />
        ${
          shown.cursor !== null &&
          html`<p class="actions">
            <button type="button" disabled=${isBusy} onClick=${() => void loadMore()}>
              ${isSearch ? 'Search further back' : 'Show older'}
            </button>
          </p>`
        }
      </section>`
    }`;
}

async function list(state: Filter, limit: number, cursor: string | null | undefined): Promise<Shown> {
  const { summaries = [], next_cursor } = await askInbox({ action: 'list', state, limit, ...(cursor && { cursor }) });
  return { summaries, cursor: next_cursor, searched: '' };
}

async function search(text: string, limit: number, cursor: string | null | undefined): Promise<Shown> {
  const input = { text: text.trim(), limit, ...(cursor && { cursor }) };
  const { summaries, next_cursor, looked_at, looked_back_to } = await act<SearchResult>('mail-search', input);
  const searched =
    next_cursor === null || looked_back_to === null
      ? 'The whole mailbox was searched.'
      : `It stopped after ${count(looked_at)} messages, back to ${time(looked_back_to)}: older ones were not searched.`;
  return { summaries, cursor: next_cursor, searched };
}
