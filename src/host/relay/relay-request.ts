/**
 * One request to a relay and its answer, held to its shape, its size and its time. Nothing is followed elsewhere.
 */
import type { Static, TSchema } from 'typebox';
import { BINARY_TYPE } from '../../protocol/message-pack.ts';
import { REQUEST_JSON_BOUNDS, isObject, parseJsonBounded, splitJsonArray } from '../../protocol/json.ts';
import { enrolClaim, signDocument } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { parseEpoch } from '../../protocol/names.ts';
import { printableWithin } from '../../protocol/printable.ts';
import { problemCodeOf, problemText } from '../../protocol/problem.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { ChallengeResponse, EncKeyPublished, EncKeyShown, EnrolResponse } from '../../protocol/responses.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { type HttpAnswer, HttpCaller, HttpRequestFailed, limitedSignal } from '../../lib/http-request.ts';

/** The time for the whole of an answer to come, besides the time that a pull asked the relay to wait. */
const ANSWER_TIMEOUT_MS = 30_000;
/** A page of 8 MiB of wire bytes in base64, and room for relays with larger pages. */
const ANSWER_BYTES_MAX = 32 << 20;
/** Items of a page that are told apart: what follows is one item, which nobody can read. */
export const ELEMENTS_MAX = 10_000;
const REASON_CHARACTERS_MAX = 300;
const RETRY_AFTER_MAX_MS = 3_600_000;
const PLAIN_CALLER = new HttpCaller();

/** A code of this program's own: the relay answered with a certificate that no trusted authority signed. */
export const CERTIFICATE_NOT_TRUSTED = 'CERTIFICATE_NOT_TRUSTED';
const NOT_TRUSTED: ReadonlySet<string> = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_UNTRUSTED',
  'CERT_SIGNATURE_FAILURE',
  'INVALID_CA',
]);
/** Other faults of a certificate, as people say them. */
const UNFIT: ReadonlyMap<string, string> = new Map([
  ['CERT_HAS_EXPIRED', 'that ran out'],
  ['CERT_NOT_YET_VALID', 'that is not good yet'],
  ['CERT_REVOKED', 'that was revoked'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'of another name'],
]);

/** As many as a host has relays. */
const CALLERS_MAX = 8;
const callers = new Map<string, HttpCaller>();

/** A caller for a relay whose authority is private: its certificates, in PEM, are trusted beside those of Node. */
export function callerTrusting(ca: { pem: string } | undefined): HttpCaller | undefined {
  if (!ca) return undefined;
  const known = callers.get(ca.pem);
  if (known) return known;
  if (callers.size >= CALLERS_MAX) callers.clear();
  const caller = new HttpCaller({ ca: ca.pem });
  callers.set(ca.pem, caller);
  return caller;
}

/** No answer that can be used. `status` is 0 when there was none at all. */
export class RelayCallFailed extends Error {
  readonly status: number;
  /** A code as problem.ts has them, or `''` when the answer was no problem document. */
  readonly code: string;
  readonly document: Readonly<Record<string, unknown>>;
  /** The time for which the relay asks to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    status = 0,
    document: Readonly<Record<string, unknown>> = {},
    more: { retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.status = status;
    this.code = problemCodeOf(document);
    this.document = document;
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** An answer that is no success: what the relay said of it, as far as it said anything. */
export class RelayProblem extends RelayCallFailed {
  constructor(status: number, document: Readonly<Record<string, unknown>>, retryAfterMs?: number) {
    super(`the relay answered ${status} ${problemText(document)}`, status, document, { retryAfterMs });
  }
}

/** Codes of a 401 that are about one request, and not about the enrolment of this host. */
const OF_ONE_REQUEST: ReadonlySet<string> = new Set(['BAD_SIGNATURE', 'CLOCK_SKEW', 'NO_CHALLENGE', 'REPLAYED_HOP']);

/**
 * Tells whether the relay does not know this host (specification, "Enrolment", rule 10), whatever words it has for
 * that.
 */
export function isNotEnrolled({ status, code }: RelayCallFailed): boolean {
  return status === 401 && !OF_ONE_REQUEST.has(code);
}

/** Another relay than the one that was meant answers: `shown` is its key. */
export class AnotherRelay extends RelayCallFailed {
  readonly shown: PublicKey;

