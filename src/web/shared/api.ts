/**
 * Speaks to the process that served this page, by paths relative to it. The cookie is the browser's business; the token
 * for actions is kept here.
 */
import type { PageSession } from '../../protocol/page-documents.ts';

/** What was said of a request that was not done. */
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
  const asked = new URLSearchParams(query).toString();
  return answer<T>(await fetch(`${path}${asked === '' ? '' : `?${asked}`}`).catch(gone));
}

/** Throws `Problem`. */
export async function act<T>(path: string, body: object): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-poste-csrf': csrf };
  return answer<T>(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(gone));
}

/** Opens a session with the token of a link. Throws `Problem`. */
export async function enter(token: string): Promise<void> {
  csrf = (await act<PageSession>('session', { token })).csrf;
}

/** Goes on with the session that the browser has. Throws `Problem`. */
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
  const { code = 'UNKNOWN', detail = 'no reason was given', details } = document as ProblemAnswer;
  throw new Problem(code, detail, details);
}

function gone(): never {
  throw new Problem('GONE', 'nothing answers: see that poste is still running');
}
