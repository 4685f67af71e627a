/** The owner's mail: its views and their routes. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { Frame, startPage } from '../shared/frame.ts';
import { UndoToast, settleOnLeaving, shownUnread } from './actions.ts';
import { Compose } from './compose.ts';
import { Conversation } from './conversation.ts';
import { openDrafts } from './drafts.ts';
import { Delivery, Sent } from './sent.ts';
import { Inbox } from './inbox.ts';
import { KeysDialog, listenForKeys, openKeys } from './keys.ts';
import { People } from './people.ts';
import { SettingsView } from './settings.ts';
import { Waiting } from './waiting.ts';
import { type Route, followMail, route } from './state.ts';

const TEXTS = {
  title: 'Poste mail',
  signIn: 'Open your mailbox with a one-time link. Run this command on this machine:',
  command: 'poste inbox --web',
};

function Page(): VNode {
  const here = route.value;
  const view = `${here.view} ${here.subject}`;
  useEffect(() => {
    document.title = shownUnread.value > 0 ? `(${shownUnread.value}) ${TEXTS.title}` : TEXTS.title;
  }, [shownUnread.value]);
  const links = [
    {
      href: '#/',
      name: 'Inbox',
      isCurrent: here.view === 'inbox' || here.view === 'conversation',
      badge: { count: shownUnread.value, unit: 'unread' },
    },
    { href: '#/sent', name: 'Sent', isCurrent: here.view === 'sent' || here.view === 'delivery' },
    { href: '#/waiting', name: 'Waiting', isCurrent: here.view === 'waiting' },
    { href: '#/people', name: 'People', isCurrent: here.view === 'people' },
    { href: '#/compose', name: 'Write', isCurrent: here.view === 'compose', keys: 'c' },
    { href: '#/settings', name: 'Settings', isCurrent: here.view === 'settings' },
  ];
  return html`<${Frame} texts=${TEXTS} links=${links} view=${view}>
    <${View} key=${view} here=${here} />
    <p class="foot"><button type="button" class="quiet" aria-keyshortcuts="?" onClick=${openKeys}>Keys</button></p>
    <${UndoToast} />
    <${KeysDialog} />
  </${Frame}>`;
}

function View({ here }: { here: Route }): VNode {
  switch (here.view) {
    case 'inbox':
      return html`<${Inbox} />`;
    case 'conversation':
      return html`<${Conversation} messageId=${here.subject} />`;
    case 'compose':
      return html`<${Compose} first=${here.subject} />`;
    case 'sent':
      return html`<${Sent} />`;
    case 'waiting':
      return html`<${Waiting} />`;
    case 'people':
      return html`<${People} />`;
    case 'settings':
      return html`<${SettingsView} />`;
    case 'delivery':
      return html`<${Delivery} messageId=${here.subject} />`;
  }
}

function begin(): void {
  listenForKeys();
  settleOnLeaving();
  followMail();
}

startPage(Page, begin, openDrafts);
