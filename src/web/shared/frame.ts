/** The frame of a page: its sign-in view, or header and navigation around the current view. */
import { type ComponentChildren, type ComponentType, type VNode, render } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { Warning } from './components.ts';
import { connection } from './live.ts';
import { keepPlaces } from './place.ts';
import { notice, openSession, session, signInProblem, signOut } from './session.ts';

const CONNECTION_TEXTS = { connecting: 'connecting', live: 'live', lost: 'connection lost' } as const;

interface PageTexts {
  title: string;
  /** The sentence before the command that prints a link. */
  signIn: string;
  command: string;
}

interface NavLink {
  href: string;
  name: string;
  isCurrent: boolean;
  /** The key that goes there, where the page has keys. */
  keys?: string;
  /** A number beside the name, and what it counts; 0 is not shown. */
  badge?: { count: number; unit: string };
}

interface FrameProps {
  texts: PageTexts;
  links: readonly NavLink[];
  /** Identifies the view: when it changes, the heading of the new view gets the focus. */
  view: string;
  children?: ComponentChildren;
}

/** Shows a page and signs its user in; calls `prepare` before its views are shown, and `opened` when they are. */
export function startPage(Page: ComponentType, opened: () => void, prepare?: () => Promise<void>): void {
  const app = document.querySelector('#app');
  if (!app) throw new Error('invariant: the page has an element #app');
  keepPlaces();
  render(html`<${Page} />`, app);
  void openSession(opened, prepare);
}

/** The frame around `children` for a user who is signed in, else the sign-in view. */
export function Frame(props: FrameProps): VNode {
  switch (session.value) {
    case 'opening':
      return html`<main class="sign-in"><p class="none">Opening…</p></main>`;
    case 'none':
      return html`<${SignIn} ...${props.texts} />`;
    case 'open':
      return html`<${Views} ...${props} />`;
  }
}

function SignIn({ title, signIn, command }: PageTexts): VNode {
  return html`<main class="sign-in">
    <h1>${title}</h1>
    <${Warning} text=${signInProblem.value} />
    <p>${signIn}</p>
    <pre><code>${command}</code></pre>
    <p class="note">It prints a link that works once, within a minute.</p>
  </main>`;
}

function Views({ texts, links, view, children }: FrameProps): VNode {
  // Users of a keyboard or a screen reader start at the top of a new view, or at the item that they left.
  useEffect(() => {
    if (document.activeElement?.closest('main [data-item]')) return;
    const first = document.querySelector<HTMLElement>('main [data-first-focus]');
    (first ?? document.querySelector<HTMLElement>('main h1'))?.focus({ preventScroll: true });
  }, [view]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <span class="brand"><img src="icon.svg" alt="" width="22" height="22" />${texts.title}</span>
      <nav aria-label="Views">${links.map((link) => html`<${ViewLink} ...${link} />`)}</nav>
      <span class="connection connection-${connection.value}" role="status">${CONNECTION_TEXTS[connection.value]}</span>
      <button type="button" class="quiet" onClick=${() => void signOut()}>Sign out</button>
    </header>
    <main id="main" tabindex="-1">
      <p class="notice" role="status" aria-live="polite">${notice.value}</p>
      ${children}
    </main>`;
}

function ViewLink({ href, name, isCurrent, keys, badge }: NavLink): VNode {
  const shown = badge && badge.count > 0 ? badge : undefined;
  return html`<a href=${href} aria-current=${isCurrent ? 'page' : undefined} aria-keyshortcuts=${keys}
    >${name}
    ${shown && html` <span class="nav-badge">${shown.count}<span class="unseen"> ${shown.unit}</span></span>`}</a
  >`;
}

/** The hash is the route, so the link moves the focus itself instead of changing the hash. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('#main')?.focus();
}
