/**
 * Speaks to the running relay through the control socket of its store folder.
 *
 * Whatever goes wrong ends the command with one sentence and the next step: no relay, another user's relay, a relay
 * that ends or falls silent in the middle. Nothing waits for ever.
 */
import { existsSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { isObject } from '../protocol/items.ts';
import { controlSocketFault, controlSocketPath } from '../relay/control/socket.ts';
import { type Answer, SocketRequestFailed, socketRequest } from '../system/socket-request.ts';
import { CommandFailed, type ExitName } from './exit.ts';

/** A relay that says nothing for this long is given up. */
const SILENCE_MS = 30_000;
/** One document, or one line of a list. */
const DOCUMENT_CHARACTERS_MAX = 1 << 20;

type Document = Record<string, unknown>;

export class ControlClient {
  readonly #storeDir: string;
  readonly #silenceMs: number;

  constructor(storeDir: string, silenceMs: number = SILENCE_MS) {
    this.#storeDir = storeDir;
    this.#silenceMs = silenceMs;
  }

  /** Throws `CommandFailed`. */
  get(target: string): Promise<Document> {
    return this.#answer('GET', target, undefined);
  }

  /** Throws `CommandFailed`. */
  post(target: string, body: object): Promise<Document> {
    return this.#answer('POST', target, body);
  }

  /** Every document of a list, or a failure: half a list is none. Throws `CommandFailed`. */
  async list(target: string): Promise<Document[]> {
    const documents: Document[] = [];
    const answer = await this.#success('GET', target, undefined);
    await this.#orFailed(async () => {
      for await (const line of answer.lines()) documents.push(this.#parsed(line));
    });
    return documents;
  }

  /** The bytes of a reply as they come, and its headers; they throw `CommandFailed` where they break off. */
  async stream(
    target: string,
    signal: AbortSignal,
  ): Promise<{ headers: IncomingHttpHeaders; chunks: AsyncGenerator<Buffer> }> {
    const answer = await this.#success('GET', target, undefined, signal);
    return { headers: answer.headers, chunks: this.#chunks(answer) };
  }

  async #answer(method: string, target: string, body: object | undefined): Promise<Document> {
    return this.#document(await this.#success(method, target, body));
  }

  /** The answer, when it is a success. */
  async #success(method: string, target: string, body: object | undefined, signal?: AbortSignal): Promise<Answer> {
    const fault = controlSocketFault(this.#storeDir);
    if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
    const answer = await this.#orFailed(() =>
      socketRequest({
        socketPath: controlSocketPath(this.#storeDir),
        method,
        target,
        headers: { host: 'relay', ...(body && { 'content-type': 'application/json' }) },
        body: body && JSON.stringify(body),
        silenceMs: this.#silenceMs,
        signal,
        documentCharactersMax: DOCUMENT_CHARACTERS_MAX,
      }),
    );
    if (answer.status === 200) return answer;
    throw problemFailure(await this.#document(answer));
  }

  async *#chunks(answer: Answer): AsyncGenerator<Buffer> {
    try {
      yield* answer.chunks();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #document(answer: Answer): Promise<Document> {
    return this.#parsed(await this.#orFailed(() => answer.text()));
  }

  #parsed(text: string): Document {
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch {
      throw this.#foreign();
    }
    if (!isObject(document)) throw this.#foreign();
    return document;
  }

  async #orFailed<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  #failure(error: unknown): unknown {
    if (!(error instanceof SocketRequestFailed)) return error;
    switch (error.fault) {
      case 'not listening':
        return this.#notRunning();
      case 'not allowed':
        return new CommandFailed(
          'refused',
          'NOT_THE_OWNER',
          `the relay on the store at ${this.#storeDir} takes commands of its own user only: run this as that user`,
        );
      case 'gone':
        return this.#gone();
      case 'silent':
        return this.#silent();
      case 'foreign':
        return this.#foreign();
      case 'failed':
        return new CommandFailed(
          'failure',
          'SOCKET_FAILED',
          `the local socket of the relay on the store at ${this.#storeDir} cannot be used (${error.code === '' ? 'unknown error' : error.code}): check that --store-dir names the folder of a running relay`,
        );
    }
  }

  #notRunning(): CommandFailed {
    if (!existsSync(this.#storeDir)) {
      return new CommandFailed(
        'failure',
        'NO_STORE',
        `there is no store folder at ${this.#storeDir}: name that of the running relay with --store-dir`,
      );
    }
    return new CommandFailed(
      'failure',
      'RELAY_NOT_RUNNING',
      `no relay is running on the store at ${this.#storeDir}: start it with poste relay serve --store-dir ${this.#storeDir}, or name another folder`,
    );
  }

  #gone(): CommandFailed {
    return new CommandFailed(
      'temporary',
      'RELAY_GONE',
      'the relay ended the connection before its answer was whole, so it is not known whether it did as asked: see that it runs, and give the command again',
    );
  }

  #silent(): CommandFailed {
    return new CommandFailed(
      'temporary',
      'RELAY_SILENT',
      `the relay said nothing for ${this.#silenceMs / 1000} seconds, so it is not known whether it did as asked: see that it is well, and give the command again`,
    );
  }

  #foreign(): CommandFailed {
    return new CommandFailed(
      'failure',
      'NOT_UNDERSTOOD',
      `what answers at ${controlSocketPath(this.#storeDir)} is not understood: run the relay and this command in the same version`,
    );
  }
}

const EXIT_OF_STATUS: Readonly<Record<number, ExitName>> = {
  400: 'usage',
  403: 'refused',
  404: 'notFound',
  409: 'conflict',
  503: 'temporary',
};

/** What the relay said of a request that it did not do. */
function problemFailure(problem: Document): CommandFailed {
  const { type: _type, title: _title, status, detail, code, ...details } = problem;
  // A route that the relay does not have is not a host that it does not have.
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED') {
    return new CommandFailed(
      'failure',
      'UNKNOWN_TO_RELAY',
      'the running relay does not know this command: run the relay and this command in the same version',
    );
  }
  const exit = EXIT_OF_STATUS[Number(status)] ?? 'failure';
  return new CommandFailed(exit, String(code), String(detail), details);
}
