/**
 * Keeps what the owner writes and has not sent in this window of the browser, over a reload and a crash of its tab.
 *
 * The window's storage can be read by any program that takes the page's port while the daemon is down. So a draft lies
 * there sealed, with a key that the daemon gives to a session alone, and that stays in memory. Without a session, and
 * in that of another host, nobody reads it.
 */
import { signal } from '@preact/signals';
import { act } from '../shared/api.ts';
import { failureText } from '../shared/session.ts';

export interface Draft {
  to: readonly string[];
  /** An address that is half typed. */
  typed: string;
  subject: string;
  body: string;
  kind: string;
  needsReply: boolean;
  /** True of a reply that goes to all. */
  isToAll: boolean;
  /** The idempotency key that exactly this was sent with, when no answer came. */
  sentWith?: string;
}

export const NEW_DRAFT: Draft = {
  to: [],
  typed: '',
  subject: '',
  body: '',
  kind: 'message',
  needsReply: false,
  isToAll: false,
};

/** DO NOT CHANGE: a draft of another form has another version. */
const STORED_AS = 'poste-draft-1 ';
/** The most characters that all drafts of a window take. Browsers give the whole page about five million. */
const CHARACTERS_MAX = 2_000_000;
const NONCE_BYTES = 12;

const drafts = signal<ReadonlyMap<string, Draft>>(new Map());
let key: CryptoKey | undefined;

/** Says whether a draft is in memory alone, because the browser has no room for it or seals nothing. */
export const isUnkept = signal(false);

export function draftOf(name: string): Draft | undefined {
  return drafts.peek().get(name);
}

function put(name: string, draft: Draft | undefined): void {
  const others = [...drafts.peek()].filter(([other]) => other !== name);
  drafts.value = new Map(draft ? [...others, [name, draft]] : others);
}

/** Opens what this window kept. Call it once, with an open session. */
export async function openDrafts(): Promise<void> {
  try {
    const { key: text } = await act<{ key: string }>('drafts-key', {});
    const bytes = bytesOf(atob(text.replaceAll('-', '+').replaceAll('_', '/')));
    key = await crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt']);
  } catch (error) {
    failureText(error);
    return;
  }
  for (const stored of Object.keys(sessionStorage)) {
    const name = stored.startsWith(STORED_AS) ? stored.slice(STORED_AS.length) : undefined;
    const draft = name !== undefined && (await open(name, key));
    if (draft) put(name, draft);
  }
}

/** A draft and the functions that change it and let go of it. `first` is what it begins with. */
export function useDraft(name: string, first: Draft): [Draft, (changes: Partial<Draft>) => void, () => void] {
  const draft = drafts.value.get(name) ?? first;
  return [draft, (changes) => void changeDraft(name, first, changes), () => dropDraft(name)];
}

/**
 * Returns the draft with `changes`, which it keeps; `first` is what one begins with. One that stays the same keeps the
 * key that it was sent with.
 */
export function changeDraft(name: string, first: Draft, changes: Partial<Draft>): Draft {
  const kept = draftOf(name);
  const { sentWith: _no, ...last } = kept ?? first;
  const changed = { ...last, ...changes };
  if (kept && JSON.stringify(changed) === JSON.stringify(last)) return kept;
  void keepDraft(name, changed);
  return changed;
}

/** Resolves when the browser has it; `isUnkept` says when it does not take it. */
export async function keepDraft(name: string, draft: Draft): Promise<void> {
  put(name, draft);
  const text = key && (await seal(name, draft, key));
  // Only the last change counts, and the end of the draft.
  if (draftOf(name) !== draft) return;
  isUnkept.value = text === undefined || !store(STORED_AS + name, text);
}

function dropDraft(name: string): void {
  put(name, undefined);
  sessionStorage.removeItem(STORED_AS + name);
}

/**
 * Lets go of what was sent, and keeps what the owner typed meanwhile: of a body that goes on, what comes behind. The
 * recipients, the subject and the options stay for it, as the owner sees them.
 */
export function dropSent(name: string, sent: Draft): void {
  const { sentWith: _no, ...last } = draftOf(name) ?? sent;
  const { sentWith: _neither, ...before } = sent;
  const behind = last.body.startsWith(sent.body) ? last.body.slice(sent.body.length) : last.body;
  // Neither the line break nor the blank before it belongs to what comes.
  const body = behind.trim() === '' ? '' : behind.replace(/^(?:[^\S\n]*\n)+|^ /, '');
  if (body === '' && JSON.stringify({ ...last, body: sent.body }) === JSON.stringify(before)) dropDraft(name);
  else void keepDraft(name, { ...last, body });
}

function store(name: string, text: string): boolean {
  const others = Object.keys(sessionStorage).filter((one) => one.startsWith(STORED_AS) && one !== name);
  const characters = others.reduce((sum, one) => sum + (sessionStorage.getItem(one)?.length ?? 0), text.length);
  try {
    // An older form of it would come back as if it were the last one.
    sessionStorage.removeItem(name);
    if (characters <= CHARACTERS_MAX) sessionStorage.setItem(name, text);
    return characters <= CHARACTERS_MAX;
  } catch {
    return false;
  }
}

/** A nonce and the sealed draft, each byte as one character. The name is sealed with it: none stands for another. */
async function seal(name: string, draft: Draft, with_: CryptoKey): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const text = new TextEncoder().encode(JSON.stringify(draft));
  const bytes = await crypto.subtle.encrypt({ name: 'AES-GCM', iv, additionalData: utf8(name) }, with_, text);
  return textOf(iv) + textOf(new Uint8Array(bytes));
}

/** Returns `undefined` for what another key sealed: that of another host, or of an earlier one. */
async function open(name: string, with_: CryptoKey): Promise<Draft | undefined> {
  const bytes = bytesOf(sessionStorage.getItem(STORED_AS + name) ?? '');
  const iv = bytes.subarray(0, NONCE_BYTES);
  try {
    const algorithm = { name: 'AES-GCM', iv, additionalData: utf8(name) };
    const text = await crypto.subtle.decrypt(algorithm, with_, bytes.subarray(NONCE_BYTES));
    return JSON.parse(new TextDecoder().decode(text)) as Draft;
  } catch {
    return undefined;
  }
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function textOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
