/** Speaks to the relay that served this page. The cookie is the browser's business; the token for actions is kept here. */
import type { ConsoleSession } from '../protocol/operator-documents.ts';

/** What the relay said of a request that it did not do. */
export class Problem extends Error {
  readonly code: string;

  constructor(code: string, detail: string) {
    super(detail);
    this.code = code;
  }
}

let csrf = '';

/** Throws `Problem`. */
export async function read<T>(path: string, query: Readonly<Record<string, string>> = {}): Promise<T> {
  const asked = new URLSearchParams(query).toString();
  return answer<T>(await fetch(`/console/${path}${asked === '' ? '' : `?${asked}`}`).catch(gone));
}

/** Throws `Problem`. */
export async function act<T>(path: string, body: object): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-poste-csrf': csrf };
  return answer<T>(
    await fetch(`/console/${path}`, { method: 'POST', headers, body: JSON.stringify(body) }).catch(gone),
  );
}

/** Opens a session with the token of `poste relay console`. Throws `Problem`. */
export async function enter(token: string): Promise<void> {
  csrf = (await act<ConsoleSession>('session', { token })).csrf;
}

/** Goes on with the session that the browser has. Throws `Problem`. */
export async function resume(): Promise<void> {
  csrf = (await read<ConsoleSession>('session')).csrf;
}

async function answer<T>(response: Response): Promise<T> {
  const document: unknown = await response.json().catch(() => ({}));
  if (response.ok) return document as T;
  const { code = 'UNKNOWN', detail = 'the relay gave no reason' } = document as { code?: string; detail?: string };
  throw new Problem(code, detail);
}

function gone(): never {
  throw new Problem('GONE', 'the relay does not answer');
}
