/** Links of others: http and https alone, opened in a tab that knows nothing of this page, shown with their target. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { printable, printableText } from '../../protocol/printable.ts';

/** A longer address is text: to find where it ends would take too long, and no reader would see where it leads. */
const LINK_CHARACTERS_MAX = 2000;
const LINKS = new RegExp(`https?://[^\\s<>"'\`]{1,${LINK_CHARACTERS_MAX}}`, 'giu');
/** Belongs to the sentence around a link. */
const BEHIND_A_LINK = '.,;:!?*_~';
const OPENING: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' };

/** The address of a link that may be followed. It names nobody: what looks like a host before `@` deceives. */
export function safeAddress(given: string): string | undefined {
  if (given.length > LINK_CHARACTERS_MAX || !URL.canParse(given)) return undefined;
  const { protocol, username, password, href } = new URL(given);
  const isSafe = (protocol === 'https:' || protocol === 'http:') && username === '' && password === '';
  return isSafe ? href : undefined;
}

interface LinkProps {
  address: string;
  /** Its text; where it leads is shown behind it unless the text says just that: letters may look like others. */
  text: string;
  children?: ComponentChildren;
}

/** A link if it may be followed, else its text and its address. */
export function Link({ address, text, children }: LinkProps): VNode {
  const href = safeAddress(address);
  const isSaid = text === href || `${text}/` === href;
  const target = isSaid ? null : html` <span class="link-target">(${printable(href ?? address)})</span>`;
  if (href === undefined) return html`${children}${target}`;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" title=${href}>${children}</a>${target}`;
}

/** Text of others with the links that stand in it. */
export function linked(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(LINKS)) {
    // It may go on.
    if (found.length > LINK_CHARACTERS_MAX) continue;
    const address = withoutTail(found);
    if (safeAddress(address) === undefined) continue;
    const shown = printableText(address);
    parts.push(printableText(text.slice(end, index)));
    parts.push(html`<${Link} address=${address} text=${address}>${shown}</${Link}>`);
    end = index + address.length;
  }
  parts.push(printableText(text.slice(end)));
  return parts;
}

/** A closing bracket belongs to the link only if it was opened in it. One pass: addresses may be made to take long. */
function withoutTail(found: string): string {
  const closed = new Map(Object.keys(OPENING).map((one) => [one, count(found, one)]));
  const opened = new Map(Object.values(OPENING).map((one) => [one, count(found, one)]));
  let end = found.length;
  for (; end > 0; end--) {
    const last = found[end - 1] ?? '';
    if (BEHIND_A_LINK.includes(last)) continue;
    const opening = OPENING[last];
    const times = closed.get(last) ?? 0;
    if (opening === undefined || (opened.get(opening) ?? 0) >= times) break;
    closed.set(last, times - 1);
  }
  return found.slice(0, end);
}

function count(text: string, character: string): number {
  return text.split(character).length - 1;
}
