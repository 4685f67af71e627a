/**
 * Calls a paired host over the LAN. Every answer is bounded, held to its shape, and in time; nothing is followed.
 *
 * An answer is not signed: it says what became of a request as far as the LAN can be believed. What an envelope's
 * sender rests on are delivery receipts.
 */
import { randomBytes } from 'node:crypto';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/json.ts';
import { lanHelloWord, isDocumentSigned } from '../../protocol/documents.ts';
import {
  LAN_ROUTES,
  LanAgents,
  LanDone,
  type LanEncKey,
  LanHello,
  type LanItem,
  LanItemsAnswer,
  LanPairing,
} from '../../protocol/lan.ts';
import { printableWithin } from '../../protocol/printable.ts';
import { problemCodeOf, problemText } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { type HttpAnswer, HttpCaller, HttpRequestFailed, limitedSignal } from '../../lib/http-request.ts';
import type { SignedRotation } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import { lanHopHeaders } from './lan-hop.ts';

/** The time for the whole of an answer to come; what is sent by a slow link gets more. */
const ANSWER_TIMEOUT_MS = 20_000;
const SLOWEST_BYTES_PER_MS = 64;
const ANSWER_BYTES_MAX = 2 << 20;
const REASON_CHARACTERS_MAX = 300;
/** Mail has another way, so its connecting is given up sooner; a host that is there is tried once more. */
const MAIL_CONNECT_TIMEOUT_MS = 1_000;
/**
 * When a request with mail is not answered by then, and for as long as its bytes may need besides, the host is asked on
 * another connection whether it is there: packets on a connection to a host that is gone bring no error.
 */
const SILENT_MS = 700;
/** The time for the answer to that. */
const STILL_THERE_WITHIN_MS = 1_000;
/** The time for the answer to `hello` that proves an address. */
const HELLO_TIMEOUT_MS = 3_000;
const HELLO_NONCE_BYTES = 16;

/** The host did not answer, or not as a host does. `code` is a problem's; `''` when there was none. */
export class LanCallFailed extends Error {
  readonly code: string;
  readonly status: number;

  constructor(message: string, status = 0, code = '', cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.code = code;
  }

  /** True when a host answered at all. */
  get isAnswered(): boolean {
    return this.status > 0;
  }
}

/** The host that a hop is for. */
export interface CalledHost {
  /** `host:port`. */
  address: string;
  publicKey: PublicKey;
}

const parse = {
  hello: parserOf(LanHello),
  pairing: parserOf(LanPairing),
  items: parserOf(LanItemsAnswer),
  agents: parserOf(LanAgents),
  done: parserOf(LanDone),
};

export class LanClient {
  readonly #context: HostContext;
  readonly #stopping: AbortSignal;
  readonly #caller: HttpCaller;

  /** Calls under way end when `stopping` is aborted. */
  constructor(context: HostContext, stopping: AbortSignal, caller = new HttpCaller()) {
    this.#context = context;
    this.#stopping = stopping;
    this.#caller = caller;
  }

  hello(address: string): Promise<LanHello> {
    return this.#call(address, 'GET', LAN_ROUTES.hello, parse.hello);
  }

  /**
   * Tells whether the host of this key answers at `address` and signs that the address is its own: nobody passed it on.
   */
  async isAt(host: CalledHost): Promise<boolean> {
    try {
      return (await this.provenHello(host, HELLO_TIMEOUT_MS)).isProven;
    } catch (error) {
      if (error instanceof LanCallFailed) return false;
      throw error;
    }
  }

  /** The hello of the host at `address`, and whether the host of this key signed that the address is its own. */
  async provenHello({ address, publicKey }: CalledHost, timeoutMs?: number): Promise<LanHello & { isProven: boolean }> {
    const nonce = randomBytes(HELLO_NONCE_BYTES).toString('base64url');
    const target = `${LAN_ROUTES.hello}?${new URLSearchParams({ nonce, address }).toString()}`;
    const said = await this.#call(address, 'GET', target, parse.hello, timeoutMs === undefined ? {} : { timeoutMs });
    const word = lanHelloWord({ nonce, pubkey: publicKey, address, now: said.now });
    return { ...said, isProven: isDocumentSigned(publicKey, word, said.sig) };
  }

  pair(address: string, said: LanPairing): Promise<LanPairing> {
    return this.#call(address, 'POST', LAN_ROUTES.pair, parse.pairing, { body: said });
  }

  /** Results in the order of the items; an answer for other items is none. */
  async items(host: CalledHost, items: readonly LanItem[]): Promise<LanItemsAnswer['results']> {
    const { results } = await this.#hop(host, 'POST', LAN_ROUTES.items, parse.items, { items }, true);
    const isForThem = results.every((result, at) => result.item_id === items[at]?.item_id);
    if (results.length !== items.length || !isForThem) {
      throw new LanCallFailed(`the host at ${host.address} answered for other items`, 200);
    }
    return results;
  }

