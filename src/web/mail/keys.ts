/**
 * Single keys. A control says in `aria-keyshortcuts` which key presses it; a control inside an item (`data-item`: a row
 * of a list, a message) is pressed for the item that has the focus. No key acts while the owner types or a dialog is
 * open.
 */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { holdItem, items } from '../shared/place.ts';
import { settings } from './settings-store.ts';

const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ['j / k', 'next or previous conversation or message'],
  ['Enter', 'open what is selected'],
  ['u or Esc', 'back to the list'],
  ['e', 'done: its sender sees that you dealt with it'],
  ['m', 'mark read'],
  ['z', 'undo'],
  ['r', 'reply'],
  ['a', 'reply to all'],
  ['w', 'show the text as it was written, or formatted'],
  ['c', 'write'],
  ['Ctrl+Enter', 'send; on a Mac also Cmd+Enter'],
  ['/', 'search'],
  ['?', 'these keys'],
];
const FIELDS = 'input:not([type=checkbox]), textarea, select, [contenteditable]';

/** Starts to listen. Call it once. */
export function listenForKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.altKey || document.querySelector('dialog[open]')) return;
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.ctrlKey || event.metaKey) {
      // In every form with a text to send; a key that is held sends once.
      if (event.key === 'Enter' && !event.repeat) target?.closest<HTMLFormElement>('form.sends')?.requestSubmit();
      return;
    }
    if (target?.matches(FIELDS)) {
      // The way out of a field for those who use keys alone.
      if (event.key === 'Escape') target.blur();
      return;
    }
    // A key that is held goes on, and does nothing else again: only the last action can be undone.
    if (event.repeat && event.key !== 'j' && event.key !== 'k') return;
    if (settings.value.keys && act(event.key)) event.preventDefault();
  });
}

/** Says whether the key did anything. */
function act(key: string): boolean {
  switch (key) {
    case 'j':
      return move(1);
    case 'k':
      return move(-1);
    case 'c':
      location.hash = '#/compose';
      // Where the form is open already, nothing else gives its first field the focus.
      document.querySelector<HTMLElement>('main form.sends [data-first-focus]')?.focus();
      return true;
    case 'Enter':
      return openItem();
    case '/':
      return search();
    case '?':
      openKeys();
      return true;
    default:
      return /^[a-z]$|^Escape$/.test(key) && press(key);
  }
}

function currentItem(): HTMLElement | undefined {
  return document.activeElement?.closest<HTMLElement>('[data-item]') ?? undefined;
}

/** Focuses the next or the previous item; the first one when none has the focus. */
function move(by: 1 | -1): boolean {
  const all = items();
  const current = currentItem();
  const at = current === undefined ? (by === 1 ? 0 : -1) : all.indexOf(current) + by;
  const item = all[at];
  // Behind the last item there may be more.
  if (!item && by === 1) document.querySelector<HTMLElement>('main [data-more]')?.click();
  focusItem(item);
  return true;
}

export function focusItem(item: HTMLElement | undefined): void {
  holdItem(item);
  item?.scrollIntoView({ block: 'nearest' });
}

/** A row of a table has the focus itself, and is opened by its link. */
function openItem(): boolean {
  const link = document.activeElement?.matches('tr') ? document.activeElement.querySelector('a') : null;
  link?.click();
  return link !== null;
}

/** Presses the control of this key: of the current item, else of the view, else of the item that stands for it. */
function press(key: string): boolean {
  const selector = `[aria-keyshortcuts~="${key}"]`;
  const outside = [...document.querySelectorAll<HTMLElement>(selector)].find((one) => !one.closest('[data-item]'));
  const standing = document.querySelector<HTMLElement>(`main [data-item=main] ${selector}`);
  const control = currentItem()?.querySelector<HTMLElement>(selector) ?? outside ?? standing;
  control?.click();
  return control != null;
}

function search(): boolean {
  const field = document.querySelector<HTMLInputElement>('main input[type=search]');
  if (!field) location.hash = '#/?search';
  field?.focus();
  field?.select();
  return true;
}

export function openKeys(): void {
  document.querySelector<HTMLDialogElement>('#keys')?.showModal();
}

/** The list of keys. The browser keeps the focus in it, closes it with Esc, and gives the focus back. */
export function KeysDialog(): VNode {
  return html`<dialog id="keys" aria-labelledby="keys-title">
    <h2 id="keys-title">Keys</h2>
    <dl class="keys">
      ${KEYS.map(([keys, does]) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${does}</dd></div>`)}
    </dl>
    ${!settings.value.keys && html`<p class="note">They are switched off in the settings.</p>`}
    <p class="actions"><button type="button" onClick=${closeKeys}>Close</button></p>
  </dialog>`;
}

function closeKeys(): void {
  document.querySelector<HTMLDialogElement>('#keys')?.close();
}
