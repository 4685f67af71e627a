/**
 * The body of a message: Markdown formatted, plain text and everything else as it was written.
 *
 * Markdown of others becomes elements of this page: markdown-it reads it into tokens, and each token that is listed
 * here becomes one element without attributes of its own. No markup is ever made of text, so raw HTML stays text,
 * nothing is fetched, and the page's policy, which allows no HTML from strings, holds.
 */
import { type ComponentChildren, type VNode, h } from 'preact';
import { html } from 'htm/preact';
import MarkdownIt, { type Token } from 'markdown-it';
import { printable, printableText, printableWithin } from '../../protocol/printable.ts';
import { notice } from '../shared/session.ts';
import { useMemo, useState } from 'preact/hooks';

/** Lines that a browser lays out together; others wait until they are near the window. */
const CHUNK_LINES = 200;

export function BodyText({ text }: { text: string }): VNode {
  const [isAsWritten, setAsWritten] = useState(false);
  const elements = useMemo(() => format(text), [text]);
  if (text === '') return html`<p class="none">This message has no body.</p>`;
  if (!elements) {
    const isLong = text.length > FORMATTED_CHARACTERS_MAX;
    return html`${isLong && html`<p class="note">A long message: it is shown as it was written.</p>`}
      <${AsWritten} text=${text} />`;
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
    ${
      isAsWritten ? html`<${AsWritten} text=${text} />` : html`<div class="body formatted" dir="auto">${elements}</div>`
    }`;
}

/** The text in its own lines, monospaced, with its links. */
function AsWritten({ text }: { text: string }): VNode {
  const chunks = useMemo(() => chunksOf(text), [text]);
  return html`<div class="body as-written" dir="auto">
    ${chunks.map((chunk) => html`<div class="lines" dir="auto">${link(chunk)}</div>`)}
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

/** A longer text is shown as it was written: reading and laying it out would keep its reader waiting. */
const FORMATTED_CHARACTERS_MAX = 66_000;
/** Lists and quotes may be so deep. The reader leaves out what is deeper: such a text is shown as it was written. */
const NESTING_MAX = 30;
/** The most elements of one text. */
const TOKENS_MAX = 20_000;

const ELEMENTS: Readonly<Record<string, string>> = {
  paragraph: 'p',
  heading: 'h3',
  blockquote: 'blockquote',
  bullet_list: 'ul',
  ordered_list: 'ol',
  list_item: 'li',
  table: 'table',
  thead: 'thead',
  tbody: 'tbody',
  tr: 'tr',
  th: 'th',
  td: 'td',
  strong: 'strong',
  em: 'em',
  s: 's',
};
/** Plain text consists of these. */
const PLAIN = new Set(['paragraph_open', 'inline', 'paragraph_close', 'text', 'softbreak', 'hardbreak']);

const reader = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: NESTING_MAX });
reader.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
// A link that may not be followed is not looked for, either: finding `//` takes time that grows with the square of the
// text.
for (const schema of ['//', 'ftp:', 'mailto:']) reader.linkify.add(schema, null);
reader.validateLink = (address) => safeAddress(address) !== undefined;

/** The text as elements; `undefined` when it is plain text, or too much of anything: then it is shown as written. */
function format(text: string): ComponentChildren[] | undefined {
  if (isDiff(text)) return [html`<${CodeBlock} text=${text} language="diff" />`];
  if (text.length > FORMATTED_CHARACTERS_MAX) return undefined;
  const tokens = reader.parse(text, {});
  let size = 0;
  let isPlain = true;
  for (const { type, children, level } of tokens) {
    if (level >= NESTING_MAX - 1) return undefined;
    size += 1 + (children?.length ?? 0);
    isPlain &&= PLAIN.has(type) && (children ?? []).every(isPlainToken);
  }
  return isPlain || size > TOKENS_MAX ? undefined : elements(tokens);
}

function isPlainToken({ type, markup }: Token): boolean {
  return PLAIN.has(type) || (markup === 'linkify' && type.startsWith('link_'));
}

/** An element that is not closed yet. */
interface Open {
  token: Token | undefined;
  children: ComponentChildren[];
}

function elements(tokens: readonly Token[]): ComponentChildren[] {
  const root: Open = { token: undefined, children: [] };
  const open: Open[] = [root];
  for (const token of tokens) {
    if (token.nesting === 1) {
      open.push({ token, children: [] });
      continue;
    }
    const closed = token.nesting === -1 ? open.pop() : undefined;
    const parent = open.at(-1) ?? root;
    if (closed?.token) parent.children.push(elementOf(closed.token, closed.children));
    else if (!closed)
      parent.children.push(...(isInLink(open) && token.type === 'image' ? [imageText(token)] : leaf(token)));
  }
  return root.children;
}

