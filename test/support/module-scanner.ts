/**
 * Reads the imports of a TypeScript source without a compiler (TypeScript 7 has no JavaScript API).
 *
 * A tokenizer that knows strings, templates, comments and regular expressions, and nothing more of the language.
 * Where it could lose its way it throws: a source that is misread must never pass as one without imports.
 */
import { posix } from 'node:path';

export type Token =
  /** A name, a keyword or a number. */
  | { kind: 'word'; value: string }
  /** Punctuation; one character, or `?.` or `...`. */
  | { kind: 'mark'; value: string }
  /** What stands between the quotes of a string, or of a template without substitutions. */
  | { kind: 'text'; value: string };

export interface ModuleImport {
  /** As written; `undefined` when it is computed. */
  specifier: string | undefined;
  form: 'import' | 'import type' | 're-export' | 're-export type' | 'import()' | 'require()';
}

export interface ScannedModule {
  tokens: Token[];
  imports: ModuleImport[];
  /** Re-exports of others and nothing of its own. */
  isBarrel: boolean;
}

export class LostInSource extends Error {}

export function scanModule(source: string): ScannedModule {
  const tokens = new Tokenizer(source).all();
  const imports: ModuleImport[] = [];
  const ofStatements = new Set<number>();
  for (let at = 0; at < tokens.length; at++) {
    const statement = readStatement(tokens, at);
    if (statement === undefined) continue;
    if (statement.found) imports.push(statement.found);
    if (!statement.isExpression) for (let inside = at; inside < statement.end; inside++) ofStatements.add(inside);
    at = statement.end - 1;
  }
  const ownTokens = tokens.filter((token, at) => !ofStatements.has(at) && !isMark(token, ';'));
  const reExports = imports.some(({ form }) => form === 're-export' || form === 're-export type');
  return { tokens, imports, isBarrel: reExports && ownTokens.length === 0 };
}

/** The path a relative specifier means, seen from `importer`; both with `/` and relative to the same root. */
export function resolveRelative(importer: string, specifier: string): string {
  return posix.join(posix.dirname(importer), specifier);
}

/** Whether the word at `at` is used as a name of its own: no property, no name of a member. */
export function isFreeWord(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1];
  const after = tokens[at + 1];
  if (tokens[at]?.kind !== 'word' || isMark(before, '.') || isMark(before, '?.')) return false;
  const namesMember = isMark(after, ':') || (isMark(after, '?') && isMark(tokens[at + 2], ':'));
  const beginsMember = ['{', ',', ';'].some((mark) => isMark(before, mark)) || isWord(before, 'readonly');
  return !(namesMember && beginsMember);
}

interface Statement {
  found: ModuleImport | undefined;
  /** Index behind the last token. */
  end: number;
  isExpression: boolean;
}

function readStatement(tokens: readonly Token[], at: number): Statement | undefined {
  if (!isFreeWord(tokens, at)) return undefined;
  switch (tokens[at]?.value) {
    case 'import':
      return readImport(tokens, at);
    case 'export':
      return readExport(tokens, at);
    case 'require':
      return isMark(tokens[at + 1], '(') ? readCall(tokens, at, 'require()') : undefined;
    default:
      return undefined;
  }
}

function readImport(tokens: readonly Token[], at: number): Statement | undefined {
  const next = tokens[at + 1];
  if (isMark(next, '.')) return undefined;
  if (isMark(next, '(')) return readCall(tokens, at, 'import()');
  if (next?.kind === 'text') {
    return { found: { specifier: next.value, form: 'import' }, end: at + 2, isExpression: false };
  }
  const importsDefaultCalledType = isMark(tokens[at + 2], ',') || isFrom(tokens, at + 2);
  const form = isWord(next, 'type') && !importsDefaultCalledType ? 'import type' : 'import';
  return readFrom(tokens, at + 1, form);
}

function readExport(tokens: readonly Token[], at: number): Statement | undefined {
  const form = isWord(tokens[at + 1], 'type') ? 're-export type' : 're-export';
  const start = form === 're-export' ? at + 1 : at + 2;
  if (isMark(tokens[start], '*')) return readFrom(tokens, start, form);
  if (!isMark(tokens[start], '{')) return undefined;
  const close = tokens.findIndex((token, index) => index > start && isMark(token, '}'));
  if (close === -1) throw new LostInSource('an export list without an end');
  if (isFrom(tokens, close + 1)) return readFrom(tokens, close + 1, form);
  // Names of this module: no import, and nothing of its own either.
  return { found: undefined, end: close + 1, isExpression: false };
}

function readFrom(tokens: readonly Token[], start: number, form: ModuleImport['form']): Statement {
  const from = tokens.findIndex((_, index) => index >= start && isFrom(tokens, index));
  const specifier = tokens[from + 1];
  const interrupted = tokens.slice(start, from).some((token) => isMark(token, ';') || isMark(token, '='));
  if (from === -1 || specifier === undefined || interrupted) throw new LostInSource(`an ${form} without a path`);
  return { found: { specifier: specifier.value, form }, end: from + 2, isExpression: false };
}

