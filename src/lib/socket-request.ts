/**
 * Sends one HTTP request to a program that listens at a Unix domain socket. Nothing waits for ever. A failure has a
 * reason; the caller puts it into words.
 */
import { lstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { type AnswerHead, AnswerReader, ForeignAnswer } from './http-answer.ts';
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
  documentCharactersMax: number;
}

/** Resolves when the head of the answer is there. Throws `SocketRequestFailed`, or an `AbortError`. */
export async function socketRequest(asked: SocketRequest): Promise<Answer> {
  const { socketPath, silenceMs, signal } = asked;
  const request = requestBytes(asked);
  const doubt = socketFault(socketPath);
  if (doubt !== undefined) throw new SocketRequestFailed('not trusted', '', doubt);
  if (isAbsent(socketPath)) throw new SocketRequestFailed('not listening', 'ENOENT');
  // Loaded only now: a hook that finds no daemon ends sooner than this loads.
  const { connect } = await import('node:net');
  if (signal?.aborted) throw abortError(signal);
  const socket = connect(socketPath);
  socket.setTimeout(silenceMs, () => socket.destroy(new SocketRequestFailed('silent')));
  if (signal) {
    const leave = (): void => void socket.destroy(abortError(signal));
    signal.addEventListener('abort', leave);
    socket.once('close', () => signal.removeEventListener('abort', leave));
  }
  socket.write(request);
  return Answer.begun(socket, asked.documentCharactersMax);
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
export class Answer {
  readonly status: number;
  readonly headers: AnswerHead['headers'];
  readonly #pieces: AsyncGenerator<Buffer>;
  readonly #charactersMax: number;

  private constructor({ status, headers }: AnswerHead, pieces: AsyncGenerator<Buffer>, charactersMax: number) {
    this.status = status;
    this.headers = headers;
    this.#pieces = pieces;
    this.#charactersMax = charactersMax;
  }

  /** Waits for the head. Throws `SocketRequestFailed`, or an `AbortError`. */
  static async begun(socket: Socket, charactersMax: number): Promise<Answer> {
    const reader = new AnswerReader();
    const parts = partsOf(socket, reader);
    let part = await parts.next();
    while (!part.done && !reader.head) part = await parts.next();
    if (part.done || !reader.head) throw new SocketRequestFailed('gone');
    return new Answer(reader.head, piecesOf(part.value, parts), charactersMax);
  }

  /** The chunks of the body as they come. Throws `SocketRequestFailed` where it breaks off. */
  chunks(): AsyncGenerator<Buffer> {
    return this.#pieces;
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
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    for await (const piece of this.#pieces) yield decoder.decode(piece, { stream: true });
    yield decoder.decode();
  }
}

/** The part of the body in each chunk. Nothing is read that nobody takes. Leaving it ends the connection. */
async function* partsOf(socket: Socket, reader: AnswerReader): AsyncGenerator<Buffer[]> {
  const chunks = new Chunks(socket);
  try {
    for (let bytes = await chunks.next(); bytes; bytes = await chunks.next()) {
      yield reader.read(bytes);
      if (reader.isWhole) return;
    }
  } catch (error) {
    throw failureOf(error);
  } finally {
    socket.destroy();
  }
  throw new SocketRequestFailed('gone');
}

/** The chunks of a connection, one at a time. Its own iterator takes as long to make as a hook's call takes. */
class Chunks {
  readonly #socket: Socket;
  #error: Error | undefined;
  #isOver = false;
  #changed: () => void = () => undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    const over = (): void => {
      this.#isOver = true;
      this.#changed();
    };
    socket.on('readable', () => this.#changed());
    socket.on('end', over);
    socket.on('close', over);
    socket.on('error', (error) => {
      this.#error ??= error;
      this.#changed();
    });
  }

  /** `undefined` at the end. Throws what broke the connection. */
  async next(): Promise<Buffer | undefined> {
    for (;;) {
      const chunk = this.#error || this.#isOver ? null : (this.#socket.read() as Buffer | null);
      if (chunk) return chunk;
      if (this.#error) throw this.#error;
      if (this.#isOver) return undefined;
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}

async function* piecesOf(first: readonly Buffer[], parts: AsyncGenerator<Buffer[]>): AsyncGenerator<Buffer> {
  try {
    yield* first;
    for await (const part of parts) yield* part;
  } finally {
    await parts.return(undefined);
  }
}

function failureOf(error: unknown): unknown {
  if (error instanceof SocketRequestFailed) return error;
  if (error instanceof ForeignAnswer) return new SocketRequestFailed('foreign');
  const { code = '', name } = error as NodeJS.ErrnoException;
  if (name === 'AbortError') return error;
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return new SocketRequestFailed('not listening', code);
  if (code === 'EACCES' || code === 'EPERM') return new SocketRequestFailed('not allowed', code);
  if (code === 'ECONNRESET' || code === 'EPIPE') return new SocketRequestFailed('gone', code);
  return new SocketRequestFailed('failed', code);
}
