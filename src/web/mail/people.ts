/** Shows whom the owner can write to: hosts and how mail goes there, and agents with their presence. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { PeopleResult } from '../../host/contract/owner-page.ts';
import { RELAY_STATE_TEXTS } from '../../host/contract/relay-states.ts';
import { printable } from '../../protocol/printable.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { NO_VALUE, Panel, Table, Time, Untrusted } from '../shared/components.ts';
import { duration } from '../shared/format.ts';
import { composeHref, people, shortAddress } from './state.ts';

type Agent = PeopleResult['agents'][number];
type Host = PeopleResult['hosts'][number];

export const PRESENCE_TEXTS: Readonly<Record<Agent['presence'], string>> = {
  live: 'running',
  offline: 'not running',
  remote: 'its host does not tell',
};
export const WAY_TEXTS: Readonly<Record<Host['way'], string>> = {
  here: 'this host',
  lan: 'over the LAN',
  relay: 'over the relay',
  none: 'not reachable now',
  unknown: 'not known yet',
};

export function People(): VNode {
  const known = people.value;
  return html`<h1 tabindex="-1">People</h1>
    ${!known && html`<p class="none">Asking who is there…</p>`}
    ${
      known &&
      html`<${Panel} title="Agents"><${Agents} ...${known} /></${Panel}>
        <${Panel} title="Hosts"><${Hosts} ...${known} /></${Panel}>`
    }`;
}

function Agents({ agents, hosts }: PeopleResult): VNode {
  if (agents.length === 0) {
    return html`<p class="none">No agent is known. This connects yours:</p>
      <pre><code>poste setup</code></pre>`;
  }
  const wayOf = (agent: Agent): Host['way'] => hosts.find(({ host }) => host === agent.host)?.way ?? 'none';
  const columns = [
    { title: 'Agent', cell: ({ address }: Agent) => html`<${Untrusted} text=${shortAddress(address)} />` },
    { title: 'Roles', cell: ({ roles }: Agent) => (roles.length === 0 ? NO_VALUE : printable(roles.join(', '))) },
    { title: 'Presence', cell: (agent: Agent) => html`<${Presence} agent=${agent} />` },
    {
      title: 'Last seen',
      cell: ({ seen_at }: Agent) => (seen_at === null ? NO_VALUE : html`<${Time} at=${timeMsOf(seen_at)} />`),
    },
    {
      title: 'Mail goes',
      cell: (agent: Agent) => (wayOf(agent) === 'here' ? 'on this host' : WAY_TEXTS[wayOf(agent)]),
    },
    {
      title: 'Write',
      cell: ({ address }: Agent) =>
        html`<a href=${composeHref(shortAddress(address))} aria-label="Write to ${printable(address)}">Write</a>`,
    },
  ];
  return html`<${Table} label="Agents" columns=${columns} rows=${agents} keyOf=${addressOf} none="" />`;
}

function Presence({ agent: { presence } }: { agent: Agent }): VNode {
  return html`<span class="mark mark-presence-${presence}">${PRESENCE_TEXTS[presence]}</span>`;
}

function Hosts({ hosts, relay, relays }: PeopleResult): VNode {
  const columns = [
    { title: 'Host', cell: ({ host }: Host) => html`<${Untrusted} text=${host} />` },
    { title: 'Mail goes', cell: ({ way }: Host) => html`<span class="mark mark-way-${way}">${WAY_TEXTS[way]}</span>` },
    {
      title: 'Last reached over the LAN',
      cell: ({ reached_at }: Host) => (reached_at === null ? NO_VALUE : html`<${Time} at=${timeMsOf(reached_at)} />`),
    },
    { title: 'Agents', cell: ({ agents }: Host) => agents ?? 'not told yet', isNumber: true },
    {
      title: 'As of',
      cell: ({ directory_age_seconds: age }: Host) => (age === null ? NO_VALUE : `${duration(age * 1000)} ago`),
    },
  ];
  return html`<${Table} label="Hosts" columns=${columns} rows=${hosts} keyOf=${({ host }: Host) => host} none="" />
    ${
      hosts.length === 1 &&
      html`<p class="note">No other host is paired. On this machine:</p>
        <pre><code>poste peer invite</code></pre>`
    }
    ${relays?.map((one, at) => html`<${RelayLine} ...${one} name=${`Relay ${at + 1}`} />`)}
    ${relay && !relays && html`<${RelayLine} ...${relay} name="The relay" />`}`;
}

/** Shows a relay as `poste status` does. */
function RelayLine({ name, url, state }: NonNullable<PeopleResult['relay']> & { name: string }): VNode {
  return html`<p class="note">${name}: <${Untrusted} text=${url} /> ${RELAY_STATE_TEXTS[state]}</p>
    ${state === 'two-histories' && html`<pre><code>poste relay evidence</code></pre>`}`;
}

function addressOf({ address }: Agent): string {
  return address;
}
