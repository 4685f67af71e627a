/** The door of a page, and the frame around its views. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { connection } from './live.ts';
import { doorNote, leave, notice, session } from './session.ts';

const CONNECTION_WORDS = { connecting: 'connecting', live: 'live', lost: 'connection lost' } as const;

export interface PageWords {
  title: string;
  /** What stands before the command that prints a link. */
  door: string;
  command: string;
}

export interface Way {
  to: string;
  name: string;
  isHere: boolean;
  /** A number to be seen beside the name, and what it counts; 0 is not shown. */
  mark?: { count: number; unit: string };
}

interface FrameProps {
  words: PageWords;
  ways: readonly Way[];
  /** Another one for every other place: the focus goes to its heading. */
  place: string;
  children?: ComponentChildren;
}

/** The door, or, for a user who is signed in, the frame around `children`. */
export function Frame(props: FrameProps): VNode {
  switch (session.value) {
    case 'opening':
      return html`<main class="door"><p class="none">Opening…</p></main>`;
    case 'none':
      return html`<${Door} ...${props.words} />`;
    case 'open':
      return html`<${Views} ...${props} />`;
  }
}

function Door({ title, door, command }: PageWords): VNode {
  return html`<main class="door">
    <h1>${title}</h1>
    ${doorNote.value && html`<p class="warning" role="alert">${doorNote.value}</p>`}
    <p>${door}</p>
    <pre><code>${command}</code></pre>
    <p class="note">It prints the link, which is good for a minute.</p>
  </main>`;
}

function Views({ words, ways, place, children }: FrameProps): VNode {
  // A user of a keyboard or a screen reader begins at the top of the new view.
  useEffect(() => document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true }), [place]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header>
      <span class="brand"><img src="icon.svg" alt="" width="22" height="22" />${words.title}</span>
      <nav aria-label="Views">${ways.map((way) => html`<${WayLink} ...${way} />`)}</nav>
      <span class="connection connection-${connection.value}" role="status">${CONNECTION_WORDS[connection.value]}</span>
      <button type="button" class="quiet" onClick=${() => void leave()}>Sign out</button>
    </header>
    <main id="main" tabindex="-1">
      <p class="notice" role="status" aria-live="polite">${notice.value}</p>
      ${children}
    </main>`;
}

function WayLink({ to, name, isHere, mark }: Way): VNode {
  const shown = mark && mark.count > 0 ? mark : undefined;
  return html`<a href=${to} aria-current=${isHere ? 'page' : undefined}
    >${name}${shown && html` <span class="way-mark">${shown.count}<span class="unseen"> ${shown.unit}</span></span>`}</a
  >`;
}

/** The hash is the way between views, so that the link cannot be one to a place in the page. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('#main')?.focus();
}
