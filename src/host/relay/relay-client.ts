/**
 * Speaks the relay's v2 protocol for one host: signs hops, sends requests, and holds every answer to its shape, its
 * size and its time. Nothing is followed elsewhere.
 *
 * It decides nothing: whether to retry, what to pin, and what an answer means for an outbox row is its caller's.
 */
import { type Static, Type } from 'typebox';
import { BINARY_TYPE } from '../../protocol/binary-form.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import type { AcceptReceipt, SenderList } from '../../protocol/documents.ts';
import { parseEpoch } from '../../protocol/epoch.ts';
import { HOP_HEADERS, RECEIPTS_HEADER, TREE_RECEIPTS, hopV2Message, hopV1Message } from '../../protocol/hop.ts';
import { isObject } from '../../protocol/json.ts';
import { type Limits, DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { packedBytes } from '../../protocol/message-pack.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import type { ReceiptInTree } from '../../protocol/receipt-tree.ts';
import {
  AcceptTreeShape,
  AckResponse,
  InfoResponse,
  ItemStored,
  ItemStoredInTree,
  LogConsistencyResponse,
  LogProofResponse,
  PushResponse,
  RotateResponse,
  RotationShown,
  SendersResponse,
  V1AckResponse,
  V1PullResponse,
} from '../../protocol/responses.ts';
import { Signature } from '../../protocol/shapes.ts';
import type { SignedRotation } from '../core/rows.ts';
import { type ItemToPush, type PulledPage, answerOf, pageOf, pushBody } from './relay-forms.ts';
import {
  type Enrolled,
  type RelayAnswer,
  RelayCallFailed,
  type RelayClientOptions,
  type ShownEncKey,
  askRelay,
  enrolAt,
  noRelay,
  openParser,
  parseEncKeyPublished,
  parseEncKeyShown,
  sendRelayRequest,
  splitAnswer,
  parseOrFail,
  RelayProblem,
  type RelayRequest,
} from './relay-request.ts';

export type RelayInfo = Omit<Static<typeof InfoResponse>, 'relay_pubkey' | 'limits'> & {
  relay_pubkey: PublicKey;
  limits: Limits;
};
export type LogProof = Static<typeof LogProofResponse>;
export type LogConsistency = Static<typeof LogConsistencyResponse>;

/** `status` is `''` for a result that is none. `isReceiptSigned` verifies its receipt, signed alone or with others. */
export interface PushResult extends Partial<ReceiptInTree> {
  item_id: string | null;
  status: string;
  targets?: { host_pubkey: PublicKey; seq: number }[];
  accept?: AcceptReceipt;
  sig?: string;
}

export interface PullOptions {
  after?: number;
  limit?: number;
  epoch?: string;
  /** Seconds to wait for an item when there is none. */
  wait?: number;
}

const ANY_STORED = openParser(ItemStored);
/** With the statement that stands beside the results. */
const ANY_IN_TREE = openParser(
  Type.Object({ ...ItemStoredInTree.properties, tree: AcceptTreeShape, tree_sig: Signature }),
);
const STATUS_CHARACTERS_MAX = 200;
const ANY_REJECTED = openParser(
  Type.Object({
    item_id: Type.Union([Type.String(), Type.Null()]),
    status: Type.String({ pattern: '^rejected:', maxLength: STATUS_CHARACTERS_MAX }),
  }),
);
const parse = {
  rotate: openParser(RotateResponse),
  rotation: openParser(RotationShown),
  info: openParser(InfoResponse),
  senders: openParser(SendersResponse),
  push: openParser(Type.Object({ epoch: PushResponse.properties.epoch, results: Type.Array(Type.Unknown()) })),
  ack: openParser(AckResponse),
  logProof: openParser(LogProofResponse),
  logConsistency: openParser(LogConsistencyResponse),
};

export class RelayClient {
  readonly #options: RelayClientOptions;
  #relayPubkey: PublicKey | undefined;
  #forms: readonly string[];
  /** The relay did not take a body in the binary form: it gets no other. */
  #isBinaryRefused = false;

  /** `relayPubkey` is the pinned key of the relay; without one the first answer of `info` is taken. */
  constructor(options: RelayClientOptions, relayPubkey?: PublicKey) {
    this.#options = options;
    this.#relayPubkey = relayPubkey;
    this.#forms = options.forms ?? [];
  }

  // Every method throws `RelayCallFailed`; `RelayProblem` of these when the relay answered and refused.

  /** The key, epoch and limits of the relay, asked for without a hop. */
  async info(): Promise<RelayInfo> {
    const info = parseOrFail(await this.#send('GET', '/v2/relay/info'), parse.info) as RelayInfo;
    if (parsePublicKey(info.relay_pubkey) === undefined || parseEpoch(info.epoch) === undefined) throw noRelay();
    this.#relayPubkey ??= info.relay_pubkey;
    this.#forms = this.#options.forms ?? info.forms ?? [];
    return info;
  }

  /** The same with a hop: `you` says what the relay holds for this host. */
  async ownInfo(): Promise<RelayInfo> {
    return parseOrFail(await this.request('GET', '/v2/relay/info'), parse.info) as RelayInfo;
  }

  /** Asks for a challenge and enrols with it; `proof` is what the relay's authority asks for. */
  async enrol(ownerFp = '', proof?: unknown): Promise<Enrolled> {
    return enrolAt(this.#options, await this.#pinnedKey(), ownerFp, proof);
  }

  /** Carries its own proof. */
  async rotate(rotation: SignedRotation): Promise<Static<typeof RotateResponse>> {
    return parseOrFail(await this.#send('POST', '/v2/relay/rotate', { rotation }), parse.rotate);
  }

  async publishEncKey(advertisement: { enc_pub: string; at: number; sig: string }): Promise<{ at: number }> {
    return parseOrFail(await this.request('POST', '/v1/relay/enc-key', advertisement), parseEncKeyPublished);
  }

  /** The key that the host of this key published; null when it is unknown, revoked, or published nothing. */
  async encKeyOf(key: PublicKey): Promise<ShownEncKey | null> {
    const target = `/v2/relay/enc-key?key=${encodeURIComponent(key)}`;
    return parseOrFail(await this.request('GET', target), parseEncKeyShown).enc_key;
  }

  /** The record by which the host of this key replaced it; null when the relay has none. */
  async rotationOf(key: PublicKey): Promise<SignedRotation | null> {
    const target = `/v2/relay/rotation?key=${encodeURIComponent(key)}`;
    const { rotation } = parseOrFail(await this.request('GET', target), parse.rotation);
    const oldKey = parsePublicKey(rotation?.rec.old_pubkey);
    const newKey = parsePublicKey(rotation?.rec.new_pubkey);
    if (!rotation) return null;
    if (!oldKey || !newKey) throw noRelay();
    return { ...rotation, rec: { ...rotation.rec, old_pubkey: oldKey, new_pubkey: newKey } };
  }

  async publishSenders(list: SenderList, sig: string): Promise<{ senders: number; iat: number }> {
    return parseOrFail(await this.request('POST', '/v2/relay/senders', { list, sig }), parse.senders);
  }

  /** Each item's outcome is in `results`, as many as there are items. Asks for receipts that are signed together. */
  async push(items: readonly ItemToPush[]): Promise<{ epoch: string; results: PushResult[] }> {
    const bodyIn = (isBinary: boolean): string | Buffer => pushBody(items, isBinary);
    const headers = { [RECEIPTS_HEADER]: TREE_RECEIPTS };
    const answer = answerOf(await this.#inForm('POST', '/v2/relay/items', bodyIn, { headers })) ?? {};
    const { epoch, results } = parseOrFail(answer, parse.push);
    if (results.length !== items.length) throw new RelayCallFailed('the relay answered for other items', 200);
    return { epoch, results: results.map((result) => resultOf(result, answer)) };
  }

  /** 409 `EPOCH_CHANGED` when `epoch` is not the current one. */
  async pull(options: PullOptions = {}): Promise<PulledPage> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options)) if (value !== undefined) query.set(name, String(value));
    const target = query.size === 0 ? '/v2/relay/items' : `/v2/relay/items?${query.toString()}`;
    const longerMs = (options.wait ?? 0) * 1000;
    return pageOf(await this.#inForm('GET', target, undefined, { longerMs, takesCut: true }));
  }

  /** 400 `BAD_ACK` when `through` lies beyond the head. */
  async ack(epoch: string, through: number): Promise<Static<typeof AckResponse>> {
    const body = { epoch, through };
    const bodyIn = (isBinary: boolean): string | Buffer => (isBinary ? packedBytes(body) : JSON.stringify(body));
    return parseOrFail(answerOf(await this.#inForm('POST', '/v2/relay/ack', bodyIn)), parse.ack);
  }

  /** The leaf that begins an epoch, the present one when absent, with the newest checkpoint. */
  async logLink(epoch?: string): Promise<LogProof> {
    const query = epoch === undefined ? '' : `?epoch=${encodeURIComponent(epoch)}`;
    return parseOrFail(await this.#send('GET', `/v2/relay/log/link${query}`), parse.logProof);
  }

  /** That the record which accepted an own item is in the log. 404 when it is unknown, forgotten or pruned. */
  async logProof(itemId: string, target: PublicKey): Promise<LogProof> {
    const query = new URLSearchParams({ item_id: itemId, target });
    return parseOrFail(await this.request('GET', `/v2/relay/log/proof?${query.toString()}`), parse.logProof);
  }

  /** That the log of `to` leaves continues the log of `from` leaves. */
  async logConsistency(from: number, to: number, epoch?: string): Promise<LogConsistency> {
    const query = new URLSearchParams({ from: String(from), to: String(to), ...(epoch !== undefined && { epoch }) });
    return parseOrFail(await this.#send('GET', `/v2/relay/log/consistency?${query.toString()}`), parse.logConsistency);
  }

  /** One signed request; `headers` are those that the hop does not cover. */
  async request(
    method: string,
    target: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Record<string, unknown>> {
    await this.#pinnedKey();
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = { ...headers, ...this.hopHeaders(method, target, text ?? '') };
    return sendRelayRequest(this.#options, { method, target, headers: sent, body: text });
  }

  /** One signed request of those that have two forms: in the binary one where the relay takes it. */
  async #inForm(
    method: string,
    target: string,
    bodyIn?: (isBinary: boolean) => string | Buffer,
    more: Pick<RelayRequest, 'headers' | 'longerMs' | 'takesCut'> = {},
  ): Promise<RelayAnswer> {
    await this.#pinnedKey();
    const isBinary = this.#forms.includes(BINARY_TYPE) && !this.#isBinaryRefused;
    const body = bodyIn?.(isBinary);
    const accept = isBinary && { accept: BINARY_TYPE };
    const headers = { ...more.headers, ...accept, ...this.hopHeaders(method, target, body ?? '') };
    try {
      return await askRelay(this.#options, { ...more, method, target, headers, body });
    } catch (error) {
      const isRefused = error instanceof RelayProblem && error.status === 400 && error.code === 'BAD_REQUEST';
      if (!isRefused || !Buffer.isBuffer(body)) throw error;
      this.#isBinaryRefused = true;
      return this.#inForm(method, target, bodyIn, more);
    }
  }

  /** The headers of a signed hop. `info` or a pinned key must have come first. */
  hopHeaders(method: string, target: string, body: string | Buffer): Record<string, string> {
    const { signer, hostName, nowMs } = this.#options;
    if (!this.#relayPubkey) throw new Error('invariant: the key of the relay is known before a hop is signed');
    const timestamp = String(nowMs());
    const message = hopV2Message({ method, target, timestamp, bodyHash: sha256Hex(body) }, this.#relayPubkey);
    return {
      [HOP_HEADERS.host]: hostName,
      [HOP_HEADERS.key]: signer.publicKey,
      [HOP_HEADERS.timestamp]: timestamp,
      [HOP_HEADERS.signature]: signer.sign(message),
    };
  }

  async #pinnedKey(): Promise<PublicKey> {
    if (!this.#relayPubkey) await this.info();
    if (!this.#relayPubkey) throw new TypeError('the relay showed no public key');
    return this.#relayPubkey;
  }

  /** A request without a hop. */
  #send(method: string, target: string, body?: object): Promise<Record<string, unknown>> {
    return sendRelayRequest(this.#options, { method, target, body: body && JSON.stringify(body) });
  }
}

/** A result stands alone: it has the statement that its receipt is in. */
function resultOf(value: unknown, { tree, tree_sig }: Record<string, unknown>): PushResult {
  const inTree = isObject(value) && ANY_IN_TREE({ tree, tree_sig, ...value });
  const known: unknown = ANY_STORED(value) ?? (inTree || ANY_REJECTED(value)) ?? { item_id: null, status: '' };
  return known as PushResult;
}

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

/**
 * Speaks the relay's earlier protocol, v1, for one host, where there is no v2: hosts are named, envelopes are JSON
 * among JSON, nothing is signed by the relay, and receipts and notices do not travel. Its methods throw as those of v2
 * do.
 */
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
