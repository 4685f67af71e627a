/**
 * Markdown of others as elements of this page. markdown-it reads it into tokens, and each token that is listed here
 * becomes one element without attributes of its own: no markup is ever made of text, so raw HTML stays text, nothing is
 * fetched, and the page's policy, which allows no HTML from strings, holds.
 */
import { type ComponentChildren, type VNode, h } from 'preact';
import { html } from 'htm/preact';
import MarkdownIt, { type Token } from 'markdown-it';
import { printable } from '../../protocol/printable.ts';
import { CodeBlock, isDiff } from './code-block.ts';
import { Link, safeAddress } from './links.ts';

/** A longer text is shown as it was written: reading and laying it out would keep its reader waiting. */
export const FORMATTED_CHARACTERS_MAX = 66_000;
/** How deep lists and quotes may be. The reader leaves out what is deeper: such a text is shown as it was written. */
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
// What may not be followed is not looked for, either: finding `//` takes time that grows with the square of the text.
for (const schema of ['//', 'ftp:', 'mailto:']) reader.linkify.add(schema, null);
reader.validateLink = (address) => safeAddress(address) !== undefined;

/** The text as elements; `undefined` when it is plain text, or too much of anything: then it is shown as written. */
export function formatted(text: string): ComponentChildren[] | undefined {
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
