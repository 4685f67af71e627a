/**
 * Sends one HTTP request to a program that listens at a Unix domain socket. Nothing waits for ever. A failure has a
 * reason; the caller puts it into words.
 */
import { lstatSync } from 'node:fs';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { socketFault } from './socket-owner.ts';

export type RequestFault =
  | 'not listening'
  /** The socket belongs to another user. */
  | 'not allowed'
  /** Another user may have made the socket: `detail` says why. Nothing was sent. */
  | 'not trusted'
  /** The program ended before its answer was complete. */
  | 'gone'
  | 'silent'
  /** The answer is no HTTP, or its body is no JSON document. */
  | 'foreign'
  | 'failed';

export class SocketRequestFailed extends Error {
  readonly fault: RequestFault;
  /** The error code of the system; `''` when there is none. */
  readonly code: string;
  readonly detail: string;

  constructor(fault: RequestFault, code = '', detail = '') {
    super(`the request failed: ${fault}`);
    this.fault = fault;
    this.code = code;
    this.detail = detail;
  }
}

export interface SocketRequest {
  socketPath: string;
  method: string;
  target: string;
  headers: OutgoingHttpHeaders;
  body?: string | undefined;
  /** The request fails when the server sends nothing for this long. */
  silenceMs: number;
  signal?: AbortSignal | undefined;
  /** The longest document, or line of a list, that is read. */
  documentCharactersMax: number;
}

/** Resolves when the head of the answer is there. Throws `SocketRequestFailed`, or an `AbortError`. */
export async function socketRequest(asked: SocketRequest): Promise<Answer> {
  const { socketPath, method, target, headers, body = '', silenceMs, signal } = asked;
  const doubt = socketFault(socketPath);
  if (doubt !== undefined) throw new SocketRequestFailed('not trusted', '', doubt);
  if (isAbsent(socketPath)) throw new SocketRequestFailed('not listening', 'ENOENT');
  // Loaded only now: a hook that finds no daemon ends sooner than this loads.
  const { request } = await import('node:http');
  return new Promise((resolve, reject) => {
    let open: ClientRequest | IncomingMessage = request({
      socketPath,
      method,
      path: target,
      headers: { ...headers, ...(body !== '' && { 'content-length': Buffer.byteLength(body) }) },
      agent: false,
      ...(signal && { signal }),
    });
    const outgoing = open;
    outgoing.setTimeout(silenceMs, () => open.destroy(new SocketRequestFailed('silent')));
    outgoing.on('error', (error) => reject(failureOf(error)));
    outgoing.on('response', (response) => {
      open = response;
      resolve(new Answer(response, asked.documentCharactersMax));
    });
    outgoing.end(body);
  });
}

function isAbsent(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    // Opening it will tell what is wrong with it.
    return false;
  }
}

/** The answer of the server. Its body can be read once. */
export class Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly #response: IncomingMessage;
  readonly #charactersMax: number;

  constructor(response: IncomingMessage, charactersMax: number) {
    this.#charactersMax = charactersMax;
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    this.#response = response;
  }

  /** The chunks of the body as they come. Throws `SocketRequestFailed` where it breaks off. */
  async *chunks(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of this.#response) yield chunk as Buffer;
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** The lines of the body, none of them empty. Throws `SocketRequestFailed`, also when the last one is not ended. */
  async *lines(): AsyncGenerator<string> {
    let rest = '';
    for await (const text of this.#texts()) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > this.#charactersMax) throw new SocketRequestFailed('foreign');
      yield* lines;
    }
    if (rest !== '') throw new SocketRequestFailed('gone');
  }

  /** Throws `SocketRequestFailed`. */
  async text(): Promise<string> {
    let all = '';
    for await (const text of this.#texts()) {
      all += text;
      if (all.length > this.#charactersMax) throw new SocketRequestFailed('foreign');
    }
    return all;
  }

  async *#texts(): AsyncGenerator<string> {
    this.#response.setEncoding('utf8');
    try {
      for await (const text of this.#response) yield text as string;
    } catch (error) {
      throw failureOf(error);
    }
  }
}

function failureOf(error: unknown): unknown {
  if (error instanceof SocketRequestFailed) return error;
  const { code = '', name } = error as NodeJS.ErrnoException;
  if (name === 'AbortError') return error;
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return new SocketRequestFailed('not listening', code);
  if (code === 'EACCES' || code === 'EPERM') return new SocketRequestFailed('not allowed', code);
  if (code === 'ECONNRESET' || code === 'EPIPE') return new SocketRequestFailed('gone', code);
  if (code.startsWith('HPE_')) return new SocketRequestFailed('foreign', code);
  return new SocketRequestFailed('failed', code);
}
