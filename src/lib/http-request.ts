/**
 * Sends one HTTP request to another machine. Its connection and its answer are bounded in size and time, redirects are
 * refused, and the connection is kept for requests that follow soon.
 *
 * Connecting has its own time limit: where packets are dropped no error ever comes, and the caller has another way.
 */
import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from 'node:http';
import { Agent as HttpsAgent, request as requestOverTls } from 'node:https';
import { readFileSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';
import { checkServerIdentity, createSecureContext, rootCertificates } from 'node:tls';
import { setMaxListeners } from 'node:events';
import { certificatesIn } from './certificates.ts';

/** Connecting may take this time, with the TLS handshake. */
const CONNECT_TIMEOUT_MS = 4_000;
/** Servers end idle connections after 5 seconds or later; a request on an ended connection gets no answer. */
const IDLE_CONNECTION_MS = 4_000;

export interface HttpRequest {
  method: string;
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer | undefined;
  /** Aborts the request; its reason may be a `TimeoutError`. */
  signal: AbortSignal;
  answerBytesMax: number;
  /** True when what came of an answer that was cut is an answer too. */
  takesCut?: boolean | undefined;
  /** Connecting may take this time; absent: as long as for every request of the caller. */
  connectTimeoutMs?: number | undefined;
}

export interface HttpAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The failure that cut the body: only where the request takes a part of it. */
  cut?: HttpRequestFailed;
}

/** No complete answer came. `message` is a clause for people, `code` the error code of the system, or `''`. */
export class HttpRequestFailed extends Error {
  readonly code: string;
  /** The status of an answer that began; 0 when none did. */
  readonly status: number;

  constructor(message: string, code = '', status = 0, cause?: unknown) {
    super(message, { cause });
    this.code = code;
    this.status = status;
  }
}

export interface HttpCallerOptions {
  /** Certificates of further trusted authorities, beside those of Node, in PEM. */
  ca?: string | undefined;
  connectTimeoutMs?: number;
  /** Replaces the agents of Node, for tests. */
  agent?: HttpAgent;
}

export class HttpCaller {
  readonly #connectTimeoutMs: number;
  readonly #plain: HttpAgent;
  readonly #overTls: HttpAgent;

  constructor({ ca, connectTimeoutMs = CONNECT_TIMEOUT_MS, agent }: HttpCallerOptions = {}) {
    const kept = { keepAlive: true, timeout: IDLE_CONNECTION_MS };
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#plain = agent ?? new HttpAgent(kept);
    // Made once: it takes milliseconds.
    const trusting = ca !== undefined && {
      secureContext: createSecureContext({ ca: [...rootCertificates, ...extraCertificates(), ca] }),
      checkServerIdentity: identityBy(ca),
    };
    this.#overTls = agent ?? new HttpsAgent({ ...kept, ...trusting });
  }

  /** Resolves when the whole answer is there. Throws `HttpRequestFailed`. */
  request(url: string, asked: HttpRequest): Promise<HttpAnswer> {
    const { method, headers, body, signal, connectTimeoutMs = this.#connectTimeoutMs } = asked;
    const isOverTls = url.startsWith('https:');
    const agent = isOverTls ? this.#overTls : this.#plain;
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(failure(signal.reason));
        return;
      }
      let outgoing: ClientRequest;
      try {
        outgoing = (isOverTls ? requestOverTls : request)(url, { method, headers, agent });
      } catch (error) {
        // The URL is not one that a request can be sent to.
        reject(failure(error));
        return;
      }
      const end = (): void => void outgoing.destroy(failure(signal.reason));
      signal.addEventListener('abort', end, { once: true });
      outgoing.once('close', () => signal.removeEventListener('abort', end));
      limitConnecting(outgoing, isOverTls ? 'secureConnect' : 'connect', connectTimeoutMs);
      outgoing.on('error', (error) => reject(failure(error)));
      outgoing.once('response', (incoming) => {
        wholeAnswer(incoming, asked).then(resolve, (error: unknown) => {
          outgoing.destroy();
          reject(failureIn(signal, error));
        });
      });
      outgoing.end(body);
    });
  }
}

