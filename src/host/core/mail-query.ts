/**
 * The language of searches: words, "phrases", and filters as `from:alice`. Everything that is asked for must be true of
 * a message. Pure; the index only proposes messages, and `isMeantBy` decides by the message itself.
 */
import { isoTime, timeMsOf } from '../../protocol/time.ts';
import { type EntryRow, MESSAGE_KINDS, type MessageRow } from './rows.ts';
import { type Term, foldText, patternOf, termsIn, termsOf } from './words.ts';

export type MailState = 'unread' | 'unacked' | 'all';

interface QueryText {
  folded: string;
  pattern: RegExp;
}

export interface MailQuery {
  state: MailState;
  /** Undefined: messages that need a reply, and those that do not. */
  needsReply: boolean | undefined;
  /** A text is in the sender, the subject or the body. */
  texts: QueryText[];
  inSubject: QueryText[];
  /** Folded addresses, or names without a host. */
  from: string[];
  to: string[];
  kinds: string[];
  /** Stored at this time or later, and before the other. */
  sinceMs: number;
  untilMs: number;
  /** The index has all of these for a message that is meant. */
  terms: Term[];
}

/** The terms by which the index finds a message; no word holds a colon. */
const SUBJECT = 's:';
const FROM = 'f:';
const TO = 't:';
const KIND = 'k:';
/** A message with more recipients, or more terms, has none in the index, and is looked at for every query. */
const TO_TERMS_MAX = 64;
const TERMS_MAX = 4096;

/** `(filter:)?"phrase"`, where the last quote may be missing, or anything without spaces. */
const PARTS = /(?:(?<name>[a-z]+):)?"(?<phrase>[^"]*)"?|\S+/giu;
/** Neither an address as http://a.example, nor a time or port as localhost:80, nor std::vector. */
const FILTER = /^(?<name>[a-z]+):(?<value>[^/:\d\\].*)$/u;
const DATE = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z)?$/u;

const FILTERS = ['from', 'to', 'kind', 'subject', 'is', 'before', 'after'] as const;
type Filter = (typeof FILTERS)[number];

/** A query that means every message. */
export function emptyQuery(state: MailState = 'all'): MailQuery {
  const lists = { texts: [], inSubject: [], from: [], to: [], kinds: [], terms: [] };
  return { state, needsReply: undefined, ...lists, sinceMs: 0, untilMs: Number.POSITIVE_INFINITY };
}

/** The query of a text; or what is wrong with it, as the rest of a sentence. */
export function parseMailQuery(text: string): MailQuery | string {
  const query = emptyQuery();
  let isEmpty = true;
  for (const { 0: part, groups: { name, phrase } = {} } of text.matchAll(PARTS)) {
    const filter = name === undefined ? filterIn(part) : { name: name.toLowerCase(), value: phrase ?? '' };
    if (filter === undefined) {
      addText(query, phrase ?? part, phrase !== undefined);
    } else if (isFilter(filter.name)) {
      const problem = addFilter(query, filter.name, filter.value, phrase !== undefined);
      if (problem !== undefined) return problem;
      isEmpty = false;
    } else {
      const names = FILTERS.map((one) => `${one}:`).join(', ');
      return `has ${filter.name}:, which is no filter: use ${names}, or put it all in quotes`;
    }
  }
  return isEmpty && query.terms.length === 0 ? 'holds no word' : query;
}

function filterIn(part: string): { name: string; value: string } | undefined {
  const colon = part.indexOf(':');
  const name = part.slice(0, Math.max(colon, 0)).toLowerCase();
  if (isFilter(name)) return { name, value: part.slice(colon + 1) };
  const { name: other, value } = FILTER.exec(part)?.groups ?? {};
  return other === undefined || value === undefined ? undefined : { name: other, value };
}

function isFilter(name: string): name is Filter {
  return (FILTERS as readonly string[]).includes(name);
}

function addText(query: MailQuery, text: string, isWhole: boolean): void {
  const folded = foldText(text.trim());
  if (folded === '') return;
  query.texts.push({ folded, pattern: patternOf(folded, isWhole) });
  query.terms.push(...termsIn(folded, isWhole));
}

