/** The way back from a message, its delivery or the form to write: to the list from which the owner came. */
import { effect } from '@preact/signals';
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { type Route, route } from './state.ts';

const LISTS: Readonly<Partial<Record<Route['view'], readonly [href: string, name: string]>>> = {
  inbox: ['#/', 'the inbox'],
  sent: ['#/sent', 'what you sent'],
  waiting: ['#/waiting', 'who waits'],
  people: ['#/people', 'people'],
};

let last = LISTS.inbox;
effect(() => {
  last = LISTS[route.value.view] ?? last;
});

export function BackLink(): VNode {
  const [href, name] = last ?? [];
  return html`<p><a href=${href} aria-keyshortcuts="u Escape">Back to ${name}</a></p>`;
}
