/** The hosts of the relay as a list with a search, the biggest queues first. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { ConsoleHosts, HostShown } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Code, NO_VALUE, StateMark, Table, Untrusted, Warning } from '../shared/components.ts';
import { SearchField, SelectField } from '../shared/fields.ts';
import { bytes, count } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { hostHref } from './state.ts';

const STATES = [['', 'every state'], ...['live', 'expired', 'revoked', 'rotated'].map((state) => [state, state])];
/** A search starts after a pause in typing of this length. */
const TYPING_MS = 200;

export function Hosts(): VNode {
  const [search, setSearch] = useState('');
  const [state, setState] = useState('');
  const load = (): Promise<ConsoleHosts> => read<ConsoleHosts>('hosts', { search, state });
  const { value: found, problem } = useLoaded(load, [search, state], TYPING_MS);

  return html`<h1 tabindex="-1">Hosts</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <${SearchField} placeholder="name, account, owner or key" charactersMax=${100} value=${search} change=${setSearch} />
      <${SelectField} label="State" value=${state} options=${STATES} change=${setState} />
    </form>
    <${Warning} text=${problem} />
    ${found && html`<p class="note" role="status">${summary(found)}</p>`}
    ${found && html`<section class="panel"><${HostTable} hosts=${found.hosts} /></section>`}`;
}

function summary({ hosts, matches, total }: ConsoleHosts): string {
  const listed = hosts.length < matches ? `, the ${count(hosts.length)} with the biggest queues are shown` : '';
  return `${count(matches)} of ${count(total)} host keys${listed}`;
}

function HostTable({ hosts }: { hosts: readonly HostShown[] }): VNode {
  return html`<${Table}
    label="Hosts"
    none="No host matches."
    rows=${hosts}
    keyOf=${(host: HostShown) => host.host_pubkey}
    columns=${[
      {
        title: 'name',
        cell: (host: HostShown) => html`<a href=${hostHref(host.host_pubkey)}><${Untrusted} text=${host.host} /></a>`,
      },
      { title: 'state', cell: (host: HostShown) => html`<${StateMark} state=${host.state} />` },
      {
        title: 'account',
        cell: (host: HostShown) => (host.account === null ? NO_VALUE : html`<${Untrusted} text=${host.account} />`),
      },
      {
        title: 'owner',
        cell: (host: HostShown) => (host.owner_fp === '' ? NO_VALUE : html`<${Untrusted} text=${host.owner_fp} />`),
      },
      { title: 'fingerprint', cell: (host: HostShown) => html`<${Code} text=${host.fingerprint} />` },
      { title: 'items', isNumber: true, cell: (host: HostShown) => count(host.queue_items) },
      { title: 'bytes', isNumber: true, cell: (host: HostShown) => bytes(host.queue_bytes) },
    ]}
  />`;
}
