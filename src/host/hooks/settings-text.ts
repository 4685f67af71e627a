/**
 * The text of a settings file in JSON: what it means, and how it is changed. Only the members that change are written;
 * the rest stays to the byte, as do the comments, and the commas before a closing bracket, that some programs allow.
 */
import { isDeepStrictEqual } from 'node:util';
import { findNodeAtLocation, type JSONPath, type Node, parse, type ParseError, parseTree } from 'jsonc-parser';

const REPAIR = 'repair it and try again';

/** The settings cannot be used; the message completes "<file> …", and the remedy says what to do. */
export class SettingsRefused extends Error {
  readonly remedy: string;

  constructor(message: string, remedy = REPAIR) {
    super(message);
    this.remedy = remedy;
  }
}

/** The settings would mean something else than they should after a change of their lines. */
export function badLayout(): SettingsRefused {
  return new SettingsRefused('is laid out in a way that Poste does not change by itself');
}

/** Parses the text; no text means no settings. Throws `SettingsRefused`. */
export function settingsOf(text = ''): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // It may be JSON with comments.
  }
  const errors: ParseError[] = [];
  const settings: unknown = parse(text, errors, { allowTrailingComma: true });
  if (errors.length > 0) throw new SettingsRefused('is no JSON');
  return settings;
}

/**
 * The text of settings in JSON after a change. It is the same text when nothing changes, and none when there was none
 * and nothing is to be written. Throws `SettingsRefused`.
 */
export function changedJson(text: string | undefined, change: (settings: unknown) => object): string | undefined {
  const settings = settingsOf(text);
  const changed = change(settings);
  if (text === undefined ? Object.keys(changed).length === 0 : isDeepStrictEqual(settings, changed)) return text;
  if (text === undefined || text.trim() === '') return `${JSON.stringify(changed, null, '  ')}\n`;
  const after = editValue(text, [], settings, changed);
  let means: unknown;
  try {
    means = settingsOf(after);
  } catch {
    throw badLayout();
  }
  if (!isDeepStrictEqual(means, changed)) throw badLayout();
  return after;
}

function editValue(text: string, path: JSONPath, before: unknown, after: unknown): string {
  if (isDeepStrictEqual(before, after)) return text;
  if (Array.isArray(before) && Array.isArray(after)) return editedList(text, path, before, after);
  if (!isRecord(before) || !isRecord(after)) return replaceValue(text, path, after);
  let now = text;
  for (const name of Object.keys(before)) if (!(name in after)) now = removeValue(now, path, name);
  for (const [name, value] of Object.entries(after)) {
    const isThere = Object.hasOwn(before, name);
    now = isThere ? editValue(now, [...path, name], before[name], value) : addValue(now, path, value, name);
  }
  return now;
}

/** Items stay in their order: some go, some are added at the end, or each may change in its place. */
function editedList(text: string, path: JSONPath, before: readonly unknown[], after: readonly unknown[]): string {
  const isKept = (item: unknown): boolean => after.some((other) => isDeepStrictEqual(item, other));
  const kept = before.filter(isKept);
  let now = text;
  if (isDeepStrictEqual(kept, after.slice(0, kept.length)) && (kept.length > 0 || after.length !== before.length)) {
    for (let at = before.length - 1; at >= 0; at--) if (!isKept(before[at])) now = removeValue(now, path, at);
    for (const item of after.slice(kept.length)) now = addValue(now, path, item);
    return now;
  }
  if (before.length !== after.length) return replaceValue(text, path, after);
  for (const [at, item] of after.entries()) now = editValue(now, [...path, at], before[at], item);
  return now;
}

function nodeAt(text: string, path: JSONPath): Node {
  const root = parseTree(text, [], { allowTrailingComma: true });
  const node = root && findNodeAtLocation(root, path);
  if (!node) throw badLayout();
  return node;
}

function endOf({ offset, length }: Node): number {
  return offset + length;
}

/** The first place from `at` on that is neither white space nor a comment. */
function afterTrivia(text: string, at: number): number {
  const trivia = /(?:\s|\/\/[^\n\r]*|\/\*[^]*?\*\/)*/y;
  trivia.lastIndex = at;
  return at + (trivia.exec(text)?.[0].length ?? 0);
}

/** The end of what a line still holds from `at` on, when that is a comment; else `at`. */
function afterLineComment(text: string, at: number): number {
  const comment = /[ \t]*(?:\/\*(?:(?!\*\/)[^\n\r])*\*\/[ \t]*)*(?:\/\/[^\n\r]*|\/\*(?:(?!\*\/)[^\n\r])*\*\/)/y;
  comment.lastIndex = at;
  return at + (comment.exec(text)?.[0].length ?? 0);
}

