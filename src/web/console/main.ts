/** The operator's console: its views and the way between them. */
import { render, type VNode } from 'preact';
import { html } from 'htm/preact';
import { Frame } from '../shared/frame.ts';
import { openSession } from '../shared/session.ts';
import { Host } from './host.ts';
import { Hosts } from './hosts.ts';
import { Item } from './item.ts';
import { Log } from './log.ts';
import { Overview } from './overview.ts';
import { type Place, followRelay, place } from './state.ts';

const WORDS = {
  title: 'Poste relay',
  door: 'This console opens with a link that is good once. On the machine of the relay:',
  command: 'poste relay console',
};

function Page(): VNode {
  const here = place.value;
  const mark = `${here.view} ${here.subject}`;
  const ways = [
    { to: '#/', name: 'Overview', isHere: here.view === 'overview' },
    { to: '#/hosts', name: 'Hosts', isHere: here.view === 'hosts' || here.view === 'host' },
    { to: '#/log', name: 'Log', isHere: here.view === 'log' || here.view === 'item' },
  ];
  return html`<${Frame} words=${WORDS} ways=${ways} place=${mark}>
    <${View} key=${mark + here.query.toString()} here=${here} />
  </${Frame}>`;
}

function View({ here }: { here: Place }): VNode {
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

const app = document.querySelector('#app');
if (!app) throw new Error('invariant: the page has a place for the app');
render(html`<${Page} />`, app);
void openSession(followRelay);
