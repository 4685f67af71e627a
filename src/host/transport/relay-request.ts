/**
 * One request to a relay and its answer, held to its shape, its size and its time. Nothing is followed elsewhere.
 */
import type { Static, TSchema } from 'typebox';
import { type JsonBounds, REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { enrolClaim } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { isObject } from '../../protocol/items.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { ChallengeResponse, EncKeyPublished, EncKeyShown, EnrolResponse } from '../../protocol/responses.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { limitedSignal } from '../../system/limited-signal.ts';

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

/** Another relay than the one that was meant answers: `shown` is its key. */
export class AnotherRelay extends RelayCallFailed {
  readonly shown: PublicKey;

  constructor(shown: PublicKey) {
    super('a challenge came from another relay than the pinned one', 200);
    this.shown = shown;
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
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

export interface RelayRequest {
  method: string;
  target: string;
  headers?: Record<string, string>;
  body?: unknown;
  /** More than others may take. */
  longerMs?: number;
  /** Of the answer. */
  bounds?: JsonBounds;
}

/** The JSON object that the relay answers. Throws `RelayProblem` when it refuses, and `RelayCallFailed`. */
export async function sendRelayRequest(
  { url, stopping }: Pick<RelayClientOptions, 'url' | 'stopping'>,
  { method, target, headers = {}, body, longerMs = 0, bounds = REQUEST_JSON_BOUNDS }: RelayRequest,
): Promise<Record<string, unknown>> {
  const { signal, over } = limitedSignal(ANSWER_TIMEOUT_MS + longerMs, stopping);
  let status: number;
  let retryAfterMs: number | undefined;
  let bytes: Buffer;
  try {
    const response = await fetch(url + target, {
      method,
      redirect: 'error',
      signal,
      headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    ({ status } = response);
    retryAfterMs = retryAfterOf(response);
    bytes = await bytesOf(response);
  } catch (error) {
    if (error instanceof RelayCallFailed) throw error;
    throw new RelayCallFailed(`the relay did not answer (${reasonOf(error)})`, 0, {}, { cause: error });
  } finally {
    over();
  }
  const answer = parseJsonBounded(bytes, bounds);
  if (status < 200 || status > 299) throw new RelayProblem(status, isObject(answer) ? answer : {}, retryAfterMs);
  if (!isObject(answer)) throw noRelay();
  return answer;
}

/** The typed answer. Throws `RelayCallFailed` when it has another shape. */
export function shaped<T>(answer: unknown, parseAnswer: (value: unknown) => T | undefined): T {
  const value = parseAnswer(answer);
  if (value === undefined) throw noRelay();
  return value;
}

export function noRelay(): RelayCallFailed {
  return new RelayCallFailed('what answers there is no relay of this protocol', 200);
}

/** Members that are not known here are ignored: the schemas of the relay have none. */
export function openParser<T extends TSchema>(schema: T): (value: unknown) => Static<T> | undefined {
  const text = JSON.stringify(schema, (name, value: unknown) => (name === 'additionalProperties' ? undefined : value));
  return parserOf(JSON.parse(text) as T);
}

export type Enrolled = Static<typeof EnrolResponse>;
export type ShownEncKey = NonNullable<Static<typeof EncKeyShown>['enc_key']>;

const parseChallenge = openParser(ChallengeResponse);
const parseEnrolled = openParser(EnrolResponse);
export const parseEncKeyShown = openParser(EncKeyShown);
export const parseEncKeyPublished = openParser(EncKeyPublished);

/** Asks for a challenge: its text, and the key of the relay that it is of. */
export async function askChallenge(
  options: RelayClientOptions,
): Promise<{ challenge: string; relayPubkey: PublicKey }> {
  const body = { pubkey: options.signer.publicKey };
  const asked = await sendRelayRequest(options, { method: 'POST', target: '/v1/relay/challenge', body });
  const { challenge, relay_pubkey: shown } = shaped(asked, parseChallenge);
  const relayPubkey = parsePublicKey(shown);
  if (relayPubkey === undefined) throw noRelay();
  return { challenge, relayPubkey };
}

/** Enrols with a challenge of the relay of this key; `proof` is what its authority asks for. Throws `AnotherRelay`. */
export async function enrolAt(
  options: RelayClientOptions,
  relayPubkey: PublicKey,
  ownerFp: string,
  proof: unknown,
): Promise<Enrolled> {
  const { signer, hostName: host } = options;
  const { publicKey: pubkey } = signer;
  const { challenge, relayPubkey: shown } = await askChallenge(options);
  if (shown !== relayPubkey) throw new AnotherRelay(shown);
  const fields = { challenge, relay_pubkey: relayPubkey, host, pubkey, owner_fp: ownerFp };
  const sig = signer.sign(canonicalBytes(enrolClaim(fields)));
  const body = { host, pubkey, owner_fp: ownerFp, sig, proof };
  return shaped(await sendRelayRequest(options, { method: 'POST', target: '/v1/relay/enrol', body }), parseEnrolled);
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
