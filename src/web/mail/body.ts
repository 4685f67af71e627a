/** The body of a message: Markdown formatted, plain text and everything else as it was written. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { linked } from './links.ts';
import { FORMATTED_CHARACTERS_MAX, formatted } from './markdown.ts';

/** Lines that a browser lays out together; others wait until they are near the window. */
const CHUNK_LINES = 200;

export function BodyText({ text }: { text: string }): VNode {
  const [isAsWritten, setAsWritten] = useState(false);
  const elements = useMemo(() => formatted(text), [text]);
  if (text === '') return html`<p class="none">This message has no body.</p>`;
  if (!elements) {
    const isLong = text.length > FORMATTED_CHARACTERS_MAX;
    return html`${isLong && html`<p class="note">A long message: it is shown as it was written.</p>`}<${AsWritten} text=${text} />`;
  }
  return html`<p class="body-switch">
      <button
        type="button"
        class="quiet"
        aria-pressed=${isAsWritten ? 'true' : 'false'}
        aria-keyshortcuts="w"
        onClick=${() => setAsWritten(!isAsWritten)}
      >
        As written
      </button>
    </p>
    ${isAsWritten ? html`<${AsWritten} text=${text} />` : html`<div class="body formatted" dir="auto">${elements}</div>`}`;
}

/** The text in its own lines, monospaced, with its links. */
function AsWritten({ text }: { text: string }): VNode {
  const chunks = useMemo(() => chunksOf(text), [text]);
  return html`<div class="body as-written" dir="auto">
    ${chunks.map((chunk) => html`<div class="lines" dir="auto">${linked(chunk)}</div>`)}
  </div>`;
}

/** Each chunk but the last ends with its line end, which its own block does not show twice. */
function chunksOf(text: string): string[] {
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const chunks: string[] = [];
  for (let at = 0; at < lines.length; at += CHUNK_LINES) {
    const isLast = at + CHUNK_LINES >= lines.length;
    chunks.push(lines.slice(at, at + CHUNK_LINES).join('\n') + (isLast ? '' : '\n'));
  }
  return chunks;
}
