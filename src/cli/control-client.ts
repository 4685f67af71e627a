/**
 * Speaks to the running relay through the control socket of its store folder.
 *
 * Whatever goes wrong ends the command with one sentence and the next step: no relay, another user's relay, a relay
 * that ends or falls silent in the middle. Nothing waits for ever.
 */
import { existsSync } from 'node:fs';
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { isObject } from '../protocol/items.ts';
import { controlSocketFault, controlSocketPath } from '../relay/control/socket.ts';
import { CommandFailed, type ExitName } from './exit.ts';

/** A relay that says nothing for this long is given up. */
const SILENCE_MS = 30_000;
/** One document, or one line of a list. */
const DOCUMENT_BYTES_MAX = 1 << 20;

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
    let rest = '';
    const response = await this.#success('GET', target, undefined);
    for await (const text of this.#texts(response)) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > DOCUMENT_BYTES_MAX) throw this.#foreign();
      for (const line of lines) documents.push(this.#parsed(line));
    }
    if (rest !== '') throw this.#gone();
    return documents;
  }

  /** The bytes of a reply as they come, and its headers; they throw `CommandFailed` where they break off. */
  async stream(
    target: string,
    signal: AbortSignal,
  ): Promise<{ headers: IncomingHttpHeaders; chunks: AsyncGenerator<Buffer> }> {
    const response = await this.#success('GET', target, undefined, signal);
    return { headers: response.headers, chunks: this.#chunks(response) };
  }

  async #answer(method: string, target: string, body: object | undefined): Promise<Document> {
    return this.#parsed(await this.#text(await this.#success(method, target, body)));
  }

  /** The response, when it is a success. */
  async #success(
    method: string,
    target: string,
    body: object | undefined,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    const response = await this.#open(method, target, body, signal);
    if (response.statusCode === 200) return response;
    throw problemFailure(this.#parsed(await this.#text(response)));
  }

  #open(
    method: string,
    target: string,
    body: object | undefined,
    signal: AbortSignal | undefined,
  ): Promise<IncomingMessage> {
    const socketPath = controlSocketPath(this.#storeDir);
    const fault = controlSocketFault(this.#storeDir);
    if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
    const text = body === undefined ? '' : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const headers = {
        host: 'relay',
        ...(body && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      };
      let open: ClientRequest | IncomingMessage = request({
        socketPath,
        method,
        path: target,
        headers,
        agent: false,
        ...(signal && { signal }),
      });
      const outgoing = open;
      outgoing.setTimeout(this.#silenceMs, () => open.destroy(this.#silent()));
      outgoing.on('error', (error) => reject(this.#failure(error)));
      outgoing.on('response', (response) => {
        open = response;
        resolve(response);
      });
      outgoing.end(text);
    });
  }

  async #text(response: IncomingMessage): Promise<string> {
    let all = '';
    for await (const text of this.#texts(response)) {
      all += text;
      if (all.length > DOCUMENT_BYTES_MAX) throw this.#foreign();
    }
    return all;
  }

  async *#chunks(response: IncomingMessage): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of response) yield chunk as Buffer;
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async *#texts(response: IncomingMessage): AsyncGenerator<string> {
    response.setEncoding('utf8');
    try {
      for await (const text of response) yield text as string;
    } catch (error) {
      throw this.#failure(error);
    }
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

  #failure(error: unknown): CommandFailed {
    if (error instanceof CommandFailed) return error;
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return this.#notRunning();
    if (code === 'EACCES' || code === 'EPERM') {
      return new CommandFailed(
        'refused',
        'NOT_THE_OWNER',
        `the relay on the store at ${this.#storeDir} takes commands of its own user only: run this as that user`,
      );
    }
    if (code === 'ECONNRESET' || code === 'EPIPE') return this.#gone();
    if (code.startsWith('HPE_')) return this.#foreign();
    return new CommandFailed(
      'failure',
      'SOCKET_FAILED',
      `the local socket of the relay on the store at ${this.#storeDir} cannot be used (${code === '' ? 'unknown error' : code}): check that --store-dir names the folder of a running relay`,
    );
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
