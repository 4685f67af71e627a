/** The body of a message: text of others in its own lines, and nothing else. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { printable } from '../protocol/printable.ts';

export function BodyText({ text }: { text: string }): VNode {
  if (text === '') return html`<p class="none">It has no body.</p>`;
  return html`<div class="body" dir="auto">${lines(text)}</div>`;
}

/** Line ends and tabs stay; whatever else cannot be seen is written out. */
function lines(text: string): string {
  const shown = text.replaceAll('\r\n', '\n').split('\n');
  return shown
    .map((line) =>
      line
        .split('\t')
        .map((part) => printable(part))
        .join('\t'),
    )
    .join('\n');
}