function limitConnecting(outgoing: ClientRequest, connected: 'connect' | 'secureConnect', ms: number): void {
  const late = (): void => {
    const within = ms === 1000 ? 'a second' : `${ms / 1000} seconds`;
    outgoing.destroy(new HttpRequestFailed(`no connection within ${within}`, 'CONNECT_TIMEOUT'));
  };
  outgoing.once('socket', (socket) => {
    if (outgoing.reusedSocket) return;
    const timer = setTimeout(late, ms);
    const over = (): void => clearTimeout(timer);
    socket.once(connected, over);
    outgoing.once('close', over);
  });
}

/**
 * Reads the certificates of `NODE_EXTRA_CA_CERTS`, which Node trusts only where no authority is named. What cannot be
 * used Node has warned of when the process began, and ignores.
 */
function extraCertificates(): string[] {
  const { NODE_EXTRA_CA_CERTS: file = '' } = process.env;
  if (file === '') return [];
  try {
    return certificatesIn(readFileSync(file, 'utf8'));
  } catch {
    return [];
  }
}

/** A server whose own certificate is among those of `ca` needs no name in it: nobody else has its key. */
function identityBy(ca: string): typeof checkServerIdentity {
  const named = new Set(certificatesIn(ca).map((pem) => new X509Certificate(pem).fingerprint256));
  return (host, certificate) =>
    named.has(certificate.fingerprint256) ? undefined : checkServerIdentity(host, certificate);
}

async function wholeAnswer(
  incoming: IncomingMessage,
  { answerBytesMax, takesCut, signal }: HttpRequest,
): Promise<HttpAnswer> {
  const { statusCode: status = 0, headers } = incoming;
  if (status >= 300 && status <= 399 && headers.location !== undefined) {
    throw new HttpRequestFailed('it redirects elsewhere, and redirects are not followed', '', 0);
  }
  const chunks: Buffer[] = [];
  let length = 0;
  let cut: HttpRequestFailed | undefined;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > answerBytesMax) throw new HttpRequestFailed('the answer is too long', '', status);
      chunks.push(chunk);
    }
  } catch (error) {
    if (!takesCut || length > answerBytesMax) throw error;
    cut = failureIn(signal, error);
  }
  return { status, headers, body: Buffer.concat(chunks), ...(cut && { cut }) };
}

function failureIn(signal: AbortSignal, error: unknown): HttpRequestFailed {
  return failure(signal.aborted ? signal.reason : error);
}

function failure(error: unknown): HttpRequestFailed {
  if (error instanceof HttpRequestFailed) return error;
  const { code = '', name, message } = error as { code?: string | number; name: string; message: string };
  // A DOMException has a number for its code.
  const text = typeof code === 'string' ? code : '';
  if (name === 'TimeoutError') return new HttpRequestFailed('no answer in time', '', 0, error);
  return new HttpRequestFailed(text === '' ? message : text, text, 0, error);
}

interface LimitedSignal {
  signal: AbortSignal;
  /** Aborts it now. */
  end: (reason: Error) => void;
  /** Call it when the request is over, also when it failed. */
  over: () => void;
}

/**
 * Makes the signal of one request. It aborts when the maker of requests stops, or after a time, with an error named
 * `TimeoutError`; when the request is over, its timer and its listener are removed. `AbortSignal.any` with
 * `AbortSignal.timeout` would keep a listener on the signal of the maker for as long as that lives.
 */
export function limitedSignal(ms: number, stopping?: AbortSignal): LimitedSignal {
  const ending = new AbortController();
  const stop = (): void => ending.abort(stopping?.reason);
  const timer = setTimeout(() => ending.abort(new DOMException('it took too long', 'TimeoutError')), ms);
  timer.unref();
  if (stopping?.aborted) stop();
  else if (stopping) {
    // One listener for each request under way, so no number of them is a leak.
    setMaxListeners(0, stopping);
    stopping.addEventListener('abort', stop, { once: true });
  }
  return {
    signal: ending.signal,
    end: (reason) => ending.abort(reason),
    over: () => {
      clearTimeout(timer);
      stopping?.removeEventListener('abort', stop);
    },
  };
}
