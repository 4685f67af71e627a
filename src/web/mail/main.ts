/** The owner's mail: its views and their routes. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { Frame, startPage } from '../shared/frame.ts';
import { Compose } from './compose.ts';
import { Conversation } from './conversation.ts';
import { Delivery } from './delivery.ts';
import { Inbox } from './inbox.ts';
import { Sent } from './sent.ts';
import { type Route, followMail, route, unread } from './state.ts';

const TEXTS = {
  title: 'Poste mail',
  signIn: 'Open your mailbox with a one-time link. Run this command on this machine:',
  command: 'poste inbox --web',
};

function Page(): VNode {
  const here = route.value;
  const view = `${here.view} ${here.subject}`;
  useEffect(() => {
    document.title = unread.value > 0 ? `(${unread.value}) ${TEXTS.title}` : TEXTS.title;
  }, [unread.value]);
  const links = [
    {
      href: '#/',
      name: 'Inbox',
      isCurrent: here.view === 'inbox' || here.view === 'conversation',
      badge: { count: unread.value, unit: 'unread' },
    },
    { href: '#/sent', name: 'Sent', isCurrent: here.view === 'sent' || here.view === 'delivery' },
    { href: '#/compose', name: 'Write', isCurrent: here.view === 'compose' },
  ];
  return html`<${Frame} texts=${TEXTS} links=${links} view=${view}>
    <${View} key=${view} here=${here} />
  </${Frame}>`;
}

function View({ here }: { here: Route }): VNode {
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

startPage(Page, followMail);
