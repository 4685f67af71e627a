/** The operator's console: its views and their routes. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { Frame, startPage } from '../shared/frame.ts';
import { Host } from './host.ts';
import { Hosts } from './hosts.ts';
import { Item } from './item.ts';
import { Log } from './log.ts';
import { Overview } from './overview.ts';
import { type Route, followRelay, route } from './state.ts';

const TEXTS = {
  title: 'Poste relay',
  signIn: "Open this console with a one-time link. Run this command on the relay's machine:",
  command: 'poste relay console',
};

function Page(): VNode {
  const here = route.value;
  const view = `${here.view} ${here.subject}`;
  const links = [
    { href: '#/', name: 'Overview', isCurrent: here.view === 'overview' },
    { href: '#/hosts', name: 'Hosts', isCurrent: here.view === 'hosts' || here.view === 'host' },
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
    case 'log':
      return html`<${Log} />`;
    case 'item':
      return html`<${Item} lsn=${here.subject} />`;
  }
}

startPage(Page, followRelay);
