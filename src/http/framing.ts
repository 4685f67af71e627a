/**
 * Checks the target and the framing of a request before anything else.
 *
 * Both versions of uWebSockets.js accept conflicting lengths and odd chunks, with which a client could smuggle a second
 * request past a proxy. So repeated framing headers and chunked bodies are refused, and the connection is closed.
 */
import { HOP_HEADERS } from '../protocol/hop.ts';
import type { Reply, RequestHead } from './exchange.ts';
import { problemReply } from './replies.ts';

/** Headers that may appear only once. */
const ONCE = new Set(['content-length', 'transfer-encoding', 'host', ...Object.values(HOP_HEADERS)]);
/** Visible ASCII without `#`. */
const TARGET_PATTERN = /^\/[!"$-~]*$/;
const LENGTH_PATTERN = /^(?:0|[1-9][0-9]{0,15})$/;

export interface Target {
  path: string;
  /** The part after `?`; `undefined` without one. */
  query: string | undefined;
}

/** Returns the target, or the reply that refuses it. */
export function readTarget({ target }: RequestHead): Target | Reply {
  if (!TARGET_PATTERN.test(target)) {
    return problemReply('BAD_REQUEST', 'the request target is not plain ASCII', { close: true });
  }
  const at = target.indexOf('?');
  return at === -1 ? { path: target, query: undefined } : { path: target.slice(0, at), query: target.slice(at + 1) };
}

export interface Framing {
  /** The declared body length; 0 when none is declared. */
  contentLength: number;
  header: (name: string) => string | undefined;
}

/** Returns the framing, or the reply that refuses it. `isHostNeeded` is false for probes, which may have no Host. */
export function readFraming(head: RequestHead, isHostNeeded = true): Framing | Reply {
  const headers = new Map<string, string>();
  for (const [name, value] of head.headers) {
    if (headers.has(name) && ONCE.has(name)) {
      return problemReply('BAD_REQUEST', `the header ${name} is repeated`, { close: true });
    }
    headers.set(name, value);
  }
  if (isHostNeeded && !headers.has('host'))
    return problemReply('BAD_REQUEST', 'the header host is missing', { close: true });
  if (headers.has('transfer-encoding')) {
    return problemReply('LENGTH_REQUIRED', 'send the body with content-length; chunked requests are refused', {
      close: true,
    });
  }
  const lengthText = headers.get('content-length');
  if (lengthText === undefined && head.method === 'POST') {
    return problemReply('LENGTH_REQUIRED', 'send the body with content-length', { close: true });
  }
  if (lengthText !== undefined && !LENGTH_PATTERN.test(lengthText)) {
    return problemReply('BAD_REQUEST', 'content-length is not a number', { close: true });
  }
  return { contentLength: Number(lengthText ?? 0), header: (name) => headers.get(name) };
}

export function isReply(value: object): value is Reply {
  return 'status' in value;
}
