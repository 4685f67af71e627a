/** The operator's console: its views and their routes. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { Frame, startPage } from '../shared/frame.ts';
import { Host, Hosts } from './hosts.ts';
import { Invites } from './invites.ts';
import { Item } from './item.ts';
import { Log } from './log.ts';
import { Overview } from './overview.ts';
import { LeadsElsewhere } from './shared-log.ts';
import { type Route, followRelay, overview, route } from './state.ts';

const TEXTS = {
  title: 'Poste relay',
  signIn: "Open this console with a one-time link. Run this command on the relay's machine:",
  command: 'poste relay console',
};

function Page(): VNode {
  const here = route.value;
  const view = `${here.view} ${here.subject}`;
  const known = overview.value;
  const first = { href: '#/', name: 'Overview', isCurrent: here.view === 'overview' };
  if (known?.role === 'following') {
    const { leader } = known.shared_log;
    return html`<${Frame} texts=${TEXTS} links=${[first]} view=${view}>
      ${
        here.view === 'overview'
          ? html`<${Overview} />`
          : html`<h1 tabindex="-1">Poste relay</h1>
              <${LeadsElsewhere} leader=${leader} />`
      }
    </${Frame}>`;
  }
  const links = [
    first,
    { href: '#/hosts', name: 'Hosts', isCurrent: here.view === 'hosts' || here.view === 'host' },
    { href: '#/invites', name: 'Invites', isCurrent: here.view === 'invites' },
    { href: '#/log', name: 'Log', isCurrent: here.view === 'log' || here.view === 'item' },
  ];
  return html`<${Frame} texts=${TEXTS} links=${links} view=${view}>
    <${View} key=${view + here.query.toString()} here=${here} />
  </${Frame}>`;
}

function View({ here }: { here: Route }): VNode {
  switch (here.view) {
    case 'overview':
      return html`<${Overview} />`;
    case 'hosts':
      return html`<${Hosts} />`;
    case 'host':
      return html`<${Host} hostKey=${here.subject} />`;
    case 'invites':
      return html`<${Invites} />`;
    case 'log':
      return html`<${Log} />`;
    case 'item':
      return html`<${Item} lsn=${here.subject} />`;
  }
}

startPage(Page, followRelay);
