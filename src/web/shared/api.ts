/**
 * Requests to the process that served this page, by relative paths. The browser sends the session cookie; this file
 * keeps the CSRF token that each action needs.
 */
import type { PageSession } from '../../protocol/page-documents.ts';

/** Why a request failed. */
export class Problem extends Error {
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: string, detail: string, details: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.code = code;
    this.details = details;
  }
}

let csrf = '';

/** Throws `Problem`. */
export async function read<T>(path: string, query: Readonly<Record<string, string>> = {}): Promise<T> {
  const parameters = new URLSearchParams(query).toString();
  return answer<T>(await fetch(`${path}${parameters === '' ? '' : `?${parameters}`}`).catch(unreachable));
}

/** With `keepalive` the request goes out even when the page is being left; browsers take small ones alone. Throws `Problem`. */
export async function act<T>(path: string, body: object, { keepalive = false } = {}): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-poste-csrf': csrf };
  const request = { method: 'POST', headers, body: JSON.stringify(body), keepalive };
  return answer<T>(await fetch(path, request).catch(unreachable));
}

/** Opens a session with the token of a link. Throws `Problem`. */
export async function signIn(token: string): Promise<void> {
  csrf = (await act<PageSession>('session', { token })).csrf;
}

/** Continues the session that the browser has. Throws `Problem`. */
export async function resume(): Promise<void> {
  csrf = (await read<PageSession>('session')).csrf;
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
