/**
 * Speaks the relay's v2 protocol for one host: signs hops, sends requests, and holds every answer to its shape, its
 * size and its time. Nothing is followed elsewhere.
 *
 * It decides nothing: whether to retry, what to pin, and what an answer means for an outbox row is its caller's.
 */
import { type Static, Type } from 'typebox';
import { BINARY_TYPE, packedBytes } from '../../protocol/message-pack.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import type { AcceptReceipt, SenderList } from '../../protocol/documents.ts';
import { parseEpoch } from '../../protocol/names.ts';
import { HOP_HEADERS, RECEIPTS_HEADER, TREE_RECEIPTS, hopV2Message } from '../../protocol/hop.ts';
import { isObject } from '../../protocol/json.ts';
import type { Limits } from '../../protocol/limits.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import type { ReceiptInTree } from '../../protocol/receipt-tree.ts';
import {
  AcceptTreeShape,
  AckResponse,
  CheckpointShownResponse,
  InfoResponse,
  ItemStored,
  ItemStoredInTree,
  LogConsistencyResponse,
  LogProofResponse,
  PushResponse,
  RotateResponse,
  RotationShown,
  SendersResponse,
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

/** What is asked of the log; the newest checkpoint of the current epoch when it names nothing. */
export interface AskedCheckpoint {
  epoch?: string;
  size?: number;
  /** 32 bytes that the relay is to sign with its newest checkpoint; alone. */
  after?: Buffer;
  /** The newest one that witnesses cosigned, with their cosignatures; alone. */
  isCosigned?: boolean;
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
  shown: openParser(CheckpointShownResponse),
  logProof: openParser(LogProofResponse),
  logConsistency: openParser(LogConsistencyResponse),
};

export class RelayClient {
  readonly #options: RelayClientOptions;
  #relayPubkey: PublicKey | undefined;
  #forms: readonly string[];
  /** The relay did not take a body in the binary form: it gets no other. */
  #isBinaryRefused = false;
  /** A request got no answer: the relay that answers the next one may be of another version. */
  #mayHaveChanged = false;

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
    this.#mayHaveChanged = false;
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
    const target = withQuery('/v2/relay/items', { ...options });
    const longerMs = (options.wait ?? 0) * 1000;
    return pageOf(await this.#inForm('GET', target, undefined, { longerMs, takesCut: true }));
  }

  /** 400 `BAD_ACK` when `through` lies beyond the head. */
  async ack(epoch: string, through: number): Promise<Static<typeof AckResponse>> {
    const body = { epoch, through };
    const bodyIn = (isBinary: boolean): string | Buffer => (isBinary ? packedBytes(body) : JSON.stringify(body));
    return parseOrFail(answerOf(await this.#inForm('POST', '/v2/relay/ack', bodyIn)), parse.ack);
  }

  /**
   * A signed note, not verified: the newest one, or that of an epoch or an earlier size. A relay of an earlier version
   * knows neither `size` nor `after`, and answers its newest.
   */
  async logCheckpoint({ epoch, size, after, isCosigned }: AskedCheckpoint = {}): Promise<string> {
    await this.#pinnedKey();
    const target = withQuery('/v2/relay/log/checkpoint', {
      epoch,
      size,
      after: after?.toString('base64url'),
      cosigned: isCosigned ? 1 : undefined,
    });
    const { body } = await askRelay(this.#options, {
      method: 'GET',
      target,
      headers: this.hopHeaders('GET', target, ''),
    });
    return body.toString('utf8');
  }

  /**
   * Shows the relay a note that it signed; `known` says whether it is a head that it knows. 409 `EPOCH_CHANGED` when
   * its log contradicts the note, or, with `knew` and `older`, has lost the epoch of the note: a new epoch began.
   */
  async showCheckpoint(shown: { note: string; knew?: string; older?: string }): Promise<{ known: boolean }> {
    return parseOrFail(await this.request('POST', '/v2/relay/log/checkpoint', shown), parse.shown);
  }

  /** The leaf that begins an epoch, the present one when absent, with the newest checkpoint. */
  async logLink(epoch?: string): Promise<LogProof> {
    return parseOrFail(await this.request('GET', withQuery('/v2/relay/log/link', { epoch })), parse.logProof);
  }

  /**
   * That the record which accepted an own item is in the log: among the first `size` leaves of its epoch. 404 when it
   * is not, unknown or forgotten; of a record that was pruned the code is `RECORD_PRUNED`.
   */
  async logProof(itemId: string, target: PublicKey, size?: number): Promise<LogProof> {
    const asked = withQuery('/v2/relay/log/proof', { item_id: itemId, target, size });
    return parseOrFail(await this.request('GET', asked), parse.logProof);
  }

  /** That the log of `to` leaves continues the log of `from` leaves. */
  async logConsistency(from: number, to: number, epoch?: string): Promise<LogConsistency> {
    const asked = withQuery('/v2/relay/log/consistency', { from, to, epoch });
    return parseOrFail(await this.request('GET', asked), parse.logConsistency);
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
    if (this.#mayHaveChanged) {
      await this.info();
      this.#isBinaryRefused = false;
    }
    const isBinary = this.#forms.includes(BINARY_TYPE) && !this.#isBinaryRefused;
    const body = bodyIn?.(isBinary);
    const accept = isBinary && { accept: BINARY_TYPE };
    const headers = { ...more.headers, ...accept, ...this.hopHeaders(method, target, body ?? '') };
    try {
      return await askRelay(this.#options, { ...more, method, target, headers, body });
    } catch (error) {
      this.#mayHaveChanged ||= !(error instanceof RelayProblem);
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

function withQuery(path: string, members: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value !== undefined) query.set(name, String(value));
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

/** A result stands alone: it has the statement that its receipt is in. */
function resultOf(value: unknown, { tree, tree_sig }: Record<string, unknown>): PushResult {
  const inTree = isObject(value) && ANY_IN_TREE({ tree, tree_sig, ...value });
  const known: unknown = ANY_STORED(value) ?? (inTree || ANY_REJECTED(value)) ?? { item_id: null, status: '' };
  return known as PushResult;
}
