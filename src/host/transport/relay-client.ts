/**
 * Speaks the relay's v2 protocol for one host: signs hops, sends requests, and holds every answer to its shape, its
 * size and its time. Nothing is followed elsewhere.
 *
 * It decides nothing: whether to retry, what to pin, and what an answer means for an outbox row is its caller's.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import { type AcceptReceipt, type SenderList, enrolClaim } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { HOP_HEADERS, hopV2Message } from '../../protocol/hop.ts';
import { type ItemKind, type PushedKind, isObject } from '../../protocol/items.ts';
import type { Limits } from '../../protocol/limits.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import {
  AckResponse,
  ChallengeResponse,
  EncKeyPublished,
  EncKeyShown,
  EnrolResponse,
  InfoResponse,
  ItemStored,
  PullResponse,
  PushResponse,
  RotateResponse,
  SendersResponse,
} from '../../protocol/responses.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { SignedRotation } from '../core/rows.ts';

/** For the whole of an answer to come, besides the time that a pull asked the relay to wait. */
const ANSWER_TIMEOUT_MS = 30_000;
/** A page of 8 MiB of wire bytes in base64, and room for relays with larger pages. */
const ANSWER_BYTES_MAX = 32 << 20;
const RETRY_AFTER_MAX_MS = 3_600_000;

