/** The owner's mail: its views and their routes. */
import { render, type VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { Frame } from '../shared/frame.ts';
import { openSession } from '../shared/session.ts';
import { Compose } from './compose.ts';
import { Conversation } from './conversation.ts';
import { Delivery } from './delivery.ts';
import { Inbox } from './inbox.ts';
import { Sent } from './sent.ts';
import { type Place, followMail, place, unread } from './state.ts';

const WORDS = {
  title: 'Poste mail',
  door: 'Your mailbox opens with a link that is good once. On this machine:',
  command: 'poste inbox --web',
};

function Page(): VNode {
  const here = place.value;
  const mark = `${here.view} ${here.subject}`;
  useEffect(() => {
    document.title = unread.value > 0 ? `(${unread.value}) ${WORDS.title}` : WORDS.title;
  }, [unread.value]);
  const ways = [
    {
      to: '#/',
      name: 'Inbox',
      isHere: here.view === 'inbox' || here.view === 'conversation',
      mark: { count: unread.value, unit: 'unread' },
    },
    { to: '#/sent', name: 'Sent', isHere: here.view === 'sent' || here.view === 'delivery' },
    { to: '#/compose', name: 'Write', isHere: here.view === 'compose' },
  ];
  return html`<${Frame} words=${WORDS} ways=${ways} place=${mark}>
    <${View} key=${mark} here=${here} />
  </${Frame}>`;
}

function View({ here }: { here: Place }): VNode {
  switch (here.view) {
    case 'inbox':
      return html`<${Inbox} />`;
    case 'conversation':
      return html`<${Conversation} messageId=${here.subject} />`;
    case 'compose':
      return html`<${Compose} />`;
    case 'sent':
      return html`<${Sent} />`;
    case 'delivery':
      return html`<${Delivery} messageId=${here.subject} />`;
  }
}

const app = document.querySelector('#app');
if (!app) throw new Error('invariant: the page has a place for the app');
render(html`<${Page} />`, app);
void openSession(followMail);