/** Returns what is wrong with the value. */
function addFilter(query: MailQuery, name: Filter, value: string, isWhole: boolean): string | undefined {
  const folded = foldText(value.trim());
  switch (name) {
    case 'from':
    case 'to':
      if (folded === '') return `has ${name}: without an agent or agent@host`;
      addAddress(query, name, folded);
      return undefined;
    case 'kind':
      return addKind(query, folded);
    case 'subject': {
      const terms = termsIn(folded, isWhole);
      if (terms.length === 0) return 'has subject: without a word';
      query.inSubject.push({ folded, pattern: patternOf(folded, isWhole) });
      query.terms.push(...terms.map(({ text, isPrefix }) => ({ text: SUBJECT + text, isPrefix })));
      return undefined;
    }
    case 'is':
      return addIs(query, folded);
    case 'before':
    case 'after':
      return addTime(query, name, value);
  }
}

/** Narrows a query to mail from an agent, or to one. */
export function addAddress(query: MailQuery, side: 'from' | 'to', address: string): void {
  const folded = foldText(address);
  const isWhole = folded.includes('@');
  query[side].push(folded);
  query.terms.push({ text: (side === 'from' ? FROM : TO) + folded + (isWhole ? '' : '@'), isPrefix: !isWhole });
}

/** As `addAddress`, to one kind. Returns what is wrong with it. */
export function addKind(query: MailQuery, kind: string): string | undefined {
  if (!(MESSAGE_KINDS as readonly string[]).includes(kind))
    return `has kind: without one of ${MESSAGE_KINDS.join(', ')}`;
  query.kinds.push(kind);
  query.terms.push({ text: KIND + kind, isPrefix: false });
  return undefined;
}

function addIs(query: MailQuery, value: string): string | undefined {
  switch (value) {
    case 'unread':
    case 'unacked':
      addState(query, value);
      return undefined;
    case 'needs-reply':
      query.needsReply = true;
      return undefined;
    default:
      return 'has is: without one of unread, unacked, needs-reply';
  }
}

/** A day begins in UTC, as times are shown to programs. */
function addTime(query: MailQuery, name: 'before' | 'after', value: string): string | undefined {
  const timeMs = DATE.test(value) ? timeMsOf(value) : Number.NaN;
  // The engine takes 2026-02-30 for a day in March.
  if (Number.isNaN(timeMs) || !isoTime(timeMs).startsWith(value.slice(0, 10)))
    return `has ${name}: without a date such as 2026-03-31`;
  if (name === 'before') query.untilMs = Math.min(query.untilMs, timeMs);
  else query.sinceMs = Math.max(query.sinceMs, timeMs);
  return undefined;
}

/** Narrows a query to a state. */
export function addState(query: MailQuery, state: MailState): void {
  if (query.state === 'all' || state === 'unread') query.state = state;
}

/** Says whether an entry's state is the one that is asked for. */
export function isInState({ state }: Pick<EntryRow, 'state'>, wanted: MailState): boolean {
  return wanted === 'all' || (wanted === 'unread' ? state === 'unread' : state !== 'acked');
}

/** Says whether the query means the message, but for its state. `body` is called when it decides. */
export function isMeantBy(query: MailQuery, message: MessageRow, body: () => string): boolean {
  if (!query.from.every((one) => isAddress(message.from, one))) return false;
  if (!query.to.every((one) => message.to.some((address) => isAddress(address, one)))) return false;
  if (!query.kinds.every((kind) => kind === message.kind)) return false;
  if (query.texts.length + query.inSubject.length === 0) return true;
  const subject = foldText(message.subject);
  if (!query.inSubject.every((text) => isIn(subject, text))) return false;
  const head = `${foldText(message.from)}\n${subject}`;
  const missing = query.texts.filter((text) => !isIn(head, text));
  if (missing.length === 0) return true;
  const folded = foldText(body());
  return missing.every((text) => isIn(folded, text));
}

function isAddress(address: string, folded: string): boolean {
  const own = foldText(address);
  return folded.includes('@') ? own === folded : own.startsWith(`${folded}@`);
}

/** Most texts that are looked at have not even the characters: that is quickly seen. */
function isIn(text: string, { folded, pattern }: QueryText): boolean {
  return (text.includes(folded) || /\s/u.test(folded)) && pattern.test(text);
}

/** The terms of a message for the index; undefined when it has more than the index takes. */
export function termsOfMessage(message: MessageRow, body: string): Set<string> | undefined {
  if (message.to.length > TO_TERMS_MAX) return undefined;
  const subject = termsOf(foldText(message.subject));
  const heads = [KIND + message.kind, FROM + foldText(message.from), ...message.to.map((one) => TO + foldText(one))];
  const terms = new Set([...heads, ...subject.map((term) => SUBJECT + term), ...subject]);
  for (const text of [message.from, body]) {
    for (const term of termsOf(foldText(text))) {
      terms.add(term);
      if (terms.size > TERMS_MAX) return undefined;
    }
  }
  return terms;
}
