/**
 * The client's stdio: a JSON-RPC message, or a batch of them, on each line. What is no message, and shows an id, gets
 * the error that JSON-RPC has for it. The answers to a batch are one line too. A plain call of a tool is answered here;
 * every other message is for the server of the protocol.
 */
import type { Readable, Writable } from 'node:stream';
import {
  type CallToolResult,
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/server';
import { type PlainCall, plainCallOf } from './opening-messages.ts';
import { utf8Text } from '../../lib/user-text.ts';

export interface ClientStreams {
  stdin: Readable;
  stdout: Writable;
}

/** Resolves with the result of the call; `undefined` for a tool that there is not. `send` sends its notifications. */
export type CallTool = (
  call: PlainCall,
  signal: AbortSignal,
  send: (message: JSONRPCMessage) => Promise<void>,
) => Promise<CallToolResult> | undefined;

/** A longer line ends the connection. */
const LINE_BYTES_MAX = 10 << 20;
const LINE_END = 0x0a;

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

interface Batch {
  waiting: Set<RequestId>;
  answers: object[];
}

export class ClientTransport implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: Transport['onmessage'];
  /** Resolves when the client has disconnected. */
  readonly closed: Promise<void>;
  #tellClosed!: () => void;
  readonly #streams: ClientStreams;
  /** Looks at each message that is sent. */
  readonly #watch: (message: JSONRPCMessage) => void;
  /** Requests that were answered before this read them: the first answer to each is dropped. */
  readonly #answeredBefore: Set<RequestId>;
  readonly #begun: Buffer[] = [];
  #begunBytes = 0;
  readonly #batches = new Map<RequestId, Batch>();
  /** Returns who wants to know whether the answer to a request is written. */
  readonly #awaited = new Map<RequestId, (isWritten: boolean) => void>();
  readonly #callTool: CallTool;
  /** Plain calls under way. */
  readonly #calls = new Map<RequestId, AbortController>();
  /** The client began with `initialize`. */
  #hasHandshake = false;
  #isClosed = false;

  constructor(
    streams: ClientStreams,
    watch: (message: JSONRPCMessage) => void,
    answered: ReadonlySet<RequestId> = new Set(),
    callTool: CallTool = () => undefined,
  ) {
    this.#streams = streams;
    this.#watch = watch;
    this.#answeredBefore = new Set(answered);
    this.#callTool = callTool;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  async start(): Promise<void> {
    const { stdin, stdout } = this.#streams;
    const end = (): void => void this.close();
    const fail = (error: Error): void => {
      if (!this.#isClosed) this.onerror?.(error);
    };
    if (stdin.readableEnded || stdin.destroyed) setImmediate(end);
    // It stands still where another has read of it.
    stdin.on('data', this.#take).on('error', fail).on('end', end).on('close', end).resume();
    // It stays: an error of what was written last would end the process.
    stdout.on('error', (error) => {
      fail(error);
      end();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new Error('the client has disconnected');
    this.#watch(message);
    const id = isJSONRPCRequest(message) || isJSONRPCNotification(message) ? undefined : message.id;
    if (id !== undefined && this.#answeredBefore.delete(id)) return undefined;
    const batch = id === undefined ? undefined : this.#batches.get(id);
    if (id === undefined) return this.#write(message);
    if (batch) {
      batch.answers.push(message);
      return this.#endBatchedRequest(batch, id);
    }
    try {
      await this.#write(message);
      this.#tellWritten(id, isJSONRPCResultResponse(message));
    } finally {
      this.#tellWritten(id, false);
    }
  }

  /**
   * Resolves with whether the answer to this request was written whole while the client took it: not when the client
   * cancels it or disconnects before, and not for one of a batch, whose answers wait for each other.
   */
  whenWritten(id: RequestId): Promise<boolean> {
    if (this.#isClosed || this.#batches.has(id)) return Promise.resolve(false);
    return new Promise((resolve) => this.#awaited.set(id, resolve));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { stdin } = this.#streams;
    stdin.off('data', this.#take);
    // The process may end, though the client holds the other end open.
    stdin.pause();
    for (const calling of this.#calls.values()) calling.abort();
    this.onclose?.();
    for (const id of this.#awaited.keys()) this.#tellWritten(id, false);
    this.#tellClosed();
  }

  #tellWritten(id: RequestId, isWritten: boolean): void {
    this.#awaited.get(id)?.(isWritten);
    this.#awaited.delete(id);
  }

  #write(document: object): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#streams.stdout.write(`${JSON.stringify(document)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  readonly #take = (chunk: Buffer): void => {
    let from = 0;
    for (let end = chunk.indexOf(LINE_END); end !== -1; end = chunk.indexOf(LINE_END, from)) {
      const line = Buffer.concat([...this.#begun.splice(0), chunk.subarray(from, end)]);
      this.#begunBytes = 0;
      from = end + 1;
      this.#line(line);
    }
    this.#begun.push(chunk.subarray(from));
    this.#begunBytes += chunk.length - from;
    if (this.#begunBytes <= LINE_BYTES_MAX) return;
    this.onerror?.(new RangeError(`a line of more than ${LINE_BYTES_MAX} bytes`));
    void this.close();
  };

  #line(bytes: Buffer): void {
    if (this.#isClosed) return;
    const text = bytes.toString('utf8').replace(/^\uFEFF/, '');
    if (text.trim() === '') return;
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch {
      this.#refuse(undefined, PARSE_ERROR, 'the line is no JSON');
      return;
    }
    try {
      utf8Text(bytes);
    } catch {
      this.#refuse(document, PARSE_ERROR, 'the line holds bytes that are no UTF-8');
      return;
    }
    const call = this.#hasHandshake ? plainCallOf(document) : undefined;
    if (call && this.#takeCall(call)) return;
    if (Array.isArray(document) && document.length > 0) this.#takeBatch(document);
    else if (isMessage(document)) this.#deliver(document);
    else this.#refuse(document, INVALID_REQUEST, 'the line is no JSON-RPC message');
  }

  /** Answers a call as the server of the protocol does, which takes longer for it than the daemon. */
  #takeCall(call: PlainCall): boolean {
    const { id } = call;
    const calling = new AbortController();
    const { signal } = calling;
    const result = this.#calls.has(id) ? undefined : this.#callTool(call, signal, (message) => this.send(message));
    if (!result) return false;
    this.#calls.set(id, calling);
    const answer = async (): Promise<void> => {
      const document = { result: await result, jsonrpc: '2.0', id };
      if (signal.aborted) return;
      await this.#write(document);
      this.#tellWritten(id, true);
    };
    const fail = (error: unknown): void => this.onerror?.(error as Error);
    void answer()
      .catch(fail)
      .finally(() => {
        this.#calls.delete(id);
        this.#tellWritten(id, false);
      });
    return true;
  }

  #takeBatch(documents: readonly unknown[]): void {
    const messages = documents.filter(isMessage);
    const broken = documents.filter((document) => !isMessage(document));
    const answers = broken.flatMap((document) => refusals(document, INVALID_REQUEST, 'this is no JSON-RPC message'));
    const ids = messages.filter(isJSONRPCRequest).map(({ id }) => id);
    const batch = { waiting: new Set(ids.filter((id) => !this.#batches.has(id))), answers };
    for (const id of batch.waiting) this.#batches.set(id, batch);
    if (batch.waiting.size === 0 && answers.length > 0) this.#write(answers).catch(ignore);
    for (const message of messages) this.#deliver(message);
  }

  #deliver(message: JSONRPCMessage): void {
    if (isJSONRPCNotification(message) && message.method === 'notifications/cancelled') {
      const id = message.params?.['requestId'] as RequestId;
      // The server may not have come to it yet.
      if (this.#answeredBefore.has(id)) return;
      const batch = this.#batches.get(id);
      // It gets no answer.
      if (batch) this.#endBatchedRequest(batch, id).catch(ignore);
      this.#tellWritten(id, false);
      this.#calls.get(id)?.abort();
    }
    this.#hasHandshake ||= isJSONRPCRequest(message) && message.method === 'initialize';
    this.onmessage?.(message);
  }

  async #endBatchedRequest(batch: Batch, id: RequestId): Promise<void> {
    this.#batches.delete(id);
    batch.waiting.delete(id);
    if (batch.waiting.size === 0 && batch.answers.length > 0) await this.#write(batch.answers);
  }

  #refuse(document: unknown, code: number, message: string): void {
    // Never the line itself: it may hold mail.
    this.onerror?.(new Error(message));
    for (const answer of refusals(document, code, message)) this.#write(answer).catch(ignore);
  }
}

/** The stream tells it too, as an event. */
function ignore(): void {}

function isMessage(document: unknown): document is JSONRPCMessage {
  return (
    isJSONRPCRequest(document) ||
    isJSONRPCNotification(document) ||
    isJSONRPCResultResponse(document) ||
    isJSONRPCErrorResponse(document)
  );
}

/** A message that shows no id gets none: clients of MCP take no answer whose id is null. */
function refusals(document: unknown, code: number, message: string): object[] {
  const { id } = Object(document) as { id?: unknown };
  const isKnown = typeof id === 'string' || typeof id === 'number';
  return isKnown ? [{ jsonrpc: '2.0', id, error: { code, message } }] : [];
}
