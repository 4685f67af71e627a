/**
 * Speaks the relay's earlier protocol, v1, for one host, where there is no v2: hosts are named, envelopes are JSON
 * among JSON, nothing is signed by the relay, and receipts and notices do not travel. Its methods throw as those of v2
 * do.
 */
import { Type } from 'typebox';
import { sha256Hex } from '../../protocol/encodings.ts';
import { HOP_HEADERS, hopV1Message } from '../../protocol/hop.ts';
import { type Limits, DEFAULT_LIMITS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { V1AckResponse, V1PullResponse } from '../../protocol/responses.ts';
import {
  type Enrolled,
  RelayCallFailed,
  type RelayClientOptions,
  RelayProblem,
  type RelayRequest,
  type ShownEncKey,
  askRelay,
  enrolAt,
  noRelay,
  openParser,
  parseEncKeyPublished,
  parseEncKeyShown,
  parseOrFail,
  sendRelayRequest,
  splitAnswer,
} from './relay-request.ts';

/** A relay of v1 tells none: the documented ones. Of a batch so few that the values of any fit into a request. */
export const V1_LIMITS: Limits = { ...DEFAULT_LIMITS, max_batch: 50 };
/** `error` is there when the relay did not take it; `''` when it said nothing that can be read. */
export type V1Stored = { id: string; error?: undefined } | { id: string | null; error: string };

export interface V1Page {
  /** The bytes of each, not parsed: one that cannot be read leaves the others readable. */
  envelopes: Buffer[];
  /** Opaque, of one epoch. */
  cursor: string;
  more: boolean;
}

const anyTaken = openParser(Type.Object({ id: Type.String(), status: Type.Enum(['stored', 'duplicate']) }));
const anyError = openParser(
  Type.Object({ id: Type.Union([Type.String(), Type.Null()]), status: Type.Literal('error'), error: Type.String() }),
);
const parsePush = openParser(Type.Object({ results: Type.Array(Type.Unknown()), stopped: Type.Boolean() }));
const parsePull = openParser(Type.Object({ ...V1PullResponse.properties, envelopes: Type.Array(Type.Unknown()) }));
const parseAck = openParser(V1AckResponse);

export class RelayV1Client {
  readonly #options: RelayClientOptions;
  readonly #relayPubkey: PublicKey;

  /** `relayPubkey` is what the relay's first challenge showed. */
  constructor(options: RelayClientOptions, relayPubkey: PublicKey) {
    this.#options = options;
    this.#relayPubkey = relayPubkey;
  }

  /** Throws `AnotherRelay` when the challenge is of another key. */
  enrol(ownerFp = '', proof?: unknown): Promise<Enrolled> {
    return enrolAt(this.#options, this.#relayPubkey, ownerFp, proof);
  }

  async publishEncKey(advertisement: { enc_pub: string; at: number; sig: string }): Promise<{ at: number }> {
    return parseOrFail(await this.#request('POST', '/v1/relay/enc-key', advertisement), parseEncKeyPublished);
  }

  /** The key that the one host of this name published; null when it is unknown, ambiguous, or published nothing. */
  async encKeyOf(hostName: string): Promise<ShownEncKey | null> {
    const target = `/v1/relay/enc-key?host=${encodeURIComponent(hostName)}`;
    return parseOrFail(await this.#request('GET', target), parseEncKeyShown).enc_key;
  }

  /**
   * Pushes, and tells what became of the first envelopes, in their order; of none behind where the relay stopped.
   * `stopped` is how it said that it did.
   */
  async push(envelopes: readonly unknown[]): Promise<{ results: V1Stored[]; stopped: RelayProblem | undefined }> {
    let answer: Record<string, unknown>;
    let stopped: RelayProblem | undefined;
    try {
      answer = await this.#request('POST', '/v1/relay/messages', { envelopes });
    } catch (error) {
      if (!(error instanceof RelayProblem) || error.status !== 429 || !parsePush(error.document)) throw error;
      stopped = error;
      answer = { ...error.document };
    }
    const { results } = parseOrFail(answer, parsePush);
    const isWhole = results.length === envelopes.length;
    if (results.length > envelopes.length || (!isWhole && !stopped)) {
      throw new RelayCallFailed('the relay answered for other envelopes', 200);
    }
    return { results: results.map(storedOf), stopped };
  }

  /** 409 `EPOCH_CHANGED` when the cursor is of another epoch. */
  async pull(after: string | null): Promise<V1Page> {
    const target = after === null ? '/v1/relay/messages' : `/v1/relay/messages?after=${encodeURIComponent(after)}`;
    const answer = await askRelay(this.#options, this.#signed('GET', target));
    const { rest, elements: envelopes } = splitAnswer(answer.body, 'envelopes');
    const page = parseOrFail(rest, parsePull);
    // It is to stand in the address of the next request.
    if (!page.cursor.isWellFormed()) throw noRelay();
    return { ...page, envelopes };
  }

  /** Has everything up to the cursor deleted. */
  async ack(cursor: string): Promise<void> {
    parseOrFail(await this.#request('POST', '/v1/relay/ack', { cursor }), parseAck);
  }

  #request(method: string, target: string, body?: object): Promise<Record<string, unknown>> {
    return sendRelayRequest(this.#options, this.#signed(method, target, body && JSON.stringify(body)));
  }

  #signed(method: string, target: string, body?: string): RelayRequest {
    const { signer, hostName, nowMs } = this.#options;
    const timestamp = String(nowMs());
    const bodyHash = sha256Hex(body ?? '');
    const headers = {
      [HOP_HEADERS.host]: hostName,
      [HOP_HEADERS.timestamp]: timestamp,
      [HOP_HEADERS.signature]: signer.sign(hopV1Message({ method, target, timestamp, bodyHash })),
    };
    return { method, target, headers, body };
  }
}

function storedOf(value: unknown): V1Stored {
  const taken = anyTaken(value);
  if (taken) return { id: taken.id };
  const refused = anyError(value);
  return refused ? { id: refused.id, error: refused.error } : { id: null, error: '' };
}
