/** Who is in: a list to search, the biggest queues first. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import type { ConsoleHosts, HostShown } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Code, NOTHING, StateMark, Table, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { hostPlace } from './state.ts';
import { bytes, count } from '../shared/text.ts';

const STATES = ['live', 'expired', 'revoked', 'rotated'];
/** Between two keys of somebody who types. */
const TYPING_MS = 200;

export function Hosts(): VNode {
  const [search, setSearch] = useState('');
  const [state, setState] = useState('');
  const [found, setFound] = useState<ConsoleHosts>();
  const [problem, setProblem] = useState('');

  useEffect(() => {
    let isStale = false;
    const timer = setTimeout(() => {
      read<ConsoleHosts>('hosts', { search, state }).then(
        (hosts) => {
          if (isStale) return;
          setFound(hosts);
          setProblem('');
        },
        (error: unknown) => setProblem(failed(error)),
      );
    }, TYPING_MS);
    return () => {
      isStale = true;
      clearTimeout(timer);
    };
  }, [search, state]);

  return html`<h1 tabindex="-1">Hosts</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <label class="wide">
        <span>Search</span>
        <input
          type="search"
          maxlength="100"
          placeholder="name, account, owner or key"
          value=${search}
          onInput=${(event: { currentTarget: HTMLInputElement }) => setSearch(event.currentTarget.value)}
        />
      </label>
      <label>
        <span>State</span>
        <select
          value=${state}
          onChange=${(event: { currentTarget: HTMLSelectElement }) => setState(event.currentTarget.value)}
        >
          <option value="">every state</option>
          ${STATES.map((one) => html`<option value=${one}>${one}</option>`)}
        </select>
      </label>
    </form>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
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
    none="No host is like that."
    rows=${hosts}
    keyOf=${(host: HostShown) => host.host_pubkey}
    columns=${[
      {
        title: 'name',
        cell: (host: HostShown) => html`<a href=${hostPlace(host.host_pubkey)}><${Words} text=${host.host} /></a>`,
      },
      { title: 'state', cell: (host: HostShown) => html`<${StateMark} state=${host.state} />` },
      {
        title: 'account',
        cell: (host: HostShown) => (host.account === null ? NOTHING : html`<${Words} text=${host.account} />`),
      },
      {
        title: 'owner',
        cell: (host: HostShown) => (host.owner_fp === '' ? NOTHING : html`<${Words} text=${host.owner_fp} />`),
      },
      { title: 'fingerprint', cell: (host: HostShown) => html`<${Code} text=${host.fingerprint} />` },
      { title: 'items', isNumber: true, cell: (host: HostShown) => count(host.queue_items) },
      { title: 'bytes', isNumber: true, cell: (host: HostShown) => bytes(host.queue_bytes) },
    ]}
  />`;
}
