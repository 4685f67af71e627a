/** What an empty list says: why it is empty, and what to do next. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { FILTERED_NOTHING, type Filters, isFiltered, shownState } from './inbox-filters.ts';
import { people } from './state.ts';

interface EmptyInboxProps {
  filters: Filters;
  /** How many messages the mailbox has. */
  total: number;
  /** Whether nothing older is left to look at. */
  isWhole: boolean;
  change: (filters: Filters) => void;
}

export function EmptyInbox({ filters, total, isWhole, change }: EmptyInboxProps): VNode {
  if (total === 0) return html`<${NoMail} />`;
  if (isFiltered(filters)) {
    const clear = (): void => change({ ...FILTERED_NOTHING, state: filters.state });
    const wider = (): void => change({ ...filters, state: 'all' });
    return html`<div class="empty">
      <p>${isWhole ? 'No message matches.' : 'No message matches as far back as this looked.'}</p>
      <p class="actions">
        ${shownState(filters) !== 'all' && html`<button type="button" onClick=${wider}>Look in everything</button>`}
        <button type="button" onClick=${clear}>Clear search and filters</button>
      </p>
    </div>`;
  }
  return html`<div class="empty">
    <p>${filters.state === 'unread' ? 'Nothing is unread.' : 'Everything is done.'}</p>
    <p class="actions">
      <button type="button" onClick=${() => change({ ...FILTERED_NOTHING, state: 'all' })}>Show everything</button>
    </p>
  </div>`;
}

function NoMail(): VNode {
  const isAlone = people.value?.agents.length === 0;
  return html`<div class="empty">
    <p>No mail yet. Agents write to you as <code>owner</code>.</p>
    ${
      isAlone
        ? html`<p>No agent is set up on this host. This connects yours:</p>
            <pre><code>poste setup</code></pre>`
        : html`<p class="actions"><a class="button" href="#/compose">Write to an agent</a></p>`
    }
  </div>`;
}