  constructor(shown: PublicKey) {
    super('a challenge came from another relay than the pinned one', 200);
    this.shown = shown;
  }
}

export interface RelayClientOptions {
  /** The relay's address, without a trailing slash; a path prefix is allowed. */
  url: string;
  signer: Signer;
  hostName: string;
  nowMs: () => number;
  /** Ends what is under way. */
  stopping?: AbortSignal;
  /** The caller whose certificates are trusted; those of Node alone when absent. */
  caller?: HttpCaller | undefined;
  /** Called before a request that asks the relay to wait so long; what it returns is called when that ended. */
  asking?: ((waitMs: number) => () => void) | undefined;
  /** The content types that the relay has besides JSON; absent: those that `info` lists, once it was asked. */
  forms?: readonly string[];
}

export interface RelayRequest {
  method: string;
  target: string;
  headers?: Record<string, string>;
  /** JSON; bytes are of the binary form. */
  body?: string | Buffer | undefined;
  /** More than others may take. */
  longerMs?: number;
  /** True when what came of an answer that was cut is one. */
  takesCut?: boolean;
}

/** What a relay answered that did not refuse. */
export interface RelayAnswer {
  body: Buffer;
  isBinary: boolean;
}

type Caller = Pick<RelayClientOptions, 'url' | 'stopping' | 'caller' | 'asking'>;

/** The JSON object that the relay answers. Throws as `askRelay` does. */
export async function sendRelayRequest(caller: Caller, request: RelayRequest): Promise<Record<string, unknown>> {
  const answer = parsedAnswer((await askRelay(caller, request)).body);
  if (!answer) throw noRelay();
  return answer;
}

/** The answer of the relay. Throws `RelayProblem` when it refuses, and `RelayCallFailed`. */
export async function askRelay(
  { url, stopping, caller = PLAIN_CALLER, asking }: Caller,
  { method, target, headers = {}, body, longerMs = 0, takesCut }: RelayRequest,
): Promise<RelayAnswer> {
  const { signal, over } = limitedSignal(ANSWER_TIMEOUT_MS + longerMs, stopping);
  const answered = asking?.(longerMs);
  let said: HttpAnswer;
  try {
    said = await caller.request(url + target, {
      method,
      headers: { ...headers, ...(body !== undefined && { 'content-type': contentTypeOf(body) }) },
      body,
      takesCut,
      signal,
      answerBytesMax: ANSWER_BYTES_MAX,
    });
  } catch (error) {
    if (!(error instanceof HttpRequestFailed)) throw error;
    throw failedCall(error);
  } finally {
    over();
    answered?.();
  }
  const { status, body: bytes, headers: shown, cut } = said;
  const retryAfterMs = retryAfterOf(shown['retry-after']);
  if (status < 200 || status > 299) throw new RelayProblem(status, parsedAnswer(bytes) ?? {}, retryAfterMs);
  const isBinary = shown['content-type'] === BINARY_TYPE;
  // Of JSON nothing can be read before its end, and what this host itself ended it does not want any more.
  if (cut && (!isBinary || stopping?.aborted === true)) throw failedCall(cut);
  return { body: bytes, isBinary };
}

function contentTypeOf(body: string | Buffer): string {
  return typeof body === 'string' ? 'application/json' : BINARY_TYPE;
}

function failedCall(error: HttpRequestFailed): RelayCallFailed {
  const { code, status } = error;
  const more = { cause: error };
  if (NOT_TRUSTED.has(code)) {
    const message = `the relay answers, and its certificate is not trusted here (${code})`;
    return new RelayCallFailed(message, 0, { code: CERTIFICATE_NOT_TRUSTED }, more);
  }
  const unfit = UNFIT.get(code);
  if (unfit !== undefined)
    return new RelayCallFailed(`the relay answers with a certificate ${unfit} (${code})`, 0, {}, more);
  const reason = printableWithin(error.message, REASON_CHARACTERS_MAX);
  return new RelayCallFailed(`the relay did not answer (${reason})`, status, {}, more);
}

export function parsedAnswer(bytes: Buffer): Record<string, unknown> | undefined {
  const answer = parseJsonBounded(bytes, REQUEST_JSON_BOUNDS);
  return isObject(answer) ? answer : undefined;
}

/** An answer without the elements of one of its arrays, and their bytes, which are not parsed. */
export interface SplitAnswer {
  rest: Record<string, unknown>;
  elements: Buffer[];
}

/** The JSON object, which must have the array `member`. Throws `RelayCallFailed`. */
export function splitAnswer(bytes: Buffer, member: string): SplitAnswer {
  const { rest, elements } = splitJsonArray(bytes, member, REQUEST_JSON_BOUNDS, ELEMENTS_MAX);
  // A second array of this name would be another page than the one that was split.
  if (!isObject(rest) || !Array.isArray(rest[member]) || rest[member].length > 0) throw noRelay();
  return { rest, elements };
}

/** The typed answer. Throws `RelayCallFailed` when it has another shape. */
export function parseOrFail<T>(answer: unknown, parseAnswer: (value: unknown) => T | undefined): T {
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
  const body = JSON.stringify({ pubkey: options.signer.publicKey });
  const asked = await sendRelayRequest(options, { method: 'POST', target: '/v1/relay/challenge', body });
  const { challenge, relay_pubkey: shown } = parseOrFail(asked, parseChallenge);
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
  const sig = signDocument(signer, enrolClaim(fields));
  const body = JSON.stringify({ host, pubkey, owner_fp: ownerFp, sig, proof });
  const enrolled = parseOrFail(
    await sendRelayRequest(options, { method: 'POST', target: '/v1/relay/enrol', body }),
    parseEnrolled,
  );
  if (parseEpoch(enrolled.epoch) === undefined) throw noRelay();
  return enrolled;
}

/** Seconds; a date is not read: the clocks may differ. */
function retryAfterOf(text = ''): number | undefined {
  return /^[0-9]{1,9}$/.test(text) ? Math.min(RETRY_AFTER_MAX_MS, Number(text) * 1000) : undefined;
}