/** No answer that can be used. `status` is 0 when there was none at all. */
export class RelayCallFailed extends Error {
  readonly status: number;
  /** A code of problem.ts, or `''` when the answer was no problem document. */
  readonly code: string;
  readonly document: Readonly<Record<string, unknown>>;
  /** How long the relay asks to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    status = 0,
    document: Readonly<Record<string, unknown>> = {},
    more: { retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.status = status;
    this.code = textOf(document['code']);
    this.document = document;
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** An answer that is no success: what the relay said of it, as far as it said anything. */
export class RelayProblem extends RelayCallFailed {
  constructor(status: number, document: Readonly<Record<string, unknown>>, retryAfterMs?: number) {
    const said = `${textOf(document['code'])}: ${textOf(document['detail']).slice(0, 300)}`;
    super(`the relay answered ${status} ${said}`, status, document, { retryAfterMs });
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export type RelayInfo = Omit<Static<typeof InfoResponse>, 'relay_pubkey' | 'limits'> & {
  relay_pubkey: PublicKey;
  limits: Limits;
};
export type Enrolled = Static<typeof EnrolResponse>;
export type ShownEncKey = NonNullable<Static<typeof EncKeyShown>['enc_key']>;

export interface ItemToPush {
  kind: PushedKind;
  item_id: string;
  targets: { host_pubkey: PublicKey; wire_b64: string }[];
}

/** `status` is `''` for a result that is none. */
export interface PushResult {
  item_id: string | null;
  status: string;
  targets?: { host_pubkey: PublicKey; seq: number }[];
  accept?: AcceptReceipt;
  sig?: string;
}

export interface PulledItem {
  seq: number;
  kind: ItemKind;
  item_id: string;
  sender_pubkey: PublicKey;
  wire_b64: string;
}

export interface PulledPage {
  epoch: string;
  head_seq: number;
  /** In ascending seq, above what was asked for. */
  items: PulledItem[];
  last_seq: number;
  more: boolean;
}

export interface PullOptions {
  after?: number;
  limit?: number;
  epoch?: string;
  /** Seconds to wait for an item when there is none. */
  wait?: number;
}

export interface RelayClientOptions {
  /** The relay's address, without a trailing slash; a path prefix is allowed. */
  url: string;
  signer: Signer;
  hostName: string;
  nowMs: () => number;
  /** Ends what is under way. */
  stopping?: AbortSignal;
}

/** Members that are not known here are ignored: the schemas of the relay have none. */
function openParser<T extends TSchema>(schema: T): (value: unknown) => Static<T> | undefined {
  const text = JSON.stringify(schema, (name, value: unknown) => (name === 'additionalProperties' ? undefined : value));
  return parserOf(JSON.parse(text) as T);
}

/** One item that cannot be read does not make the others unreadable. */
const ANY_STORED = openParser(ItemStored);
const ANY_REJECTED = openParser(
  Type.Object({ item_id: Type.Union([Type.String(), Type.Null()]), status: Type.String({ pattern: '^rejected:' }) }),
);
const parse = {
  challenge: openParser(ChallengeResponse),
  enrol: openParser(EnrolResponse),
  rotate: openParser(RotateResponse),
  info: openParser(InfoResponse),
  senders: openParser(SendersResponse),
  encKeyPublished: openParser(EncKeyPublished),
  encKeyShown: openParser(EncKeyShown),
  push: openParser(Type.Object({ ...PushResponse.properties, results: Type.Array(Type.Unknown()) })),
  pull: openParser(PullResponse),
  ack: openParser(AckResponse),
};

export class RelayClient {
  readonly #options: RelayClientOptions;
  #relayPubkey: PublicKey | undefined;

  /** `relayPubkey` is the pinned key of the relay; without one the first answer of `info` is taken. */
  constructor(options: RelayClientOptions, relayPubkey?: PublicKey) {
    this.#options = options;
    this.#relayPubkey = relayPubkey;
  }

  // Every method throws `RelayCallFailed`; `RelayProblem` of these when the relay answered and refused.

  /** Without a hop: who the relay is. */
  async info(): Promise<RelayInfo> {
    const info = shaped(await this.#send('GET', '/v2/relay/info', {}, undefined), parse.info) as RelayInfo;
    if (parsePublicKey(info.relay_pubkey) === undefined) throw noRelay();
    this.#relayPubkey ??= info.relay_pubkey;
    return info;
  }

  /** With a hop: `you` says what the relay holds for this host. */
  async ownInfo(): Promise<RelayInfo> {
    return shaped(await this.request('GET', '/v2/relay/info'), parse.info) as RelayInfo;
  }

  /** Asks for a challenge and enrols with it; `proof` is what the relay's authority asks for. */
  async enrol(ownerFp = '', proof?: unknown): Promise<Enrolled> {
    const { signer, hostName } = this.#options;
    const { publicKey: pubkey } = signer;
    const relayPubkey = await this.#pinnedKey();
    const asked = await this.#send('POST', '/v1/relay/challenge', {}, { pubkey });
    const { challenge, relay_pubkey: shown } = shaped(asked, parse.challenge);
    if (shown !== relayPubkey)
      throw new RelayCallFailed('a challenge came from another relay than the pinned one', 200);
    const fields = { challenge, relay_pubkey: relayPubkey, host: hostName, pubkey, owner_fp: ownerFp };
    const sig = signer.sign(canonicalBytes(enrolClaim(fields)));
    const body = { host: hostName, pubkey, owner_fp: ownerFp, sig, proof };
    return shaped(await this.#send('POST', '/v1/relay/enrol', {}, body), parse.enrol);
  }

  /** Carries its own proof. */
  async rotate(rotation: SignedRotation): Promise<Static<typeof RotateResponse>> {
    return shaped(await this.#send('POST', '/v2/relay/rotate', {}, { rotation }), parse.rotate);
  }

  async publishEncKey(advertisement: { enc_pub: string; at: number; sig: string }): Promise<{ at: number }> {
    return shaped(await this.request('POST', '/v1/relay/enc-key', advertisement), parse.encKeyPublished);
  }

  /** What the host of this key published; null when it is unknown, revoked, or published nothing. */
  async encKeyOf(key: PublicKey): Promise<ShownEncKey | null> {
    const target = `/v2/relay/enc-key?key=${encodeURIComponent(key)}`;
    return shaped(await this.request('GET', target), parse.encKeyShown).enc_key;
  }

  async publishSenders(list: SenderList, sig: string): Promise<{ senders: number; iat: number }> {
    return shaped(await this.request('POST', '/v2/relay/senders', { list, sig }), parse.senders);
  }

  /** Each item's outcome is in `results`, as many as there are items. */
  async push(items: readonly ItemToPush[]): Promise<{ epoch: string; results: PushResult[] }> {
    const { epoch, results } = shaped(await this.request('POST', '/v2/relay/items', { items }), parse.push);
    if (results.length !== items.length) throw new RelayCallFailed('the relay answered for other items', 200);
    return { epoch, results: results.map(resultOf) };
  }

  /** 409 `EPOCH_CHANGED` when `epoch` is not the current one. */
  async pull(options: PullOptions = {}): Promise<PulledPage> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options)) if (value !== undefined) query.set(name, String(value));
    const target = query.size === 0 ? '/v2/relay/items' : `/v2/relay/items?${query.toString()}`;
    const page = shaped(await this.request('GET', target, undefined, (options.wait ?? 0) * 1000), parse.pull);
    let last = options.after ?? 0;
    for (const { seq } of page.items) {
      if (seq <= last) throw new RelayCallFailed('the relay showed items out of their order', 200);
      last = seq;
    }
    return page as PulledPage;
  }

  /** 400 `BAD_ACK` when `through` lies beyond the head. */
  async ack(epoch: string, through: number): Promise<Static<typeof AckResponse>> {
    return shaped(await this.request('POST', '/v2/relay/ack', { epoch, through }), parse.ack);
  }

  /** One signed request, which may take `longerMs` more than others. */
  async request(method: string, target: string, body?: unknown, longerMs = 0): Promise<Record<string, unknown>> {
    await this.#pinnedKey();
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.#send(method, target, this.hopHeaders(method, target, text ?? ''), body, longerMs);
  }

  /** The headers of a signed hop. `info` or a pinned key must have come first. */
  hopHeaders(method: string, target: string, bodyText: string): Record<string, string> {
    const { signer, hostName, nowMs } = this.#options;
    if (!this.#relayPubkey) throw new Error('invariant: the key of the relay is known before a hop is signed');
    const timestamp = String(nowMs());
    const message = hopV2Message({ method, target, timestamp, bodyHash: sha256Hex(bodyText) }, this.#relayPubkey);
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

  async #send(
    method: string,
    target: string,
    headers: Record<string, string>,
    body: unknown,
    longerMs = 0,
  ): Promise<Record<string, unknown>> {
    const { url, stopping } = this.#options;
    const inTime = AbortSignal.timeout(ANSWER_TIMEOUT_MS + longerMs);
    let status: number;
    let retryAfterMs: number | undefined;
    let bytes: Buffer;
    try {
      const response = await fetch(url + target, {
        method,
        redirect: 'error',
        signal: stopping ? AbortSignal.any([stopping, inTime]) : inTime,
        headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      ({ status } = response);
      retryAfterMs = retryAfterOf(response);
      bytes = await bytesOf(response);
    } catch (error) {
      if (error instanceof RelayCallFailed) throw error;
      throw new RelayCallFailed(`the relay did not answer (${reasonOf(error)})`, 0, {}, { cause: error });
    }
    const answer = parseJsonBounded(bytes, REQUEST_JSON_BOUNDS);
    if (status < 200 || status > 299) throw new RelayProblem(status, isObject(answer) ? answer : {}, retryAfterMs);
    if (!isObject(answer)) throw noRelay();
    return answer;
  }
}

function shaped<T>(answer: unknown, parseAnswer: (value: unknown) => T | undefined): T {
  const value = parseAnswer(answer);
  if (value === undefined) throw noRelay();
  return value;
}

function noRelay(): RelayCallFailed {
  return new RelayCallFailed('what answers there is no relay of this protocol', 200);
}

function resultOf(value: unknown): PushResult {
  const known: unknown = ANY_STORED(value) ?? ANY_REJECTED(value) ?? { item_id: null, status: '' };
  return known as PushResult;
}

async function bytesOf(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > ANSWER_BYTES_MAX) throw new RelayCallFailed('the answer of the relay is too long', response.status);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Seconds; a date is not read: the clocks may differ. */
function retryAfterOf(response: Response): number | undefined {
  const text = response.headers.get('retry-after') ?? '';
  return /^[0-9]{1,9}$/.test(text) ? Math.min(RETRY_AFTER_MAX_MS, Number(text) * 1000) : undefined;
}

function reasonOf(error: unknown): string {
  const { cause, name, message } = error as {
    cause?: { code?: string; message?: string };
    name: string;
    message: string;
  };
  return cause?.code ?? (name === 'TimeoutError' ? 'no answer in time' : (cause?.message ?? message));
}
