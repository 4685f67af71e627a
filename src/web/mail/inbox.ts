/** The mailbox as a list, the newest first: unread, unacked or all messages, or a search. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { MessageSummary, SearchResult } from '../../host/api/schemas/mail.ts';
import { act } from '../shared/api.ts';
import { failed } from '../shared/session.ts';
import { count, time } from '../shared/text.ts';
import { Summaries } from './summaries.ts';
import { askInbox, mailChanges } from './state.ts';

const FILTERS = { unread: 'Unread', unacked: 'Not done', all: 'Everything' } as const;
type Filter = keyof typeof FILTERS;
const NONE: Readonly<Record<Filter, string>> = {
  unread: 'Nothing is unread.',
  unacked: 'Everything is done.',
  all: 'No mail yet. Agents write to you as owner.',
};
const PAGE_MESSAGES = 50;
/** When something changes, the list is loaded again, up to this many messages. */
const REFRESHED_MAX = 100;
/** A search starts after a pause in typing of this length. */
const TYPING_MS = 250;

interface Shown {
  summaries: readonly MessageSummary[];
  /** The cursor of the next page; null at the end. */
  cursor: string | null;
  /** How far a search came, in words. */
  searched: string;
}

/** Kept while the page is open, so that the way back from a message leads to the same list. */
const kept: { filter: Filter; text: string } = { filter: 'unread', text: '' };

export function Inbox(): VNode {
  const [filter, setFilter] = useState<Filter>(kept.filter);
  const [text, setText] = useState(kept.text);
  const [shown, setShown] = useState<Shown>();
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  /** Numbers the requests: the answer to an earlier one is dropped. */
  const run = useRef(0);
  Object.assign(kept, { filter, text });
  const changes = mailChanges.value;

  const load = async (after: Shown | undefined): Promise<void> => {
    const mine = ++run.current;
    setBusy(true);
    try {
      const limit = after
        ? PAGE_MESSAGES
        : Math.min(REFRESHED_MAX, Math.max(PAGE_MESSAGES, shown?.summaries.length ?? 0));
      const cursor = after?.cursor ?? undefined;
      const found = await (text.trim() === '' ? list(filter, limit, cursor) : search(text, limit, cursor));
      if (mine !== run.current) return;
      setShown(after ? { ...found, summaries: [...after.summaries, ...found.summaries] } : found);
      setProblem('');
    } catch (error) {
      const words = failed(error);
      if (mine === run.current) setProblem(words);
    }
    if (mine === run.current) setBusy(false);
  };

  useEffect(() => {
    const timer = setTimeout(() => void load(undefined), text.trim() === '' ? 0 : TYPING_MS);
    return () => {
      run.current++;
      clearTimeout(timer);
    };
  }, [filter, text, changes]);

  const isSearch = text.trim() !== '';
  return html`<h1 tabindex="-1">Inbox</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <label class="wide">
        <span>Search</span>
        <input
          type="search"
          maxlength="200"
          placeholder="words of the sender, subject or body"
          value=${text}
          onInput=${(event: { currentTarget: HTMLInputElement }) => setText(event.currentTarget.value)}
        />
      </label>
      <label>
        <span>Show</span>
        <select
          value=${filter}
          disabled=${isSearch}
          onChange=${(event: { currentTarget: HTMLSelectElement }) => setFilter(event.currentTarget.value as Filter)}
        >
          ${Object.entries(FILTERS).map(([value, name]) => html`<option value=${value}>${name}</option>`)}
        </select>
      </label>
    </form>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    ${!shown && !problem && html`<p class="none">Opening the mailbox…</p>`}
    ${isSearch && shown && html`<p class="note" role="status">${shown.searched}</p>`}
    ${
      shown &&
      html`<section class="panel" aria-label=${isSearch ? 'Found' : FILTERS[filter]}>
        <${Summaries} summaries=${shown.summaries} none=${isSearch ? 'Nothing was found.' : NONE[filter]} />
        ${
          shown.cursor !== null &&
          html`<p class="actions">
            <button type="button" disabled=${isBusy} onClick=${() => void load(shown)}>
              ${isSearch ? 'Search further back' : 'Show older'}
            </button>
          </p>`
        }
      </section>`
    }`;
}

async function list(state: Filter, limit: number, cursor: string | undefined): Promise<Shown> {
  const { summaries = [], next_cursor } = await askInbox({ action: 'list', state, limit, ...(cursor && { cursor }) });
  return { summaries, cursor: next_cursor, searched: '' };
}

async function search(text: string, limit: number, cursor: string | undefined): Promise<Shown> {
  const input = { text: text.trim(), limit, ...(cursor && { cursor }) };
  const { summaries, next_cursor, looked_at, looked_back_to } = await act<SearchResult>('mail-search', input);
  const searched =
    next_cursor === null || looked_back_to === null
      ? 'The whole mailbox was searched.'
      : `It stopped after ${count(looked_at)} messages, back to ${time(looked_back_to)}: older ones were not searched.`;
  return { summaries, cursor: next_cursor, searched };
}
