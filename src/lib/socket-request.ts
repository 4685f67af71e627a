/**
 * Sends one HTTP request to a program that listens at a Unix domain socket. Nothing waits for ever. A failure has a
 * reason; the caller puts it into words.
 */
import { lstatSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { AnswerReader, type DocumentAnswer, ForeignAnswer } from './http-answer.ts';
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
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
  /** The request fails when the server sends nothing for this long. */
  silenceMs: number;
  signal?: AbortSignal | undefined;
  /** The longest document, or line of a list, that is read. */
  documentBytesMax: number;
  /** Puts a fault into words: what it returns is thrown. */
  failure: (fault: SocketRequestFailed) => Error;
}

/** Resolves with the answer, which is one document. Throws a `failure`, or an `AbortError`. */
export async function socketRequest(asked: SocketRequest): Promise<DocumentAnswer> {
  const { socketPath, silenceMs, signal, failure } = asked;
  const request = requestBytes(asked);
  refuseSocket(asked);
  // Loaded only now: a hook that finds no daemon ends sooner than this loads.
  const { connect } = await import('node:net');
  if (signal?.aborted) throw abortError(signal);
  const socket = connect(socketPath);
  socket.setTimeout(silenceMs, () => socket.destroy(new SocketRequestFailed('silent')));
  endAtAbort(socket, socket, signal);
  socket.write(request);
  const reader = new AnswerReader(asked.documentBytesMax);
  return new Promise((resolve, reject) => {
    socket.on('data', (bytes: Buffer) => {
      try {
        const answer = reader.read(bytes);
        if (answer) socket.destroy();
        if (answer) resolve(answer);
      } catch (error) {
        socket.destroy(error as ForeignAnswer);
      }
    });
    socket.on('error', (error) => reject(failureOf(error, failure)));
    socket.on('close', () => reject(failure(new SocketRequestFailed('gone'))));
  });
}

/** Resolves when the head of the answer is there; its body is read as it comes. Throws what `socketRequest` throws. */
export async function socketStream(asked: SocketRequest): Promise<StreamedAnswer> {
  const { socketPath, method, target, headers, body, silenceMs, signal, failure } = asked;
  refuseSocket(asked);
  const { request } = await import('node:http');
  if (signal?.aborted) throw abortError(signal);
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path: target, headers, agent: false, timeout: silenceMs });
    let reading: IncomingMessage | undefined;
    const part = { destroy: (error: Error) => void (reading ?? sent).destroy(error) };
    endAtAbort(part, sent, signal);
    sent.on('timeout', () => part.destroy(new SocketRequestFailed('silent')));
    sent.on('error', (error) => reject(failureOf(error, failure)));
    sent.on('response', (message) => {
      reading = message;
      resolve(new StreamedAnswer(message, asked));
    });
    sent.end(body);
  });
}

/** Refuses a socket that another user may have made, and one that is not there. */
function refuseSocket({ socketPath, failure }: SocketRequest): void {
  const doubt = socketFault(socketPath);
  if (doubt !== undefined) throw failure(new SocketRequestFailed('not trusted', '', doubt));
  if (isAbsent(socketPath)) throw failure(new SocketRequestFailed('not listening', 'ENOENT'));
}

function endAtAbort(
  part: { destroy(error: Error): unknown },
  connection: { once(event: 'close', call: () => void): unknown },
  signal: AbortSignal | undefined,
): void {
  if (!signal) return;
  const end = (): void => void part.destroy(abortError(signal));
  signal.addEventListener('abort', end);
  connection.once('close', () => signal.removeEventListener('abort', end));
}

/** What `node:http` would send too. */
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function requestBytes({ method, target, headers, body = '' }: SocketRequest): Buffer {
  const content = Buffer.from(body);
  const all = { ...headers, ...(body !== '' && { 'content-length': String(content.length) }), connection: 'close' };
  const lines = Object.entries(all).map(([name, value]) => {
    if (!HEADER_VALUE.test(value)) throw new TypeError(`invariant: the value of ${name} fits into a header`);
    return `${name}: ${value}\r\n`;
  });
  if (!TARGET.test(target)) throw new TypeError('invariant: the target of a request is escaped');
  return Buffer.concat([Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'), content]);
}

function abortError(signal: AbortSignal): Error {
  const error = new Error('the request was aborted', { cause: signal.reason });
  error.name = 'AbortError';
  return error;
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
export class StreamedAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #message: IncomingMessage;
  readonly #asked: SocketRequest;

  constructor(message: IncomingMessage, asked: SocketRequest) {
    this.status = message.statusCode ?? 0;
    this.headers = message.headers;
    this.#message = message;
    this.#asked = asked;
  }

  /** The chunks of the body as they come. Throws a `failure` where it breaks off. */
  async *chunks(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of this.#message) yield chunk as Buffer;
    } catch (error) {
      throw failureOf(error, this.#asked.failure);
    }
  }

  /** The lines of the body, none of them empty. Throws a `failure`, also when the last one is not ended. */
  async *lines(): AsyncGenerator<string> {
    let rest = '';
    for await (const text of this.#texts()) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > this.#asked.documentBytesMax) throw this.#failed('foreign');
      yield* lines;
    }
    if (rest !== '') throw this.#failed('gone');
  }

  /** Throws a `failure`. */
  async text(): Promise<string> {
    let all = '';
    for await (const text of this.#texts()) {
      all += text;
      if (all.length > this.#asked.documentBytesMax) throw this.#failed('foreign');
    }
    return all;
  }

  #failed(fault: RequestFault): Error {
    return this.#asked.failure(new SocketRequestFailed(fault));
  }

  async *#texts(): AsyncGenerator<string> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    for await (const piece of this.chunks()) yield decoder.decode(piece, { stream: true });
    yield decoder.decode();
  }
}

function failureOf(error: unknown, failure: SocketRequest['failure']): unknown {
  return (error as Error).name === 'AbortError' ? error : failure(faultOf(error));
}

function faultOf(error: unknown): SocketRequestFailed {
  if (error instanceof SocketRequestFailed) return error;
  if (error instanceof ForeignAnswer) return new SocketRequestFailed('foreign');
  const { code = '' } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return new SocketRequestFailed('not listening', code);
  if (code === 'EACCES' || code === 'EPERM') return new SocketRequestFailed('not allowed', code);
  if (code.startsWith('HPE_')) return new SocketRequestFailed('foreign', code);
  if (code === 'ECONNRESET' || code === 'EPIPE') return new SocketRequestFailed('gone', code);
  return new SocketRequestFailed('failed', code);
}
