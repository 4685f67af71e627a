/**
 * Calls the daemon's operations. Every failure is one sentence with the next step: no daemon, another user's daemon, one
 * that ends or falls silent during the call. Every wait is bounded.
 */
import { isObject } from '../../protocol/json-object.ts';
import { type Answer, SocketRequestFailed, type SocketRequest, socketRequest } from '../../lib/socket-request.ts';
import type { InputOf, OperationName, OutputOf } from './operations.ts';
import {
  AGENT_HEADER,
  BACKUP_TARGET,
  SESSION_HEADER,
  VERSION_HEADER,
  operationTarget,
} from '../contract/socket-protocol.ts';

/** A call fails when the daemon sends nothing for this long. */
const SILENCE_MS = 30_000;
/** The most bytes of bodies that an answer carries, with every character escaped, and room for the rest. */
const DOCUMENT_CHARACTERS_MAX = 16 << 20;

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
  /** Of the answer; 0 when there was none. */
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
  /** The session that calls. */
  session?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Must be longer than the wait that is asked for. */
  silenceMs?: number;
}

export class DaemonClient {
  readonly #socketPath: string;
  readonly #storeFolder: string;
  readonly #onVersion: (version: string) => void;

  /** `onVersion` is told the version of the daemon with each of its answers. */
  constructor(socketPath: string, storeFolder: string, onVersion: (version: string) => void = () => undefined) {
    this.#socketPath = socketPath;
    this.#storeFolder = storeFolder;
    this.#onVersion = onVersion;
  }

  /** Throws `CallFailed`. */
  async call<N extends OperationName>(
    name: N,
    input: InputOf<N>,
    { as, session, signal, silenceMs = SILENCE_MS }: CallOptions = {},
  ): Promise<OutputOf<N>> {
    const answer = await this.#ask({
      method: 'POST',
      target: operationTarget(name),
      headers: {
        'content-type': 'application/json',
        ...(as !== undefined && { [AGENT_HEADER]: as }),
        ...(session !== undefined && { [SESSION_HEADER]: session }),
      },
      body: JSON.stringify(input),
      silenceMs,
      signal,
    });
    return (await this.#document(answer)) as OutputOf<N>;
  }

  /** The chunks of a backup of the whole store. Throws `CallFailed`. */
  async *backup(signal: AbortSignal): AsyncGenerator<Buffer> {
    const answer = await this.#ask({
      method: 'GET',
      target: BACKUP_TARGET,
      headers: {},
      silenceMs: SILENCE_MS,
      signal,
    });
    try {
      yield* answer.chunks();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** The answer of a successful call. */
  async #ask(asked: Omit<SocketRequest, 'socketPath' | 'documentCharactersMax'>): Promise<Answer> {
    let answer: Answer;
    try {
      answer = await socketRequest({
        ...asked,
        socketPath: this.#socketPath,
        documentCharactersMax: DOCUMENT_CHARACTERS_MAX,
        headers: { ...asked.headers, host: 'poste' },
      });
    } catch (error) {
      throw this.#failure(error);
    }
    const version = answer.headers[VERSION_HEADER];
    if (typeof version === 'string') this.#onVersion(version);
    if (answer.status === 200) return answer;
    const { code, message, details } = await this.#document(answer);
    if (typeof code !== 'string' || typeof message !== 'string') throw this.#foreign();
    if (code === 'UNKNOWN_OPERATION') throw this.#otherVersion();
    throw new CallFailed(code, answer.status, message, isObject(details) ? details : {});
  }

  async #document(answer: Answer): Promise<Record<string, unknown>> {
    try {
      const document: unknown = JSON.parse(await answer.text());
      if (isObject(document)) return document;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw this.#failure(error);
    }
    throw this.#foreign();
  }

  #failure(error: unknown): unknown {
    if (!(error instanceof SocketRequestFailed)) return error;
    const { fault, code, detail } = error;
    switch (fault) {
      case 'not listening':
        return fail(
          'DAEMON_NOT_RUNNING',
          `no daemon is running on the store at ${this.#storeFolder}: start it with poste daemon, or give this command with --start`,
        );
      case 'not allowed':
        return fail('NOT_THE_OWNER', `the daemon at ${this.#socketPath} is another user's: run this as that user`);
      case 'not trusted':
        return fail(
          'SOCKET_NOT_TRUSTED',
          `${detail}: nothing was sent, because another user's program may listen there; start the daemon as the same user as this command, in a folder that only this user can write to`,
        );
      case 'gone':
        return fail(
          'DAEMON_GONE',
          'the daemon ended the connection before its answer was complete, so it is not known whether the operation was done: check that it runs, and check the result before you repeat it',
        );
      case 'silent':
        return fail(
          'DAEMON_SILENT',
          'the daemon did not answer for a long time, so it is not known whether the operation was done: check the daemon with poste doctor, and check the result before you repeat it',
        );
      case 'foreign':
        return this.#foreign();
      case 'failed':
        return fail(
          'SOCKET_FAILED',
          `the local socket ${this.#socketPath} cannot be used (${code === '' ? 'unknown error' : code}): see that poste daemon runs there`,
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