function indentAt(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf('\n', at - 1) + 1, at);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

/** `value` as it stands in `text` below a line of this indentation. */
function jsonText(text: string, indent: string, value: unknown): string {
  return JSON.stringify(value, null, unitOf(text)).replaceAll('\n', `${lineEndOf(text)}${indent}`);
}

function unitOf(text: string): string {
  return /\n([ \t]+)\S/.exec(text)?.[1] ?? '  ';
}

/** The end of the first line of a text: all of its lines end so. */
export function lineEndOf(text: string): string {
  return /\r?\n/.exec(text)?.[0] ?? '\n';
}

function replaceValue(text: string, path: JSONPath, value: unknown): string {
  const node = nodeAt(text, path);
  const shown = jsonText(text, indentAt(text, node.offset), value);
  return `${text.slice(0, node.offset)}${shown}${text.slice(endOf(node))}`;
}

/**
 * Adds the value at the end of an object, by its name, or of a list: on a line of its own, unless all of them stand on
 * one line. A comment beside the last one stays beside it.
 */
function addValue(text: string, path: JSONPath, value: unknown, name?: string): string {
  const parent = nodeAt(text, path);
  const outer = indentAt(text, parent.offset);
  const last = parent.children?.at(-1);
  const isBelow = last !== undefined && text.slice(parent.offset, last.offset).includes('\n');
  const indent = isBelow ? indentAt(text, last.offset) : `${outer}${unitOf(text)}`;
  const close = endOf(parent) - 1;
  const inside = text.slice(parent.offset + 1, close);
  const isOneLine = last !== undefined && !inside.includes('\n');
  const gap = isOneLine && !/[:,]\s/.test(inside) ? '' : ' ';
  const label = name === undefined ? '' : `${JSON.stringify(name)}:${gap}`;
  const line = isOneLine
    ? `${gap}${label}${JSON.stringify(value)}`
    : `${lineEndOf(text)}${indent}${label}${jsonText(text, indent, value)}`;
  if (!last) {
    const before = `${text.slice(0, parent.offset + 1)}${inside.trimEnd()}`;
    return `${before}${line}${lineEndOf(text)}${outer}${text.slice(close)}`;
  }
  const next = afterTrivia(text, endOf(last));
  const hasComma = text[next] === ',';
  const from = hasComma ? next + 1 : endOf(last);
  const lineEnd = afterLineComment(text, from);
  const before = `${text.slice(0, endOf(last))}${hasComma ? text.slice(endOf(last), from) : ','}`;
  const tail = text.slice(lineEnd);
  const isClosed = isBelow || isOneLine || tail.startsWith('\n') || tail.startsWith('\r');
  const closing = isClosed ? '' : `${lineEndOf(text)}${outer}`;
  return `${before}${text.slice(from, lineEnd)}${line}${hasComma ? ',' : ''}${closing}${tail}`;
}

/** Removes a member or an item, with its comma and the lines that it leaves empty. */
function removeValue(text: string, path: JSONPath, name: string | number): string {
  const value = nodeAt(text, [...path, name]);
  const child = typeof name === 'string' ? (value.parent ?? value) : value;
  const siblings = child.parent?.children ?? [];
  const next = afterTrivia(text, endOf(child));
  if (text[next] === ',') return cut(text, child.offset, next + 1);
  const before = siblings[siblings.indexOf(child) - 1];
  const from = before ? endOf(before) : (child.parent?.offset ?? 0) + 1;
  // As it was added: with the white space between the value before, or the bracket, and this one.
  if (/^\s*,?\s*$/.test(text.slice(from, child.offset)) && /^\s*$/.test(text.slice(endOf(child), next)))
    return `${text.slice(0, from)}${text.slice(before ? endOf(child) : next)}`;
  const left = cut(text, child.offset, endOf(child));
  if (!before) return left;
  const comma = afterTrivia(text, endOf(before));
  return `${left.slice(0, comma)}${left.slice(comma + 1)}`;
}

/** The lines that are left empty go too. */
function cut(text: string, start: number, end: number): string {
  const before = /\r?\n[ \t]*$/.exec(text.slice(0, start))?.index;
  const isLineOver = /^[ \t]*(?:\r?\n|$)/.test(text.slice(end));
  if (isLineOver) return `${text.slice(0, before ?? start)}${text.slice(end)}`;
  return `${text.slice(0, start)}${text.slice(end).replace(/^[ \t]+/, '')}`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