  agents(host: CalledHost): Promise<LanAgents> {
    return this.#hop(host, 'GET', LAN_ROUTES.agents, parse.agents);
  }

  /** The call fails at a host that does not know the route, and that host asks by itself. */
  tellAgents(host: CalledHost, said: LanAgents): Promise<LanDone> {
    return this.#hop(host, 'POST', LAN_ROUTES.agents, parse.done, said);
  }

  /** Carries its own proof. */
  rotate({ address }: CalledHost, rotation: SignedRotation): Promise<LanDone> {
    return this.#call(address, 'POST', LAN_ROUTES.rotate, parse.done, { body: { rotation } });
  }

  encKey(host: CalledHost, advertisement: LanEncKey): Promise<LanDone> {
    return this.#hop(host, 'POST', LAN_ROUTES.encKey, parse.done, advertisement);
  }

  async #hop<T>(
    { address, publicKey }: CalledHost,
    method: string,
    target: string,
    parseAnswer: (value: unknown) => T | undefined,
    body?: object,
    hasAnotherWay = false,
  ): Promise<T> {
    const text = body === undefined ? '' : JSON.stringify(body);
    // Each try is a hop of its own: the same one is taken once.
    const attempt = (): Promise<T> => {
      const { hostName, signer } = this.#context.identity();
      const headers = lanHopHeaders(
        { hostName, signer, nowMs: this.#context.nowMs() },
        publicKey,
        method,
        target,
        text,
      );
      return this.#call(address, method, target, parseAnswer, { headers, hasAnotherWay, ...(body && { text }) });
    };
    try {
      return await attempt();
    } catch (error) {
      // Something between the hosts sent it twice and lost the first answer, or the host has just begun to listen.
      if (!(error instanceof LanCallFailed) || error.code !== 'REPLAYED_HOP') throw error;
      return attempt();
    }
  }

  async #call<T>(
    address: string,
    method: string,
    target: string,
    parseAnswer: (value: unknown) => T | undefined,
    {
      body,
      text = body && JSON.stringify(body),
      headers = {},
      hasAnotherWay = false,
      timeoutMs,
    }: {
      body?: object;
      timeoutMs?: number;
      text?: string | undefined;
      headers?: Record<string, string>;
      /** Gives up soon on a host that is gone. */
      hasAnotherWay?: boolean;
    } = {},
  ): Promise<T> {
    const sendingMs = Math.ceil((text?.length ?? 0) / SLOWEST_BYTES_PER_MS);
    const { signal, end, over } = limitedSignal(timeoutMs ?? ANSWER_TIMEOUT_MS + sendingMs, this.#stopping);
    const watching = hasAnotherWay
      ? setTimeout(() => void this.#endUnlessThere(address, end), SILENT_MS + sendingMs)
      : undefined;
    let said: HttpAnswer;
    try {
      said = await this.#caller.request(`http://${address}${target}`, {
        method,
        headers: { ...headers, ...(text !== undefined && { 'content-type': 'application/json' }) },
        body: text,
        signal,
        answerBytesMax: ANSWER_BYTES_MAX,
        connectTimeoutMs: hasAnotherWay ? MAIL_CONNECT_TIMEOUT_MS : undefined,
      });
    } catch (error) {
      if (!(error instanceof HttpRequestFailed)) throw error;
      const reason = printableWithin(error.message, REASON_CHARACTERS_MAX);
      throw new LanCallFailed(`the host at ${address} did not answer (${reason})`, error.status, '', error);
    } finally {
      clearTimeout(watching);
      over();
    }
    const { status } = said;
    const document = parseJsonBounded(said.body, REQUEST_JSON_BOUNDS);
    if (status !== 200) {
      const words = `the host at ${address} answered ${status} ${problemText(document)}`.trimEnd();
      throw new LanCallFailed(words, status, problemCodeOf(document));
    }
    const answer = parseAnswer(document);
    if (answer === undefined) throw new LanCallFailed(`what answers at ${address} is no host of this kind`, status);
    return answer;
  }

  async #endUnlessThere(address: string, end: (reason: Error) => void): Promise<void> {
    try {
      await this.#call(address, 'GET', LAN_ROUTES.hello, parse.hello, { timeoutMs: STILL_THERE_WITHIN_MS });
    } catch (error) {
      if (!(error instanceof LanCallFailed)) throw error;
      if (!error.isAnswered) end(new HttpRequestFailed('it is gone'));
    }
  }
}
