/**
 * Calls the daemon's operations. Every failure is one sentence with the next step: no daemon, another user's daemon,
 * one that ends or falls silent during the call. Every wait is bounded.
 */
import { existsSync } from 'node:fs';
import { isObject } from '../../protocol/json.ts';
import { KeptConnection } from '../../lib/kept-connection.ts';
import { type SocketRequest, type SocketRequestFailed, socketRequest, socketStream } from '../../lib/socket-request.ts';
import type { InputOf, OperationName, OutputOf } from './operations.ts';
import {
  AGENT_HEADER,
  BACKUP_TARGET,
  CALL_HEADER,
  SESSION_HEADER,
  VERSION_HEADER,
  operationTarget,
} from '../contract/socket-protocol.ts';

/** A call fails when the daemon sends nothing for this long. */
const SILENCE_MS = 30_000;
/** The most bytes of bodies that an answer carries, with every character escaped, and room for the rest. */
const DOCUMENT_BYTES_MAX = 16 << 20;

/** The codes of failures, besides the codes of refusals. */
export type ClientCode =
  | 'DAEMON_NOT_RUNNING'
  | 'NOT_THE_OWNER'
  | 'SOCKET_NOT_TRUSTED'
  | 'DAEMON_GONE'
  | 'DAEMON_SILENT'
  | 'NOT_UNDERSTOOD'
  | 'SOCKET_FAILED';

/** The operation failed, or its outcome is unknown; the message says which, and what to do. */
export class CallFailed extends Error {
  readonly code: string;
  /** The status of the answer; 0 when there was none. */
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: string, status: number, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.details = details;
  }
}

export interface CallOptions {
  /** The acting agent's name, or `owner`. */
  as?: string | undefined;
  session?: string | undefined;
  /** The caller's name of this call: it says with `wait-heard` what became of the answer. */
  callId?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Must be longer than the wait that is asked for. */
  silenceMs?: number;
}

export interface ClientOptions {
  /** Gets the version of the daemon at each answer to a call. */
  onVersion?: (version: string) => void;
  /** True of a program that calls again and again: a connection stays open between its calls. */
  keepsConnection?: boolean;
}

export class DaemonClient {
  readonly #socketPath: string;
  readonly #storeFolder: string;
  readonly #onVersion: ClientOptions['onVersion'];
  readonly #kept: KeptConnection | undefined;

  constructor(socketPath: string, storeFolder: string, { onVersion, keepsConnection }: ClientOptions = {}) {
    this.#socketPath = socketPath;
    this.#storeFolder = storeFolder;
    this.#onVersion = onVersion;
    this.#kept = keepsConnection ? new KeptConnection(socketPath) : undefined;
  }

  /** Throws `CallFailed`. */
  async call<N extends OperationName>(
    name: N,
    input: InputOf<N>,
    { as, session, callId, signal, silenceMs = SILENCE_MS }: CallOptions = {},
  ): Promise<OutputOf<N>> {
    const request = this.#request({
      method: 'POST',
      target: operationTarget(name),
      headers: {
        'content-type': 'application/json',
        ...(as !== undefined && { [AGENT_HEADER]: as }),
        ...(session !== undefined && { [SESSION_HEADER]: session }),
        ...(callId !== undefined && { [CALL_HEADER]: callId }),
      },
      body: JSON.stringify(input),
      silenceMs,
      signal,
    });
    const { status, headers, text } = await socketRequest(request, this.#kept);
    const version = headers[VERSION_HEADER];
    if (version !== undefined) this.#onVersion?.(version);
    if (status !== 200) throw this.#refusal(status, text);
    return this.#document(text) as OutputOf<N>;
  }

  /** The chunks of a backup of the whole store. Throws `CallFailed`. */
  async *backup(signal: AbortSignal): AsyncGenerator<Buffer> {
    const request = this.#request({ method: 'GET', target: BACKUP_TARGET, headers: {}, silenceMs: SILENCE_MS, signal });
    const answer = await socketStream(request);
    if (answer.status !== 200) throw this.#refusal(answer.status, await answer.text());
    yield* answer.chunks();
  }

  #request(
    asked: Pick<SocketRequest, 'method' | 'target' | 'headers' | 'body' | 'silenceMs' | 'signal'>,
  ): SocketRequest {
    return {
      ...asked,
      socketPath: this.#socketPath,
      headers: { ...asked.headers, host: 'poste' },
      documentBytesMax: DOCUMENT_BYTES_MAX,
      failure: (fault) => this.#failure(fault),
    };
  }

  #refusal(status: number, text: string): CallFailed {
    const { code, message, details } = this.#document(text);
    if (typeof code !== 'string' || typeof message !== 'string') return this.#foreign();
    if (code === 'UNKNOWN_OPERATION') return this.#otherVersion();
    return new CallFailed(code, status, message, isObject(details) ? details : {});
  }

  #document(text: string): Record<string, unknown> {
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch {
      throw this.#foreign();
    }
    if (!isObject(document)) throw this.#foreign();
    return document;
  }

  #failure({ fault, code, detail }: SocketRequestFailed): CallFailed {
    switch (fault) {
      case 'not listening':
        return fail(
          'DAEMON_NOT_RUNNING',
          existsSync(this.#storeFolder)
            ? `no daemon is running on the store at ${this.#storeFolder}: start it with poste daemon`
            : `no daemon is running, and there is no store at ${this.#storeFolder}: make one with poste init`,
        );
      case 'not allowed':
        return fail('NOT_THE_OWNER', `the daemon at ${this.#socketPath} is another user's: run this as that user`);
      case 'not trusted':
        return fail(
          'SOCKET_NOT_TRUSTED',
          `${detail}: nothing was sent, because another user's program may listen there; start the daemon as ` +
            'the same user as this command, in a folder that only this user can write to',
        );
      case 'gone':
        return fail(
          'DAEMON_GONE',
          'the daemon ended the connection before its answer was complete, so it is not known whether the ' +
            'operation was done: check that it runs, and check the result before you repeat it',
        );
      case 'silent':
        return fail(
          'DAEMON_SILENT',
          'the daemon did not answer for a long time, so it is not known whether the operation was done: check ' +
            'the daemon with poste doctor, and check the result before you repeat it',
        );
      case 'foreign':
        return this.#foreign();
      case 'failed':
        return fail(
          'SOCKET_FAILED',
          `the local socket ${this.#socketPath} cannot be used (${code === '' ? 'unknown error' : code}): see ` +
            'that poste daemon runs there',
        );
    }
  }

  #foreign(): CallFailed {
    return fail(
      'NOT_UNDERSTOOD',
      `what answers at ${this.#socketPath} is not understood: run the daemon and this command in the same version`,
    );
  }

  #otherVersion(): CallFailed {
    return fail(
      'NOT_UNDERSTOOD',
      'the running daemon does not know this operation: run the daemon and this command in the same version',
    );
  }
}

function fail(code: ClientCode, message: string): CallFailed {
  return new CallFailed(code, 0, message);
}
