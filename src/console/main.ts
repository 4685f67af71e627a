/** The page: the door, the frame around the views, and the way between them. */
import type { VNode } from 'preact';
import { render } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { act, enter, resume } from './api.ts';
import { Host } from './host.ts';
import { Hosts } from './hosts.ts';
import { Item } from './item.ts';
import { Log } from './log.ts';
import { Overview } from './overview.ts';
import { type Place, connection, doorNote, failed, follow, notice, place, session } from './state.ts';

const TOKEN = /^#token=([A-Za-z0-9_-]+)$/;
const CONNECTION_WORDS = { connecting: 'connecting', live: 'live', lost: 'connection lost' } as const;

function Page(): VNode {
  switch (session.value) {
    case 'opening':
      return html`<main class="door"><p class="none">Opening…</p></main>`;
    case 'none':
      return html`<${Door} />`;
    case 'open':
      return html`<${Frame} />`;
  }
}

function Door(): VNode {
  return html`<main class="door">
    <h1>Poste relay</h1>
    ${doorNote.value && html`<p class="warning" role="alert">${doorNote.value}</p>`}
    <p>This console opens with a link that is good once. On the machine of the relay:</p>
    <pre><code>poste relay console</code></pre>
    <p class="note">It prints the link, which is good for a minute.</p>
  </main>`;
}

function Frame(): VNode {
  const here = place.value;
  const mark = `${here.view} ${here.subject}`;
  // Whoever goes by keyboard or by ear begins at the top of the new view.
  useEffect(() => document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true }), [mark]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <span class="brand"><img src="/console/icon.svg" alt="" width="22" height="22" />Poste relay</span>
      <nav aria-label="Views">
        <${Way} to="#/" name="Overview" isHere=${here.view === 'overview'} />
        <${Way} to="#/hosts" name="Hosts" isHere=${here.view === 'hosts' || here.view === 'host'} />
        <${Way} to="#/log" name="Log" isHere=${here.view === 'log' || here.view === 'item'} />
      </nav>
      <span class="connection connection-${connection.value}" role="status">${CONNECTION_WORDS[connection.value]}</span>
      <button type="button" class="quiet" onClick=${() => void leave()}>Sign out</button>
    </header>
    <main id="main" tabindex="-1">
      <p class="notice" role="status" aria-live="polite">${notice.value}</p>
      <${View} key=${mark + here.query.toString()} here=${here} />
    </main>`;
}

function Way({ to, name, isHere }: { to: string; name: string; isHere: boolean }): VNode {
  return html`<a href=${to} aria-current=${isHere ? 'page' : undefined}>${name}</a>`;
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

/** The hash is the way between views, so that the link cannot be one to a place in the page. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('#main')?.focus();
}

async function leave(): Promise<void> {
  try {
    await act('leave', {});
    session.value = 'none';
  } catch (error) {
    notice.value = failed(error);
  }
}

/** A link that was opened twice leads to the session that it began. Throws why it is not good when there is none. */
async function resumeInstead(refused: unknown): Promise<void> {
  await resume().catch(() => {
    throw refused;
  });
}

async function open(): Promise<void> {
  const token = TOKEN.exec(location.hash)?.[1];
  // It stays neither in the address nor in the history.
  if (token !== undefined) history.replaceState(null, '', '/console/#/');
  try {
    await (token === undefined ? resume() : enter(token).catch(resumeInstead));
    session.value = 'open';
    follow();
  } catch (error) {
    const words = failed(error);
    if (token !== undefined) doorNote.value = words;
    session.value = 'none';
  }
}

const app = document.querySelector('#app');
if (!app) throw new Error('invariant: the page has a place for the app');
render(html`<${Page} />`, app);
addEventListener('hashchange', () => {
  // A fresh link in the same tab.
  if (TOKEN.test(location.hash)) location.reload();
});
void open();
