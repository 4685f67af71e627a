/**
 * Speaks the relay's v2 protocol for one host: signs hops, sends requests, checks the shape of what comes back.
 *
 * It decides nothing: whether to retry, what to pin, and what an answer means for an outbox row is its caller's.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import { type AcceptReceipt, enrolClaim } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { HOP_HEADERS, hopV2Message } from '../../protocol/hop.ts';
import { type ItemKind, type PushedKind, isObject } from '../../protocol/items.ts';
import type { Limits } from '../../protocol/limits.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';

/** An answer that is no success: what the relay said of it, as far as it said anything. */
export class RelayProblem extends Error {
  readonly status: number;
  /** A code of problem.ts, or `''` when the answer was no problem document. */
  readonly code: string;
  readonly document: Readonly<Record<string, unknown>>;

  constructor(status: number, document: Readonly<Record<string, unknown>>) {
    const code = textOf(document['code']);
    super(`the relay answered ${status} ${code}: ${textOf(document['detail'])}`);
    this.status = status;
    this.code = code;
    this.document = document;
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export interface RelayInfo {
  v: number;
  relay_pubkey: PublicKey;
  epoch: string;
  limits: Limits;
  version: string;
  now: number;
  you?: { host: string; pubkey: PublicKey; head_seq: number; acked_through: number };
}

export interface ItemToPush {
  kind: PushedKind;
  item_id: string;
  targets: { host_pubkey: PublicKey; wire_b64: string }[];
}

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
}

export class RelayClient {
  readonly #options: RelayClientOptions;
  #relayPubkey: PublicKey | undefined;

  /** `relayPubkey` is the pinned key of the relay; without one the first answer of `info` is taken. */
  constructor(options: RelayClientOptions, relayPubkey?: PublicKey) {
    this.#options = options;
    this.#relayPubkey = relayPubkey;
  }

  /** Without a hop: who the relay is. Throws `RelayProblem`. */
  async info(): Promise<RelayInfo> {
    const info = (await this.#send('GET', '/v2/relay/info', {}, undefined)) as unknown as RelayInfo;
    this.#relayPubkey ??= parsePublicKey(info.relay_pubkey);
    return info;
  }

  /** With a hop: `you` says what the relay holds for this host. Throws `RelayProblem`. */
  async ownInfo(): Promise<RelayInfo> {
    return (await this.request('GET', '/v2/relay/info')) as unknown as RelayInfo;
  }

  /** Asks for a challenge and enrols with it; `proof` is what the relay's authority asks for. Throws `RelayProblem`. */
  async enrol(ownerFp = '', proof?: unknown): Promise<Record<string, unknown>> {
    const { signer, hostName } = this.#options;
    const { publicKey: pubkey } = signer;
    const relayPubkey = await this.#pinnedKey();
    const { challenge } = await this.#send('POST', '/v1/relay/challenge', {}, { pubkey });
    if (typeof challenge !== 'string') throw new TypeError('the relay gave no challenge');
    const fields = { challenge, relay_pubkey: relayPubkey, host: hostName, pubkey, owner_fp: ownerFp };
    const sig = signer.sign(canonicalBytes(enrolClaim(fields)));
    return this.#send('POST', '/v1/relay/enrol', {}, { host: hostName, pubkey, owner_fp: ownerFp, sig, proof });
  }

  /** Throws `RelayProblem`; each item's outcome is in `results`. */
  async push(items: readonly ItemToPush[]): Promise<{ epoch: string; results: PushResult[] }> {
    const answer = await this.request('POST', '/v2/relay/items', { items });
    return answer as unknown as { epoch: string; results: PushResult[] };
  }

  /** Throws `RelayProblem`: 409 `EPOCH_CHANGED` when `epoch` is not the current one. */
  async pull(options: PullOptions = {}): Promise<PulledPage> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options)) if (value !== undefined) query.set(name, String(value));
    const target = query.size === 0 ? '/v2/relay/items' : `/v2/relay/items?${query.toString()}`;
    return (await this.request('GET', target)) as unknown as PulledPage;
  }

  /** Throws `RelayProblem`: 400 `BAD_ACK` when `through` lies beyond the head. */
  async ack(epoch: string, through: number): Promise<{ acked_through: number; deleted: number; head_seq: number }> {
    const answer = await this.request('POST', '/v2/relay/ack', { epoch, through });
    return answer as unknown as { acked_through: number; deleted: number; head_seq: number };
  }

  /** One signed request. Throws `RelayProblem`. */
  async request(method: string, target: string, body?: unknown): Promise<Record<string, unknown>> {
    await this.#pinnedKey();
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.#send(method, target, this.hopHeaders(method, target, text ?? ''), body);
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
  ): Promise<Record<string, unknown>> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(this.#options.url + target, {
      method,
      headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...content,
    });
    const text = await response.text();
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      answer = undefined;
    }
    if (!response.ok) throw new RelayProblem(response.status, isObject(answer) ? answer : {});
    if (!isObject(answer)) throw new TypeError('the relay answered something that is no JSON object');
    return answer;
  }
}