function elementOf(token: Token, children: ComponentChildren[]): ComponentChildren {
  const name = token.type.replace(/_open$/, '');
  // The paragraphs of a tight list.
  if (token.hidden) return children;
  if (name === 'link') {
    return html`<${Link} address=${attribute(token, 'href')} text=${textOf(children)}>${children}</${Link}>`;
  }
  const element = ELEMENTS[name];
  if (element === undefined) return children;
  if (name === 'heading') return h(element, { class: `heading-${token.tag}`, dir: 'auto' }, children);
  if (name === 'ordered_list') return h(element, { start: Number(attribute(token, 'start') || 1) }, children);
  if (name === 'table') {
    return html`<div class="table-box" tabindex="0" role="region" aria-label="Table"><table>${children}</table></div>`;
  }
  // A header without a word heads nothing.
  if (name === 'th' && children.length === 0) return h('td', {}, children);
  return h(element, name === 'paragraph' || name === 'list_item' ? { dir: 'auto' } : {}, children);
}

function leaf(token: Token): ComponentChildren[] {
  switch (token.type) {
    case 'inline':
      return elements(token.children ?? []);
    case 'softbreak':
    case 'hardbreak':
      return [html`<br />`, '\n'];
    case 'code_inline':
      return [html`<code>${printable(token.content)}</code>`];
    case 'fence':
    case 'code_block':
      return [html`<${CodeBlock} text=${token.content} language=${token.info.trim().split(/\s+/u)[0] ?? ''} />`];
    case 'hr':
      return [html`<hr />`];
    case 'image':
      return [image(token)];
    default:
      return [printable(token.content)];
  }
}

/** An image is not loaded: that would tell its server who reads this mail, and when. */
function image(token: Token): VNode {
  const text = imageText(token);
  return html`<${Link} address=${attribute(token, 'src')} text=${text}>${text}</${Link}>`;
}

function imageText({ content }: Token): string {
  return `[image: ${printable(content === '' ? 'without a name' : content)}]`;
}

/** A link in a link would lead where neither of them says. */
function isInLink(open: readonly Open[]): boolean {
  return open.some(({ token }) => token?.type === 'link_open');
}

function attribute(token: Token, name: string): string {
  return String(token.attrGet(name) ?? '');
}

/** The text of a link, to compare it with where the link leads; `''` when there is more in it than text. */
function textOf(children: readonly ComponentChildren[]): string {
  return children.every((child) => typeof child === 'string') ? children.join('') : '';
}

/** A longer address is text: to find where it ends would take too long, and no reader would see where it leads. */
const LINK_CHARACTERS_MAX = 2000;
const LINKS = new RegExp(`https?://[^\\s<>"'\`]{1,${LINK_CHARACTERS_MAX}}`, 'giu');
/** Belongs to the sentence around a link. */
const BEHIND_A_LINK = '.,;:!?*_~';
const OPENING: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' };

/** The address of a link that may be followed. It names nobody: what looks like a host before `@` deceives. */
function safeAddress(given: string): string | undefined {
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
function Link({ address, text, children }: LinkProps): VNode {
  const href = safeAddress(address);
  const isSaid = text === href || `${text}/` === href;
  const target = isSaid ? null : html` <span class="link-target">(${printable(href ?? address)})</span>`;
  if (href === undefined) return html`${children}${target}`;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" title=${href}>${children}</a>${target}`;
}

/** Text of others with the links that stand in it. */
export function link(text: string): ComponentChildren[] {
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

const DIFF_LANGUAGES = new Set(['diff', 'patch']);
/** The first line of a diff, or of a commit with one. */
const DIFF_START = /^\s*(?:diff --git |Index: |@@ -\d|--- \S|commit [\da-f]{7,}|From [\da-f]{40} )/u;
const HUNK = /^@@ -\d+(?:,\d+)? \+\d+/mu;
/** The lines of a diff that get colours: each change of colour is an element. */
const COLOURED_LINES_MAX = 4000;

function isDiff(text: string): boolean {
  return DIFF_START.test(text) && HUNK.test(text);
}

interface CodeBlockProps {
  text: string;
  /** The first word behind the fence; `''` without one. */
  language: string;
}

function CodeBlock({ text, language }: CodeBlockProps): VNode {
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