function readCall(tokens: readonly Token[], at: number, form: 'import()' | 'require()'): Statement {
  const argument = tokens[at + 2];
  const isLiteral = argument?.kind === 'text' && (isMark(tokens[at + 3], ')') || isMark(tokens[at + 3], ','));
  return { found: { specifier: isLiteral ? argument.value : undefined, form }, end: at + 2, isExpression: true };
}

function isFrom(tokens: readonly Token[], at: number): boolean {
  return isWord(tokens[at], 'from') && tokens[at + 1]?.kind === 'text';
}

function isMark(token: Token | undefined, value: string): boolean {
  return token?.kind === 'mark' && token.value === value;
}

function isWord(token: Token | undefined, value: string): boolean {
  return token?.kind === 'word' && token.value === value;
}

const WORD = /[\p{ID_Continue}$#@]+/uy;
const SPACE = /\s+/uy;
/** Behind these a slash begins a regular expression although a word stands before it. */
const BEFORE_EXPRESSION = new Set(
  'await case delete do else in instanceof of return throw typeof void yield'.split(' '),
);

class Tokenizer {
  private readonly source: string;
  private readonly tokens: Token[] = [];
  private at = 0;

  constructor(source: string) {
    this.source = source;
  }

  all(): Token[] {
    this.readUntil(undefined);
    return this.tokens;
  }

  /** Reads up to the `}` that closes a substitution, or to the end of the source. */
  private readUntil(close: '}' | undefined): void {
    let open = 0;
    while (this.at < this.source.length) {
      if (this.skip(SPACE) !== undefined) continue;
      const character = this.source.charAt(this.at);
      const word = this.skip(WORD);
      if (word !== undefined) this.tokens.push({ kind: 'word', value: word });
      else if (character === '"' || character === "'") this.readString(character);
      else if (character === '`') this.readTemplate();
      else if (character === '/') this.readSlash();
      else {
        if (character === '{') open++;
        if (character === '}' && open-- === 0 && close !== undefined) return;
        this.readMark(character);
      }
    }
    if (close !== undefined) throw new LostInSource('a substitution without an end');
  }

  private skip(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const skipped = pattern.exec(this.source)?.[0];
    if (skipped !== undefined) this.at += skipped.length;
    return skipped;
  }

  private readMark(character: string): void {
    const value = ['...', '?.'].find((mark) => this.source.startsWith(mark, this.at)) ?? character;
    this.tokens.push({ kind: 'mark', value });
    this.at += value.length;
  }

  private readString(quote: string): void {
    const start = ++this.at;
    while (this.source[this.at] !== quote) this.stepInLine('a string');
    this.tokens.push({ kind: 'text', value: this.source.slice(start, this.at++) });
  }

  private readTemplate(): void {
    const start = ++this.at;
    let isPlain = true;
    while (this.source[this.at] !== '`') {
      if (this.at >= this.source.length) throw new LostInSource('a template without an end');
      if (this.source.startsWith('${', this.at)) {
        isPlain = false;
        this.tokens.push({ kind: 'mark', value: '`' });
        this.at += 2;
        this.readUntil('}');
        this.at++;
      } else this.at += this.source[this.at] === '\\' ? 2 : 1;
    }
    this.tokens.push(
      isPlain ? { kind: 'text', value: this.source.slice(start, this.at) } : { kind: 'mark', value: '`' },
    );
    this.at++;
  }

  private readSlash(): void {
    if (this.source.startsWith('//', this.at)) {
      const end = this.source.indexOf('\n', this.at);
      this.at = end === -1 ? this.source.length : end;
    } else if (this.source.startsWith('/*', this.at)) {
      const end = this.source.indexOf('*/', this.at + 2);
      if (end === -1) throw new LostInSource('a comment without an end');
      this.at = end + 2;
    } else if (this.isExpressionNext()) this.readRegularExpression();
    else this.readMark('/');
  }

  private readRegularExpression(): void {
    this.at++;
    for (let inClass = false; inClass || this.source[this.at] !== '/'; this.stepInLine('a regular expression')) {
      if (this.source[this.at] === '[') inClass = true;
      if (this.source[this.at] === ']') inClass = false;
    }
    this.at++;
    this.tokens.push({ kind: 'mark', value: '/' });
    // The flags, which are no word of their own.
    this.skip(WORD);
  }

  private isExpressionNext(): boolean {
    const before = this.tokens.at(-1);
    if (before === undefined) return true;
    if (before.kind === 'word') return BEFORE_EXPRESSION.has(before.value);
    return before.kind === 'mark' && ![')', ']', '}', '`', '/'].includes(before.value);
  }

  /** One character further, two behind a backslash; neither strings nor regular expressions cross a line. */
  private stepInLine(what: string): void {
    const character = this.source[this.at];
    if (character === undefined || character === '\n') throw new LostInSource(`${what} without an end`);
    this.at += character === '\\' ? 2 : 1;
  }
}
