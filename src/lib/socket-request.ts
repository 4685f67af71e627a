/**
 * Sends one HTTP request to a program that listens at a Unix domain socket. Nothing waits for ever. A failure has a
 * reason; the caller puts it into words.
 */
import { type Stats, lstatSync, realpathSync, statSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { dirname } from 'node:path';
import type { KeptConnection } from './kept-connection.ts';

type RequestFault =
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

/**
 * Resolves with the answer, which is one document. Throws a `failure`, or an `AbortError`. A kept connection that ended
 * before it took the whole request is left for a new one: nothing acts on a part of a request.
 */
export async function socketRequest(asked: SocketRequest, kept?: KeptConnection): Promise<DocumentAnswer> {
  const { socketPath, signal } = asked;
  const request = requestBytes(asked, kept ? 'keep-alive' : 'close');
  const idle = signal?.aborted ? undefined : kept?.take();
  const answer = idle && (await answerOver(idle, request, asked, kept));
  if (answer) return answer;
  refuseSocket(asked);
  // Loaded only now: a hook that finds no daemon ends sooner than this loads.
  const { connect } = await import('node:net');
  if (signal?.aborted) throw abortError(signal);
  const socket = kept ? kept.open(connect) : connect(socketPath);
  // Also when nothing is asked over it any more.
  socket.on('error', () => undefined);
  const first = await answerOver(socket, request, asked, kept);
  if (!first) throw asked.failure(new SocketRequestFailed('gone'));
  return first;
}

/** Resolves with `undefined` where the connection ended before it took the whole request. */
function answerOver(
  socket: Socket,
  request: Buffer,
  { silenceMs, signal, failure, documentBytesMax }: SocketRequest,
  kept: KeptConnection | undefined,
): Promise<DocumentAnswer | undefined> {
  const reader = new AnswerReader(documentBytesMax);
  return new Promise((resolve, reject) => {
    let isTaken = false;
    const read = (bytes: Buffer): void => {
      try {
        const answer = reader.read(bytes);
        if (!answer) return;
        release();
        if (kept && answer.headers['connection'] !== 'close') kept.keep(socket);
        else socket.destroy();
        resolve(answer);
      } catch (error) {
        socket.destroy(error as ForeignAnswer);
      }
    };
    const fail = (error: Error): void => {
      release();
      const isGone = error.name !== 'AbortError' && faultOf(error).fault === 'gone';
      if (isGone && !isTaken) resolve(undefined);
      else reject(failureOf(error, failure));
    };
    const gone = (): void => fail(new SocketRequestFailed('gone'));
    const silent = (): void => void socket.destroy(new SocketRequestFailed('silent'));
    const release = (): void => {
      stopAborting();
      socket.off('data', read).off('error', fail).off('close', gone).off('timeout', silent);
    };
    const stopAborting = endAtAbort(socket, signal);
    socket.on('data', read).on('error', fail).on('close', gone).on('timeout', silent).setTimeout(silenceMs);
    socket.write(request, (error) => {
      isTaken = !error;
    });
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
    sent.once('close', endAtAbort(part, signal));
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

/** Returns how to stop that. */
function endAtAbort(part: { destroy(error: Error): unknown }, signal: AbortSignal | undefined): () => void {
  if (!signal) return () => undefined;
  const end = (): void => void part.destroy(abortError(signal));
  signal.addEventListener('abort', end);
  return () => signal.removeEventListener('abort', end);
}

/** The form of a target that `node:http` would send too. */
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function requestBytes(
  { method, target, headers, body = '' }: SocketRequest,
  connection: 'keep-alive' | 'close',
): Buffer {
  const content = Buffer.from(body);
  const all = { ...headers, ...(body !== '' && { 'content-length': String(content.length) }), connection };
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
      if (rest.length > this.#asked.documentBytesMax) throw this.#failure('foreign');
      yield* lines;
    }
    if (rest !== '') throw this.#failure('gone');
  }

  /** Throws a `failure`. */
  async text(): Promise<string> {
    let all = '';
    for await (const text of this.#texts()) {
      all += text;
      if (all.length > this.#asked.documentBytesMax) throw this.#failure('foreign');
    }
    return all;
  }

  #failure(fault: RequestFault): Error {
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

/** An answer that this package never gives. */
export class ForeignAnswer extends Error {}

export interface DocumentAnswer {
  status: number;
  /** The names are in lower case; values of the same name are joined by commas. */
  headers: Readonly<Record<string, string>>;
  text: string;
}

type Head = Omit<DocumentAnswer, 'text'> & { bodyBytes: number };

const HEAD_BYTES_MAX = 16 << 10;
const HEAD_END = '\r\n\r\n';
const VERSION = 'HTTP/1.1 ';
/** A status that says that more answers follow (1xx) was not asked for. */
const STATUS_LINE = /^HTTP\/1\.1 (?<status>[2-5]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const HEADER_LINE = /^(?<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*(?<value>[\t\x20-\x7e\x80-\xff]*?)[\t ]*$/;
const LENGTH = /^\d{1,15}$/;

/**
 * Reads the answer to one HTTP/1.1 request as the daemon gives it, a document with its length: `node:http` takes longer
 * to load than a hook may take. It is strict, as it knows who answers: whatever else comes is refused.
 */
export class AnswerReader {
  readonly #bytesMax: number;
  #head: Head | undefined;
  /** The bytes that came: of the head until that is whole, of the body from then on. */
  #pieces: Buffer[] = [];
  #count = 0;

  /** `bytesMax`: of the document. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Takes the next bytes, in any pieces. Returns the answer when it is whole. Throws `ForeignAnswer`. */
  read(bytes: Buffer): DocumentAnswer | undefined {
    this.#pieces.push(bytes);
    this.#count += bytes.length;
    this.#head ??= this.#readHead();
    if (!this.#head || this.#count < this.#head.bodyBytes) return undefined;
    if (this.#count > this.#head.bodyBytes) throw new ForeignAnswer('bytes follow the answer');
    const { status, headers } = this.#head;
    return { status, headers, text: Buffer.concat(this.#pieces).toString() };
  }

  #readHead(): Head | undefined {
    const come = Buffer.concat(this.#pieces);
    this.#pieces = [come];
    if (!VERSION.startsWith(come.toString('latin1', 0, VERSION.length))) throw new ForeignAnswer('it is no HTTP/1.1');
    const end = come.indexOf(HEAD_END);
    const length = end === -1 ? come.length : end + HEAD_END.length;
    if (length > HEAD_BYTES_MAX) throw new ForeignAnswer('the head is too long');
    if (end === -1) return undefined;
    const [first = '', ...lines] = come.toString('latin1', 0, end).split('\r\n');
    const headers: Record<string, string> = Object.create(null) as Record<string, string>;
    for (const line of lines) {
      const { name = '', value = '' } = matchLine(HEADER_LINE, line);
      const key = name.toLowerCase();
      headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
    }
    const { 'content-length': bytes = '', 'transfer-encoding': encoding } = headers;
    if (!LENGTH.test(bytes) || encoding !== undefined) throw new ForeignAnswer('the length of the body is not told');
    if (Number(bytes) > this.#bytesMax) throw new ForeignAnswer('the body is too long');
    this.#pieces = [come.subarray(length)];
    this.#count = come.length - length;
    return { status: Number(matchLine(STATUS_LINE, first)['status']), headers, bodyBytes: Number(bytes) };
  }
}

function matchLine(pattern: RegExp, line: string): Readonly<Record<string, string | undefined>> {
  const groups = pattern.exec(line)?.groups;
  if (!groups) throw new ForeignAnswer('a line of the head is malformed');
  return groups;
}

const SUPERUSER = 0;
const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;

/** The owner of a file, and who may write it. */
export type FileOwner = Pick<Stats, 'uid' | 'gid' | 'mode'>;

interface SocketUser {
  uid: number;
  /** The primary group of the user. */
  gid: number;
}

/**
 * Returns why nothing may be sent to the socket at `path`, or `undefined`, as where there is none: opening it will
 * fail. The request belongs to the program's user, so it is never sent to a socket that another user made, or that
 * other users could replace. The superuser may also use a socket of the owner of its folder: that of a relay that runs
 * as a user of its own.
 */
export function socketFault(path: string): string | undefined {
  const uid = process.getuid?.();
  const gid = process.getgid?.();
  if (uid === undefined || gid === undefined) return undefined;
  let socket: Stats | undefined;
  let folder: Stats | undefined;
  let linked: string | undefined;
  try {
    socket = lstatSync(path, { throwIfNoEntry: false });
    folder = statSync(dirname(path), { throwIfNoEntry: false });
    if (socket?.isSymbolicLink()) linked = realpathSync(path);
  } catch {
    return undefined;
  }
  if (!folder || !(socket?.isSocket() || socket?.isSymbolicLink())) return undefined;
  const fault = ownerFault(path, { socket, folder }, { uid, gid });
  // The target of a link is checked as the link itself is.
  return fault ?? (linked === undefined ? undefined : socketFault(linked));
}

/** Like `socketFault`, from the facts about the socket and its folder. */
export function ownerFault(
  path: string,
  { socket, folder }: { socket: FileOwner; folder: FileOwner },
  { uid, gid }: SocketUser,
): string | undefined {
  const isTrusted = (owner: number): boolean =>
    owner === uid || owner === SUPERUSER || (uid === SUPERUSER && owner === folder.uid);
  if (!isTrusted(socket.uid)) return `the socket ${path} belongs to the user with the number ${socket.uid}`;
  const where = `the folder of the socket ${path}`;
  if (!isTrusted(folder.uid)) return `${where} belongs to the user with the number ${folder.uid}`;
  // In a sticky folder no user can replace the files of another.
  if ((folder.mode & STICKY) !== 0) return undefined;
  const isOpen = (folder.mode & OTHERS_WRITE) !== 0 || ((folder.mode & GROUP_WRITES) !== 0 && folder.gid !== gid);
  return isOpen ? `${where} can be written by other users (chmod go-w ${dirname(path)} mends that)` : undefined;
}
