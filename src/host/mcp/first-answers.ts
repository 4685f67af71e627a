/**
 * The answers that a client waits for before its first turn. The build makes them of what the server itself answers
 * (scripts/ready-answers.ts), so they are given before the server is loaded.
 *
 * A line is answered here only where it is plain that the server answers it so. Any other line, and each one behind it,
 * is for the server. It gets what was answered here too, and `ClientTransport` drops what it says to that.
 */
import {
  type OpeningMessage,
  type RequestId,
  arePlain,
  isHandshake,
  openingMessageOf,
  revisionNamedBy,
} from './opening-messages.ts';

/** Stands in ready lines where the id of a request comes, as a string of JSON. */
export const ID_PLACE = '"<<id>>"';
/** Stands in ready lines where the name of the agent comes. */
export const AGENT_PLACE = '<<agent>>';

export interface ReadyAnswers {
  /** The revisions whose clients begin with `initialize`. The first one is for a client that asks for another. */
  handshakes: string[];
  /** The revisions whose clients name theirs in each request. */
  envelopes: string[];
  /** The place in `lines` of the answer, by revision and method. Revisions share most of them. */
  answers: Record<string, Record<string, number>>;
  lines: string[];
}

const HANDSHAKE = 'initialize';
const TOOLS = 'tools/list';
/** Clients ask these before their first turn, and each has one answer at any time. */
const AT_ANY_TIME = [TOOLS, 'resources/list', 'resources/templates/list', 'prompts/list', 'ping'];
/** The methods that have ready answers. */
export const HANDSHAKE_METHODS = [HANDSHAKE, ...AT_ANY_TIME];
export const ENVELOPE_METHODS = ['server/discover', ...AT_ANY_TIME];

export class FirstAnswers {
  readonly answered = new Set<RequestId>();
  readonly #ready: ReadyAnswers;
  readonly #agent: string;
  /** The client speaks by it. Absent before its first request. */
  #revision: string | undefined;
  #isListed = false;
  #isOver = false;

  constructor(ready: ReadyAnswers, agent: string) {
    this.#ready = ready;
    this.#agent = agent;
  }

  /** True once the client knows the tools. */
  get isListed(): boolean {
    return this.#isListed;
  }

  /** The line of the answer, which is empty where none is due. `undefined` for what is for the server. */
  answerTo(line: Buffer): string | undefined {
    const message = this.#isOver ? undefined : openingMessageOf(line);
    const answer = message && (message.id === undefined ? this.#afterNotice(message) : this.#answer(message));
    this.#isOver = answer === undefined;
    return answer;
  }

  #afterNotice({ method, params }: OpeningMessage): string | undefined {
    return method === 'notifications/initialized' && this.#hasHandshake && arePlain(params) ? '' : undefined;
  }

  #answer({ id, method, params }: OpeningMessage): string | undefined {
    if (id === undefined || this.answered.has(id)) return undefined;
    const revision = this.#revisionFor(method, params);
    const answers = revision === undefined ? {} : (this.#ready.answers[revision] ?? {});
    if (!Object.hasOwn(answers, method)) return undefined;
    this.#revision = revision;
    this.answered.add(id);
    this.#isListed ||= method === TOOLS;
    const line = this.#ready.lines[answers[method] ?? -1] ?? '';
    return line.replaceAll(AGENT_PLACE, this.#agent).replace(ID_PLACE, () => JSON.stringify(id));
  }

  /** Finds the revision by which the server answers the request. `undefined` where it may refuse it. */
  #revisionFor(method: string, params: OpeningMessage['params']): string | undefined {
    const { handshakes, envelopes } = this.#ready;
    if (method === HANDSHAKE) {
      if (this.#revision !== undefined || !isHandshake(params)) return undefined;
      return handshakes.find((revision) => revision === params['protocolVersion']) ?? handshakes[0];
    }
    if (this.#hasHandshake) return arePlain(params) ? this.#revision : undefined;
    return envelopes.find((revision) => revision === revisionNamedBy(params));
  }

  get #hasHandshake(): boolean {
    return this.#revision !== undefined && this.#ready.handshakes.includes(this.#revision);
  }
}
