/**
 * HTTP/1.1 by hand over a raw socket, for requests that no client library would send and for counting answers.
 * Everything that waits is bounded in time, and every answer of a relay is held to the OpenAPI document.
 */
import { once } from 'node:events';
import { type NetConnectOpts, type Socket, connect } from 'node:net';
import { expectDocumented } from './documented-answers.ts';
import { SentRequests } from './sent-requests.ts';
import { PATIENCE_MS } from './patience.ts';
import { found } from './found.ts';

export interface RawResponse {
  status: number;
  /** Names in lower case. */
  headers: ReadonlyMap<string, string>;
  body: Buffer;
}

export class RawConnection {
  readonly #socket: Socket;
  readonly #sent = new SentRequests();
  #received: Buffer = Buffer.alloc(0);
  #isOver = false;
  readonly #isDocumented: boolean;
  #wake: (() => void) | undefined;

  private constructor(socket: Socket, isDocumented: boolean) {
    this.#socket = socket;
    this.#isDocumented = isDocumented;
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake?.();
    });
    const over = (): void => {
      this.#isOver = true;
      this.#wake?.();
    };
    socket.on('end', over);
    socket.on('close', over);
    // A reset is an end like any other: what came before it counts.
    socket.on('error', over);
  }

  static open(port: number, host = '127.0.0.1'): Promise<RawConnection> {
    return RawConnection.#opened({ port, host }, true);
  }

  /** To a server that the OpenAPI document does not describe: the control socket, or a host's listener. */
  static openUndocumented(to: NetConnectOpts): Promise<RawConnection> {
    return RawConnection.#opened(to, false);
  }

  static #opened(to: NetConnectOpts, isDocumented: boolean): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ ...to, noDelay: true });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new RawConnection(socket, isDocumented));
      });
    });
  }

  /** Text goes out as Latin-1: one byte a character. */
  send(bytes: string | Uint8Array): this {
    const sent = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    this.#sent.add(sent);
    if (!this.#socket.destroyed) this.#socket.write(sent);
    return this;
  }

  /**
   * The next response; `undefined` when the peer closed first. `to` is the request's method: HEAD has no body. Rejects
   * when the response is not what the OpenAPI document says of its request.
   */
  async response(to = 'GET'): Promise<RawResponse | undefined> {
    for (;;) {
      const taken = takeResponse(this.#received, to === 'HEAD', this.#isOver);
      if (taken) {
        this.#received = taken.rest;
        const { response } = taken;
        if (this.#isDocumented)
          expectDocumented(this.#sent.nextAnswered(), to === 'HEAD' ? { ...response, body: undefined } : response);
        return response;
      }
      if (this.#isOver) return undefined;
      await this.#more();
    }
  }

  /** Every response until the peer closes, which it must. */
  async untilClosed(to = 'GET'): Promise<RawResponse[]> {
    const responses: RawResponse[] = [];
    for (let next = await this.response(to); next; next = await this.response(to)) responses.push(next);
    if (this.#received.length > 0) throw new Error(`half an answer: ${this.#received.toString('latin1', 0, 200)}`);
    return responses;
  }

  /** Resolves when everything that was sent has left this process. */
  async flushed(): Promise<void> {
    if (this.#socket.writableLength > 0) await once(this.#socket, 'drain');
  }

  /** Sends no more, and goes on reading. */
  sendEnd(): this {
    this.#socket.end();
    return this;
  }

  /** Stops reading, so that the peer's writes pile up. */
  pause(): this {
    this.#socket.pause();
    return this;
  }

  resume(): this {
    this.#socket.resume();
    return this;
  }

  /** Returns how many bytes came that no response has taken. */
  get receivedBytes(): number {
    return this.#received.length;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Cuts the connection without a farewell. */
  cut(): void {
    this.#socket.resetAndDestroy();
  }

  close(): void {
    this.#socket.destroy();
  }

  #more(): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = (): void => {
        this.#socket.destroy();
        reject(new Error(`no answer in ${PATIENCE_MS} ms; so far: ${this.#received.toString('latin1', 0, 200)}`));
      };
      const timer = setTimeout(late, PATIENCE_MS);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

/** Sends `bytes` on a connection of its own and answers every response until the peer closes, which it must. */
export async function rawExchange(port: number, bytes: string | Uint8Array, to?: string): Promise<RawResponse[]> {
  const connection = await RawConnection.open(port);
  try {
    return await connection.send(bytes).untilClosed(to);
  } finally {
    connection.close();
  }
}

/** Sends one request and answers its response, which must come; the connection is not used again. */
export async function rawRequest(port: number, bytes: string | Uint8Array, to?: string): Promise<RawResponse> {
  const connection = await RawConnection.open(port);
  try {
    return found(await connection.send(bytes).response(to), 'the peer closed without an answer');
  } finally {
    connection.close();
  }
}

/** A request as bytes. `content-length` is added when there is a body and no header says it. */
export function requestBytes(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Uint8Array = '',
): Buffer {
  const bytes = Buffer.from(body);
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const lines = [`${method} ${target} HTTP/1.1`];
  if (!names.has('host')) lines.push('host: relay.test');
  const hasLength = names.has('content-length') || names.has('transfer-encoding');
  if (!hasLength && (bytes.length > 0 || method === 'POST')) lines.push(`content-length: ${bytes.length}`);
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
}

interface Taken {
  response: RawResponse;
  rest: Buffer;
}

const HEAD_END = Buffer.from('\r\n\r\n');

/** The first response of `bytes`, when it is whole. */
function takeResponse(bytes: Buffer, isToHead: boolean, isOver: boolean): Taken | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const status = found(/^HTTP\/1\.[01] ([0-9]{3})(?: |$)/.exec(statusLine)?.[1], `no status line: ${statusLine}`);
  // "100 Continue" comes before the response.
  if (status.startsWith('1')) return takeResponse(bytes.subarray(headEnd + HEAD_END.length), isToHead, isOver);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1) throw new Error(`no header line: ${line}`);
    if (headers.has(name)) throw new Error(`the header ${name} is repeated`);
    headers.set(name, line.slice(colon + 1).trim());
  }
  const start = headEnd + HEAD_END.length;
  const body = takeBody(bytes.subarray(start), headers, isToHead, isOver);
  return body && { response: { status: Number(status), headers, body: body.body }, rest: body.rest };
}

function takeBody(
  bytes: Buffer,
  headers: ReadonlyMap<string, string>,
  isToHead: boolean,
  isOver: boolean,
): { body: Buffer; rest: Buffer } | undefined {
  const length = headers.get('content-length');
  if (isToHead) return { body: Buffer.alloc(0), rest: bytes };
  if (length !== undefined) {
    const size = Number(length);
    return bytes.length < size ? undefined : { body: bytes.subarray(0, size), rest: bytes.subarray(size) };
  }
  if (headers.get('transfer-encoding') === 'chunked') return takeChunks(bytes);
  // Neither: the body ends with the connection.
  return isOver ? { body: bytes, rest: Buffer.alloc(0) } : undefined;
}

function takeChunks(bytes: Buffer): { body: Buffer; rest: Buffer } | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error('no chunk size');
    const start = lineEnd + 2;
    if (bytes.length < start + size + 2) return undefined;
    chunks.push(bytes.subarray(start, start + size));
    at = start + size + 2;
    if (size === 0) return { body: Buffer.concat(chunks), rest: bytes.subarray(at) };
  }
}
