/** The hosts of the relay: searched, sorted, a page at a time; and one host with the button that revokes it. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { useRef, useState } from 'preact/hooks';
import type {
  ConsoleHost,
  ConsoleHosts,
  ConsoleRevoked,
  HostListed,
  HostOrder,
  HostShown,
} from '../../protocol/operator-documents.ts';
import { act, read } from '../shared/api.ts';
import {
  Code,
  type FactRow,
  Facts,
  NO_VALUE,
  Panel,
  StateMark,
  Table,
  Time,
  Untrusted,
  Warning,
} from '../shared/components.ts';
import { SearchField, SelectField, onValue } from '../shared/fields.ts';
import { bytes, count, countText } from '../shared/format.ts';
import { forgetPlace } from '../shared/place.ts';
import { forgetView, useKept, useLoaded } from '../shared/use-loaded.ts';
import { hostHref, samples } from './state.ts';
import { failureText, notice } from '../shared/session.ts';

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

const EVERY_HOST = { search: '', state: '', by: 'bytes' as HostOrder, isReversed: false, offset: 0 };

export function Hosts(): VNode {
  const [asked, setAsked] = useKept('hosts', 'asked', EVERY_HOST);
  const { search, state, by, isReversed, offset } = asked;
  const query = { search, state, sort: by, reverse: isReversed ? 'yes' : 'no', offset: String(offset) };
  const load = (): Promise<ConsoleHosts> => read<ConsoleHosts>('hosts', query);
  const { value: found, problem } = useLoaded(load, [asked], { delayMs: TYPING_MS, keptAs: 'hosts' });
  /** Another list begins at its first page. */
  const change = (changes: Partial<typeof EVERY_HOST>): void => setAsked({ ...asked, offset: 0, ...changes });

  return html`<h1 tabindex="-1">Hosts</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <${SearchField} placeholder="name, account, owner or key" charactersMax=${100} value=${search}
        change=${(text: string) => change({ search: text })} />
      <${SelectField} label="State" value=${state} options=${STATES}
        change=${(other: string) => change({ state: other })} />
      <${SelectField} label="Sort by" value=${by} options=${ORDERS}
        change=${(order: string) => change({ by: order as HostOrder, isReversed: false })} />
      <button type="button" aria-pressed=${isReversed ? 'true' : 'false'}
        onClick=${() => change({ isReversed: !isReversed })}>Reverse</button>
    </form>
    <${Warning} text=${problem} />
    ${found && html`<p class="note" role="status">${summary(found)}</p>`}
    ${
      found &&
      html`<section class="panel">
        <${HostTable} found=${found} sorting=${asked} sortBy=${change} />
      </section>`
    }
    ${found && html`<${Pager} found=${found} go=${(to: number) => change({ offset: to })} />`}`;
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
  found: ConsoleHosts;
  sorting: Sorting;
  sortBy: (sorting: Sorting) => void;
}

function HostTable({ found: { hosts, total }, sorting, sortBy }: HostTableProps): VNode {
  /** Sorts at a click on the title of a column; another click turns the order around. */
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
    none=${total === 0 ? 'No host has enrolled yet.' : 'No host matches.'}
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
  ${total > 0 && html`<p class="note">Last seen is when a host asked for its mail, since the relay started.</p>`}`;
}

type Member = ConsoleHost['lineage'][number];

export function Host({ hostKey }: { hostKey: string }): VNode {
  // New events may change its queue.
  const position = samples.value.at(-1)?.log_position ?? 0;
  const load = (): Promise<ConsoleHost> => read<ConsoleHost>('host', { key: hostKey });
  const { value: shown, problem, reload } = useLoaded(load, [hostKey, position], { keptAs: `host ${hostKey}` });

  if (problem && !shown) return html`<h1 tabindex="-1">Host</h1><${Warning} text=${problem} />`;
  if (!shown) return html`<h1 tabindex="-1">Host</h1><p class="none">Asking the relay…</p>`;
  const { host, quotas, lineage } = shown;
  const events = `#/log?${new URLSearchParams({ host: hostKey }).toString()}`;
  const begin = (): void => {
    forgetView(events);
    forgetPlace(events);
  };
  return html`<h1 tabindex="-1"><${Untrusted} text=${host.host} /> <${StateMark} state=${host.state} /></h1>
    <${Warning} text=${problem} />
    <div class="columns">
      <${Panel} title="Enrolment"><${Facts} rows=${enrolment(host)} /></${Panel}>
      <${Panel} title="Quotas">
        ${quotas.map(
          ({ name, unit, used, max }) =>
            html`<${Bar} label=${`${name}, ${unit}`} used=${used} max=${max} unit=${unit} />`,
        )}
      </${Panel}>
    </div>
    <${Panel} title="Queue and lists"><${Facts} rows=${queue(shown)} /></${Panel}>
    <${Panel} title="Keys of this host">
      <${Table}
        label="Keys of this host"
        none="None."
        rows=${lineage}
        keyOf=${(member: Member) => member.host_pubkey}
        columns=${[
          {
            title: 'fingerprint',
            cell: (member: Member) =>
              html`<a href=${hostHref(member.host_pubkey)}><${Code} text=${member.fingerprint} /></a>`,
          },
          {
            title: 'retired',
            cell: (member: Member) =>
              member.retired_at === null ? 'in use' : html`<${Time} at=${member.retired_at} />`,
          },
        ]}
      />
    </${Panel}>
    <p class="actions">
      <a class="button" href=${events} onClick=${begin}>Events of this host</a>
      ${host.revoked_at === null && html`<${Revoke} host=${host} done=${reload} />`}
    </p>`;
}

