/**
 * Speaks to the running relay through the control socket of its store folder.
 *
 * Every failure ends the command with one sentence and the next step: no relay, another user's relay, a relay that
 * stops or falls silent in the middle. No request waits without end.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isObject, jsonIn } from '../../protocol/json.ts';
import type { ControlRequests } from '../../relay/operator/documents.ts';
import { controlSocketFault, controlSocketPath } from '../../relay/operator/socket.ts';
import { type SocketRequestFailed, socketStream, type StreamedAnswer } from '../../lib/socket-request.ts';
import { CommandFailed, type ExitName, exitOfStatus } from '../lib/exit.ts';
import { folderRefused } from '../../relay/store/refused.ts';
import { storeRefused } from './failure.ts';
import type { RelayFlags } from './relay-command.ts';

const SILENCE_MS = 30_000;
/** One document, or one line of a list. */
const DOCUMENT_BYTES_MAX = 1 << 20;

type Document = Record<string, unknown>;

/** The document that answers a request, as the table of requests has it. */
type AnswerTo<Request extends string> = Request extends `${infer Path}?${string}`
  ? AnswerTo<Path>
  : Request extends keyof ControlRequests
    ? ControlRequests[Request]
    : Document;

export function relayOf({ storeDir }: RelayFlags): ControlClient {
  return new ControlClient(resolve(storeDir));
}

export class ControlClient {
  readonly #storeDir: string;
  readonly #silenceMs: number;

  constructor(storeDir: string, silenceMs: number = SILENCE_MS) {
    this.#storeDir = storeDir;
    this.#silenceMs = silenceMs;
  }

  get<T extends string>(target: T): Promise<AnswerTo<`GET ${T}`>> {
    return this.#answer('GET', target, undefined);
  }

  post<T extends string>(target: T, body: object): Promise<AnswerTo<`POST ${T}`>> {
    return this.#answer('POST', target, body);
  }

  /** The complete list. Throws `CommandFailed`, also when the list breaks off. */
  async list<T extends string>(target: T): Promise<AnswerTo<`GET ${T}`>[]> {
    const documents: Document[] = [];
    const answer = await this.#success('GET', target, undefined);
    for await (const line of answer.lines()) documents.push(this.#parse(line));
    return documents as AnswerTo<`GET ${T}`>[];
  }

  /** The documents of an answer, each as soon as it comes. Throws `CommandFailed`, also when the list breaks off. */
  async *follow<T extends string>(target: T, body: object, signal: AbortSignal): AsyncGenerator<AnswerTo<`POST ${T}`>> {
    const answer = await this.#success('POST', target, body, signal);
    for await (const line of answer.lines()) yield this.#parse(line) as AnswerTo<`POST ${T}`>;
  }

  /** The headers of a reply, and its bytes as they arrive. Reading throws `CommandFailed` when they break off. */
  async stream(
    target: string,
    signal: AbortSignal,
  ): Promise<{ headers: StreamedAnswer['headers']; chunks: AsyncGenerator<Buffer> }> {
    const answer = await this.#success('GET', target, undefined, signal);
    return { headers: answer.headers, chunks: answer.chunks() };
  }

  async #answer<A>(method: string, target: string, body: object | undefined): Promise<A> {
    return this.#parse(await (await this.#success(method, target, body)).text()) as A;
  }

  async #success(
    method: string,
    target: string,
    body: object | undefined,
    signal?: AbortSignal,
  ): Promise<StreamedAnswer> {
    const fault = controlSocketFault(this.#storeDir);
    if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
    const answer = await socketStream({
      socketPath: controlSocketPath(this.#storeDir),
      method,
      target,
      headers: { host: 'relay', ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
      silenceMs: this.#silenceMs,
      signal,
      documentBytesMax: DOCUMENT_BYTES_MAX,
      failure: (fault) => this.#failure(fault),
    });
    if (answer.status === 200) return answer;
    throw problemFailure(this.#parse(await answer.text()));
  }

  #parse(text: string): Document {
    const document = jsonIn(text);
    if (!isObject(document)) throw this.#foreign();
    return document;
  }

  #failure(error: SocketRequestFailed): CommandFailed {
    const { fault, detail, code } = error;
    const store = `the store at ${this.#storeDir}`;
    if (fault === 'not listening') return this.#notRunning();
    if (fault === 'foreign') return this.#foreign();
    const refused = fault === 'failed' ? folderRefused(this.#storeDir, error) : undefined;
    if (refused) return storeRefused(refused);
    const ends: Readonly<Record<typeof fault, [exit: ExitName, code: string, message: string]>> = {
      'not allowed': [
        'refused',
        'NOT_THE_OWNER',
        `the relay on ${store} accepts commands from its own user only: run this as that user`,
      ],
      'not trusted': [
        'refused',
        'SOCKET_NOT_TRUSTED',
        `${detail}: nothing was sent, as what answers there may be somebody else's; give this command as the ` +
          "relay's own user, with a store folder of that user alone",
      ],
      gone: [
        'temporary',
        'RELAY_GONE',
        `the relay closed the connection in the middle of its answer, ${IN_DOUBT} runs, and try again`,
      ],
      silent: [
        'temporary',
        'RELAY_SILENT',
        `the relay did not answer for ${this.#silenceMs / 1000} seconds, ${IN_DOUBT} is healthy, and try again`,
      ],
      failed: [
        'failure',
        'SOCKET_FAILED',
        `the local socket of the relay on ${store} cannot be used (${code === '' ? 'unknown error' : code}): ` +
          'check that --store-dir names the folder of a running relay',
      ],
    };
    return new CommandFailed(...ends[fault]);
  }

  #notRunning(): CommandFailed {
    const storeDir = this.#storeDir;
    if (existsSync(storeDir)) {
      const remedy = `start it with poste relay serve --store-dir ${storeDir}, or name another folder`;
      const message = `no relay is running on the store at ${storeDir}: ${remedy}`;
      return new CommandFailed('failure', 'RELAY_NOT_RUNNING', message);
    }
    const message = `there is no store folder at ${storeDir}: name the folder of the running relay with --store-dir`;
    return new CommandFailed('notFound', 'NO_STORE', message);
  }

  #foreign(): CommandFailed {
    const message = `what answers at ${controlSocketPath(this.#storeDir)} is not understood: ${SAME_VERSION}`;
    return new CommandFailed('failure', 'NOT_UNDERSTOOD', message);
  }
}

const IN_DOUBT = 'so it may or may not have done what you asked: check that it';
const SAME_VERSION = 'run the relay and this command in the same version';

/** Resolves with the answer of a relay that runs; `undefined` when none does. */
export async function ifRunning<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    // A process that runs but does not answer holds the lock of the store.
    const { code } = error as CommandFailed;
    if (code !== 'RELAY_NOT_RUNNING' && code !== 'SOCKET_PATH_TOO_LONG') throw error;
    return undefined;
  }
}

function problemFailure(problem: Document): CommandFailed {
  const { type: _type, title: _title, status, detail, code, ...details } = problem;
  // These mean an unknown route, not an unknown host.
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED') {
    const message = `the running relay does not know this command: ${SAME_VERSION}`;
    return new CommandFailed('failure', 'UNKNOWN_TO_RELAY', message);
  }
  return new CommandFailed(exitOfStatus(Number(status)), String(code), String(detail), details);
}
