/**
 * Calls a paired host over the LAN. Every answer is bounded, held to its shape, and in time; nothing is followed.
 *
 * An answer is not signed: it says what became of a request as far as the LAN can be believed. What an envelope's
 * sender rests on are delivery receipts.
 */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { isObject } from '../../protocol/items.ts';
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
import type { PublicKey } from '../../protocol/public-key.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { limitedSignal } from '../../system/limited-signal.ts';
import type { SignedRotation } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { lanHopHeaders } from './lan-hop.ts';

/** For the whole of an answer to come, and more for what is sent by a slow link. */
const ANSWER_TIMEOUT_MS = 20_000;
const SLOWEST_BYTES_PER_MS = 64;
const ANSWER_BYTES_MAX = 2 << 20;

/** The host did not answer, or not as a host does. `code` is a problem's; `''` when there was none. */
export class LanCallFailed extends Error {
  readonly code: string;
  readonly status: number;

  constructor(message: string, status = 0, code = '', cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.code = code;
  }

  /** Whether a host answered at all. */
  get isAnswered(): boolean {
    return this.status > 0;
  }
}

/** Whom a hop is for. */
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
  readonly #office: Office;
  readonly #stopping: AbortSignal;

  /** Calls under way end when `stopping` is aborted. */
  constructor(office: Office, stopping: AbortSignal) {
    this.#office = office;
    this.#stopping = stopping;
  }

  hello(address: string): Promise<LanHello> {
    return this.#call(address, 'GET', LAN_ROUTES.hello, parse.hello);
  }

  pair(address: string, said: LanPairing): Promise<LanPairing> {
    return this.#call(address, 'POST', LAN_ROUTES.pair, parse.pairing, { body: said });
  }

  /** Results in the order of the items; an answer for other items is none. */
  async items(host: CalledHost, items: readonly LanItem[]): Promise<LanItemsAnswer['results']> {
    const { results } = await this.#hop(host, 'POST', LAN_ROUTES.items, parse.items, { items });
    const isForThem = results.every((result, at) => result.item_id === items[at]?.item_id);
    if (results.length !== items.length || !isForThem) {
      throw new LanCallFailed(`the host at ${host.address} answered for other items`, 200);
    }
    return results;
  }

  async agents(host: CalledHost): Promise<LanAgents['agents']> {
    return (await this.#hop(host, 'GET', LAN_ROUTES.agents, parse.agents)).agents;
  }

  /** Carries its own proof. */
  rotate({ address }: CalledHost, rotation: SignedRotation): Promise<LanDone> {
    return this.#call(address, 'POST', LAN_ROUTES.rotate, parse.done, { body: { rotation } });
  }

  encKey(host: CalledHost, advertisement: LanEncKey): Promise<LanDone> {
    return this.#hop(host, 'POST', LAN_ROUTES.encKey, parse.done, advertisement);
  }

  #hop<T>(
    { address, publicKey }: CalledHost,
    method: string,
    target: string,
    parseAnswer: (value: unknown) => T | undefined,
    body?: object,
  ): Promise<T> {
    const text = body === undefined ? '' : JSON.stringify(body);
    const { hostName, signer } = this.#office.identity();
    const headers = lanHopHeaders({ hostName, signer, nowMs: this.#office.nowMs() }, publicKey, method, target, text);
    return this.#call(address, method, target, parseAnswer, { headers, ...(body && { text }) });
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
    }: {
      body?: object;
      text?: string | undefined;
      headers?: Record<string, string>;
    } = {},
  ): Promise<T> {
    const timeoutMs = ANSWER_TIMEOUT_MS + Math.ceil((text?.length ?? 0) / SLOWEST_BYTES_PER_MS);
    const { signal, over } = limitedSignal(timeoutMs, this.#stopping);
    let status: number;
    let bytes: Buffer;
    try {
      const response = await fetch(`http://${address}${target}`, {
        method,
        redirect: 'error',
        signal,
        headers: { ...headers, ...(text !== undefined && { 'content-type': 'application/json' }) },
        ...(text !== undefined && { body: text }),
      });
      ({ status } = response);
      bytes = await bytesOf(response);
    } catch (error) {
      if (error instanceof LanCallFailed) throw error;
      throw new LanCallFailed(`the host at ${address} did not answer (${reasonOf(error)})`, 0, '', error);
    } finally {
      over();
    }
    const document = parseJsonBounded(bytes, REQUEST_JSON_BOUNDS);
    if (status !== 200) {
      const code = isObject(document) && typeof document['code'] === 'string' ? document['code'].slice(0, 64) : '';
      const said = isObject(document) && typeof document['detail'] === 'string' ? document['detail'].slice(0, 300) : '';
      throw new LanCallFailed(`the host at ${address} answered ${status} ${code} ${said}`.trimEnd(), status, code);
    }
    const answer = parseAnswer(document);
    if (answer === undefined) throw new LanCallFailed(`what answers at ${address} is no host of this kind`, status);
    return answer;
  }
}

async function bytesOf(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > ANSWER_BYTES_MAX) throw new LanCallFailed('the answer is too long', response.status);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function reasonOf(error: unknown): string {
  const { cause, name, message } = error as { cause?: { code?: string }; name: string; message: string };
  return cause?.code ?? (name === 'TimeoutError' ? 'no answer in time' : message);
}