interface BarProps {
  label: string;
  used: number;
  max: number;
  unit: string;
}

function Bar({ label, used, max, unit }: BarProps): VNode {
  const share = max > 0 ? Math.min(1, Math.max(0, used) / max) : 1;
  const shown = unit === 'bytes' ? `${bytes(used)} of ${bytes(max)}` : `${count(used)} of ${count(max)} ${unit}`;
  const kind = share >= 0.9 ? 'full' : share >= 0.7 ? 'filling' : 'fine';
  return html`<div class="bar">
    <div class="bar-text"><span>${label}</span><span>${shown}</span></div>
    <meter class=${kind} min="0" max="1" value=${share} aria-label="${label}: ${shown}">${shown}</meter>
  </div>`;
}

function untrustedText(text: string | null): ComponentChildren {
  return text === null || text === '' ? NO_VALUE : html`<${Untrusted} text=${text} />`;
}

function when(at: number | null): ComponentChildren {
  return at === null ? NO_VALUE : html`<${Time} at=${at} />`;
}

function enrolment(host: HostShown): FactRow[] {
  return [
    ['fingerprint', html`<${Code} text=${host.fingerprint} />`],
    ['public key', html`<${Code} text=${host.host_pubkey} />`],
    ['account', untrustedText(host.account)],
    ['organisation', untrustedText(host.org)],
    ['client', untrustedText(host.client_id)],
    ['owner (not verified)', untrustedText(host.owner_fp)],
    ['admitted by', host.authorized_by],
    ['enrolled', when(host.enrolled_at)],
    ['valid until', when(host.valid_until)],
    ['revoked', when(host.revoked_at)],
    ['ever used', host.seen ? 'yes' : 'no'],
  ];
}

function queue({ host, ...shown }: ConsoleHost): FactRow[] {
  const pull = shown.last_pull;
  return [
    ['items waiting', count(host.queue_items)],
    ['oldest of them', when(shown.oldest_waiting_at)],
    [
      'last asked for mail',
      pull === null ? 'not since the relay started' : html`<${Time} at=${pull.at} />${sawText(host, pull)}`,
    ],
    ['accepts mail from', shown.allowed_senders === null ? 'everybody' : countText(shown.allowed_senders, 'sender')],
    ['list of senders from', when(shown.senders_published_at)],
    [
      'encryption key',
      shown.enc_key_published_at === null ? 'none' : html`<${Time} at=${shown.enc_key_published_at} />`,
    ],
  ];
}

/** Says whether the last pull showed the host everything. */
function sawText(host: HostShown, pull: NonNullable<ConsoleHost['last_pull']>): string {
  if (host.queue_items === 0) return '';
  return (pull.through ?? 0) >= host.head_seq
    ? ', and was shown all that waits'
    : ', and was not shown all that waits yet';
}

/** The user must type the name to confirm: a revoked key can never be used again. */
function Revoke({ host, done }: { host: HostShown; done: () => Promise<void> }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [problem, setProblem] = useState('');
  const forget = (): void => {
    setTyped('');
    setProblem('');
  };
  const revoke = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await act<ConsoleRevoked>('revoke', { host_pubkey: host.host_pubkey, confirm: typed });
      dialog.current?.close();
      notice.value = `${host.host} is revoked, for good.`;
      await done();
      // The button with the focus no longer exists.
      document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    } catch (error) {
      setProblem(failureText(error));
    }
  };
  return html`<button type="button" class="danger" onClick=${() => dialog.current?.showModal()}>Revoke…</button>
    <dialog ref=${dialog} aria-labelledby="revoke-title" onClose=${forget}>
      <form onSubmit=${(event: Event) => void revoke(event)}>
        <h2 id="revoke-title">Revoke <${Untrusted} text=${host.host} />?</h2>
        <p>
          It can never enrol again with this key.${whatStays(host.queue_items)}
        </p>
        <label>
          <span>Type its name to confirm</span>
          <input
            autocomplete="off"
            spellcheck=${false}
            value=${typed}
            onInput=${onValue(setTyped)}
          />
        </label>
        <${Warning} text=${problem} />
        <p class="actions">
          <button type="button" onClick=${() => dialog.current?.close()}>Keep it</button>
          <button type="submit" class="danger" disabled=${typed !== host.host}>Revoke for good</button>
        </p>
      </form>
    </dialog>`;
}

function whatStays(items: number): string {
  if (items === 0) return '';
  return items === 1
    ? ' Its waiting item stays until it expires.'
    : ` Its ${countText(items, 'waiting item')} stay until they expire.`;
}
