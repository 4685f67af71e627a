/** Code and diffs of others: lines as they are, in a box that scrolls, with a button that copies what is shown. */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { printableText, printableWithin } from '../../protocol/printable.ts';
import { notice } from '../shared/session.ts';

const DIFF_LANGUAGES = new Set(['diff', 'patch']);
/** The first line of a diff, or of a commit with one. */
const DIFF_START = /^\s*(?:diff --git |Index: |@@ -\d|--- \S|commit [\da-f]{7,}|From [\da-f]{40} )/u;
const HUNK = /^@@ -\d+(?:,\d+)? \+\d+/mu;
/** The lines of a diff that get colours: each change of colour is an element. */
const COLOURED_LINES_MAX = 4000;

/** Whether a whole text is a diff. */
export function isDiff(text: string): boolean {
  return DIFF_START.test(text) && HUNK.test(text);
}

interface CodeBlockProps {
  text: string;
  /** The first word behind the fence; `''` without one. */
  language: string;
}

export function CodeBlock({ text, language }: CodeBlockProps): VNode {
  const shown = printableText(text.replace(/\n$/, ''));
  const isColoured = DIFF_LANGUAGES.has(language.toLowerCase()) || isDiff(text);
  const name = isColoured ? 'diff' : printableWithin(language, 40);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(shown);
      notice.value = 'Copied.';
    } catch {
      notice.value = 'This browser does not allow copying: select the text instead.';
    }
  };
  return html`<figure class="code">
    <figcaption>
      <span>${name === '' ? 'code' : name}</span>
      <button type="button" class="quiet" onClick=${() => void copy()}>Copy</button>
    </figcaption>
    <pre tabindex="0" role="region" aria-label=${name === '' ? 'Code' : `Code, ${name}`}><code>${
      isColoured ? diffLines(shown) : shown
    }</code></pre>
  </figure>`;
}

/** Lines of one kind that follow one another are one element. */
function diffLines(text: string): ComponentChildren[] {
  const lines = text.split('\n');
  const parts: ComponentChildren[] = [];
  const coloured = lines.slice(0, COLOURED_LINES_MAX);
  for (let at = 0; at < coloured.length; ) {
    const kind = kindOf(coloured[at] ?? '');
    let end = at + 1;
    while (end < coloured.length && kindOf(coloured[end] ?? '') === kind) end++;
    parts.push(html`<span class="diff-${kind}">${coloured.slice(at, end).join('\n')}${'\n'}</span>`);
    at = end;
  }
  if (lines.length > coloured.length) parts.push(lines.slice(coloured.length).join('\n'));
  return parts;
}

function kindOf(line: string): 'file' | 'hunk' | 'added' | 'removed' | 'same' {
  if (/^(?:\+\+\+ |--- |diff |index )/u.test(line)) return 'file';
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'added';
  return line.startsWith('-') ? 'removed' : 'same';
}
