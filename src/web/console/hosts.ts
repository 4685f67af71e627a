/** The hosts of the relay: searched, sorted, a page at a time. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { ConsoleHosts, HostListed, HostOrder } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Code, NO_VALUE, StateMark, Table, Time, Untrusted, Warning } from '../shared/components.ts';
import { SearchField, SelectField } from '../shared/fields.ts';
import { bytes, count, countText } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { hostHref } from './state.ts';

const STATES = [['', 'every state'], ...['live', 'expired', 'revoked', 'rotated'].map((state) => [state, state])];
const ORDERS: readonly (readonly [HostOrder, string])[] = [
  ['bytes', 'bytes waiting'],
  ['items', 'items waiting'],
  ['full', 'how full'],
  ['seen', 'last seen'],
  ['name', 'name'],
  ['enrolled', 'newest'],
];
const PERCENT = new Intl.NumberFormat('en', { style: 'percent' });
/** A search starts after a pause in typing of this length. */
const TYPING_MS = 200;

interface Sorting {
  by: HostOrder;
  isReversed: boolean;
}

export function Hosts(): VNode {
  const [search, setSearch] = useState('');
  const [state, setState] = useState('');
  const [sorting, setSorting] = useState<Sorting>({ by: 'bytes', isReversed: false });
  const [offset, setOffset] = useState(0);
  const { by, isReversed } = sorting;
  const asked = { search, state, sort: by, reverse: isReversed ? 'yes' : 'no', offset: String(offset) };
  const load = (): Promise<ConsoleHosts> => read<ConsoleHosts>('hosts', asked);
  const { value: found, problem } = useLoaded(load, [search, state, by, isReversed, offset], { delayMs: TYPING_MS });
  /** Another list begins at its first page. */
  const fromStart =
    <Value>(change: (value: Value) => void) =>
    (value: Value): void => {
      setOffset(0);
      change(value);
    };
  const sortBy = fromStart(setSorting);

  return html`<h1 tabindex="-1">Hosts</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <${SearchField} placeholder="name, account, owner or key" charactersMax=${100} value=${search} change=${fromStart(setSearch)} />
      <${SelectField} label="State" value=${state} options=${STATES} change=${fromStart(setState)} />
      <${SelectField} label="Sort by" value=${by} options=${ORDERS}
        change=${(order: string) => sortBy({ by: order as HostOrder, isReversed: false })} />
      <button type="button" aria-pressed=${isReversed ? 'true' : 'false'}
        onClick=${() => sortBy({ by, isReversed: !isReversed })}>Reverse</button>
    </form>
    <${Warning} text=${problem} />
    ${found && html`<p class="note" role="status">${summary(found)}</p>`}
    ${found && html`<section class="panel"><${HostTable} hosts=${found.hosts} sorting=${sorting} sortBy=${sortBy} /></section>`}
    ${found && html`<${Pager} found=${found} go=${setOffset} />`}`;
}

function summary({ hosts, offset, matches, total }: ConsoleHosts): string {
  const pages = hosts.length < matches ? `, ${count(offset + 1)} to ${count(offset + hosts.length)} are shown` : '';
  return `${count(matches)} of ${countText(total, 'host key')}${matches === 0 || hosts.length === 0 ? '' : pages}`;
}

function Pager({ found, go }: { found: ConsoleHosts; go: (offset: number) => void }): VNode | null {
  const { hosts, offset, per_page: perPage, matches } = found;
  const next = offset + hosts.length;
  if (offset === 0 && next >= matches) return null;
  return html`<nav class="actions" aria-label="Pages">
    <button type="button" disabled=${offset === 0} onClick=${() => go(Math.max(0, offset - perPage))}>Earlier</button>
    <button type="button" disabled=${next >= matches} onClick=${() => go(next)}>Next</button>
  </nav>`;
}

interface HostTableProps {
  hosts: readonly HostListed[];
  sorting: Sorting;
  sortBy: (sorting: Sorting) => void;
}

function HostTable({ hosts, sorting, sortBy }: HostTableProps): VNode {
  /** By a click on the title of a column; another click turns the order around. */
  const sort = (by: HostOrder, isUpwards = false) => {
    const isSorted = sorting.by === by;
    const isAscending = isUpwards !== sorting.isReversed;
    return {
      state: isSorted ? (isAscending ? ('ascending' as const) : ('descending' as const)) : ('none' as const),
      toggle: () => sortBy({ by, isReversed: isSorted && !sorting.isReversed }),
    };
  };
  return html`<${Table}
    label="Hosts"
    none="No host matches."
    rows=${hosts}
    keyOf=${(host: HostListed) => host.host_pubkey}
    columns=${[
      {
        title: 'name',
        sort: sort('name', true),
        cell: (host: HostListed) => html`<a href=${hostHref(host.host_pubkey)}><${Untrusted} text=${host.host} /></a>`,
      },
      { title: 'state', cell: (host: HostListed) => html`<${StateMark} state=${host.state} />` },
      {
        title: 'account',
        cell: (host: HostListed) => (host.account === null ? NO_VALUE : html`<${Untrusted} text=${host.account} />`),
      },
      {
        title: 'owner',
        cell: (host: HostListed) => (host.owner_fp === '' ? NO_VALUE : html`<${Untrusted} text=${host.owner_fp} />`),
      },
      { title: 'fingerprint', cell: (host: HostListed) => html`<${Code} text=${host.fingerprint} />` },
      {
        title: 'last seen',
        sort: sort('seen', true),
        cell: (host: HostListed) => (host.last_seen === null ? NO_VALUE : html`<${Time} at=${host.last_seen} />`),
      },
      { title: 'items', isNumber: true, sort: sort('items'), cell: (host: HostListed) => count(host.queue_items) },
      { title: 'bytes', isNumber: true, sort: sort('bytes'), cell: (host: HostListed) => bytes(host.queue_bytes) },
      { title: 'full', isNumber: true, sort: sort('full'), cell: (host: HostListed) => PERCENT.format(host.fullness) },
    ]}
  />
  <p class="note">Last seen is when a host asked for its mail, since the relay started.</p>`;
}
