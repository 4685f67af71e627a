/**
 * Requests to the process that served this page, by relative paths. The browser sends the session cookie, to servers of
 * others on this machine too; this file keeps the CSRF token that each request needs besides it. The token stays within
 * the page's origin: in the storage of each window, and on a channel by which a new window gets it from an open one.
 */
import type { PageSession } from '../../protocol/page-documents.ts';

/** Says why a request failed. */
export class Problem extends Error {
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: string, detail: string, details: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.code = code;
    this.details = details;
  }
}

const KEPT = 'poste-csrf';
const CHANNEL = 'poste-session';
/** A new window waits this long for an open one to answer. */
const OTHER_WINDOW_MS = 500;

const csrf = (): string => sessionStorage.getItem(KEPT) ?? '';
const asHeader = (): { 'x-poste-csrf': string } => ({ 'x-poste-csrf': csrf() });

/** A window sends `''` to ask for the token, and the token to answer. A window that gets a token keeps it. */
const others = new BroadcastChannel(CHANNEL);
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- A channel has no target: it is of one origin.
const tell = (text: string): void => others.postMessage(text);
others.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  if (typeof data !== 'string') return;
  if (data !== '') sessionStorage.setItem(KEPT, data);
  else if (csrf() !== '') tell(csrf());
});

/** Throws `Problem`. */
export async function read<T>(path: string, query: Readonly<Record<string, string>> = {}): Promise<T> {
  const parameters = new URLSearchParams(query).toString();
  const target = `${path}${parameters === '' ? '' : `?${parameters}`}`;
  return answer<T>(await fetch(target, { headers: asHeader() }).catch(unreachable));
}

/** The stream of live events, as text. Throws `Problem`. */
export async function liveText(signal: AbortSignal): Promise<ReadableStream<string>> {
  const response = await fetch('live', { headers: asHeader(), signal }).catch(unreachable);
  if (!response.ok || !response.body) return answer(response);
  return response.body.pipeThrough(new TextDecoderStream());
}

/** With `keepalive` the request goes out even as the page is left; browsers take small ones alone. Throws `Problem`. */
export async function act<T>(path: string, body: object, { keepalive = false } = {}): Promise<T> {
  const headers = { 'content-type': 'application/json', ...asHeader() };
  const request = { method: 'POST', headers, body: JSON.stringify(body), keepalive };
  return answer<T>(await fetch(path, request).catch(unreachable));
}

/** Opens a session with the token of a link. Throws `Problem`. */
export async function signIn(token: string): Promise<void> {
  const opened = await act<PageSession>('session', { token });
  sessionStorage.setItem(KEPT, opened.csrf);
  // The browser has one cookie: the other windows go on with the new session.
  tell(opened.csrf);
}

/** Continues the session of this window, or of another one that is open. Throws `Problem`. */
export async function resume(): Promise<void> {
  if (csrf() === '') await tokenOfOther();
  await read<PageSession>('session');
}

function tokenOfOther(): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(waited);
      others.removeEventListener('message', heard);
      resolve();
    };
    // Another new window may ask at the same time.
    const heard = ({ data }: MessageEvent<unknown>): void => {
      if (typeof data === 'string' && data !== '') end();
    };
    const waited = setTimeout(end, OTHER_WINDOW_MS);
    others.addEventListener('message', heard);
    tell('');
  });
}

interface ProblemAnswer {
  code?: string;
  detail?: string;
  details?: Readonly<Record<string, unknown>>;
}

async function answer<T>(response: Response): Promise<T> {
  const document: unknown = await response.json().catch(() => ({}));
  if (response.ok) return document as T;
  const { code = 'UNKNOWN', detail = 'the answer gives no reason', details } = document as ProblemAnswer;
  throw new Problem(code, detail, details);
}

function unreachable(): never {
  throw new Problem('UNREACHABLE', 'no answer: check that poste is still running');
}
