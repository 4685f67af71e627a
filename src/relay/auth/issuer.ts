/**
 * The issuer of account tokens: JWTs that one of its keys signed for this relay.
 *
 * Checked for every kind of token alike: form, algorithm, key, signature, `typ`, `iss`, `aud`, and its times. `iss` and
 * `aud` are compared as strings, character for character: a trailing slash is significant. What an account token
 * needs beyond that is checked by account-token.ts, what a security event token needs by `readDenyEvent`.
 *
 * A reason is a fixed sentence: it never holds anything of the token.
 */
import { type CryptoKey, compactVerify, decodeProtectedHeader } from 'jose';
import { type JsonBounds, isObject, parseJsonBounded } from '../../protocol/json.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { DENY_KEPT_MS } from '../../protocol/limits.ts';
import type { DenySelectors } from '../core/rows.ts';
import { type Jwks, KID_CHARACTERS_MAX, type SigningAlgorithm, signingAlgorithm } from './jwks.ts';

/** `iat` and `nbf` may lie this far ahead of the relay's clock. */
const ISSUER_AHEAD_MAX_MS = 60_000;

const CLAIMS_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 500, membersMax: 100 };
/** Up to 256 characters, none of them a control character or half a pair: names go into rows and logs. */
const CLAIM_TEXT_PATTERN = /^[^\p{Cc}\p{Cs}]{0,256}$/u;

export interface IssuerSettings {
  /** `iss`. */
  issuer: string;
  /** `aud`: how the issuer names this relay. */
  relayUrl: string;
  jwksUrl: string;
}

/** A kind of token: the issuer's other tokens for this relay have the same `iss` and `aud`. */
export interface TokenKind {
  name: string;
  /** The types in lower case, without `application/`; `undefined`: a token without `typ` is of this kind. */
  types: readonly (string | undefined)[];
}

/** A JWT of the issuer for this relay, in force now. Times in milliseconds since the Unix epoch. */
export interface IssuedJwt {
  type: 'IssuedJwt';
  claims: Readonly<Record<string, unknown>>;
  jti: string;
  iatMs: number;
  /** `undefined` when it does not say. */
  expMs: number | undefined;
}

export interface JwtRefused {
  type: 'JwtRefused';
  /** `form`: it is no token. `signature`: no key verifies it. `claims`: it is not for this relay, or not now. */
  fault: 'form' | 'signature' | 'claims';
  reason: string;
}

interface IssuerOptions extends Omit<IssuerSettings, 'jwksUrl'> {
  jwks: Jwks;
  nowMs: () => number;
}

export class Issuer {
  readonly #options: IssuerOptions;

  constructor(options: IssuerOptions) {
    this.#options = options;
  }

  /** `kind`: what the token must be, by its `typ`. */
  async verify(token: string, kind: TokenKind): Promise<IssuedJwt | JwtRefused> {
    const header = readHeader(token);
    if ('type' in header) return header;
    const { alg, signing, kid, typ } = header;
    const key = await this.#options.jwks.key(kid, signing);
    if (!key) return jwtRefused('signature', 'the token names no key of the issuer for its algorithm');
    const payload = await verifiedPayload(token, key, alg);
    if (!payload) return jwtRefused('signature', 'the signature of the token does not verify');
    const claims = parseJsonBounded(payload, CLAIMS_JSON_BOUNDS);
    if (!isObject(claims)) return jwtRefused('form', 'the token holds no claims');
    if (!isOfKind(typ, kind)) return jwtRefused('claims', `the token is no ${kind.name}`);
    return this.#checkAddressee(claims);
  }

  #checkAddressee(claims: Readonly<Record<string, unknown>>): IssuedJwt | JwtRefused {
    const { issuer, relayUrl } = this.#options;
    const nowMs = this.#options.nowMs();
    const { iss, aud, iat, nbf, exp, jti } = claims;
    if (iss !== issuer) return jwtRefused('claims', 'the token is of another issuer');
    if (Array.isArray(aud) ? !aud.includes(relayUrl) : aud !== relayUrl) {
      return jwtRefused('claims', 'the token is for another audience');
    }
    const iatMs = timeOf(iat);
    const [nbfMs, expMs] = [nbf, exp].map((date) => (date === undefined ? undefined : timeOf(date)));
    const isMistimed = (nbf !== undefined && nbfMs === undefined) || (exp !== undefined && expMs === undefined);
    if (iatMs === undefined || isMistimed || !isName(jti)) {
      return jwtRefused('claims', 'a claim of the token is missing or malformed');
    }
    if (Math.max(iatMs, nbfMs ?? iatMs) > nowMs + ISSUER_AHEAD_MAX_MS) {
      return jwtRefused('claims', 'the token is not valid yet');
    }
    if (expMs !== undefined && expMs <= nowMs) return jwtRefused('claims', 'the token has expired');
    return { type: 'IssuedJwt', claims, jti, iatMs, expMs };
  }
}

function jwtRefused(fault: JwtRefused['fault'], reason: string): JwtRefused {
  return { type: 'JwtRefused', fault, reason };
}

export function isName(value: unknown): value is string {
  return isNameOrEmpty(value) && value !== '';
}

export function isNameOrEmpty(value: unknown): value is string {
  return typeof value === 'string' && CLAIM_TEXT_PATTERN.test(value);
}

interface JwtHeader {
  /** The algorithm as the token names it, and as this relay knows it. */
  alg: string;
  signing: SigningAlgorithm;
  kid: string;
  typ: unknown;
}

function readHeader(token: string): JwtHeader | JwtRefused {
  let header: ReturnType<typeof decodeProtectedHeader>;
  try {
    header = decodeProtectedHeader(token);
  } catch {
    return jwtRefused('form', 'the token is no signed JWT');
  }
  const { alg } = header;
  const signing = signingAlgorithm(alg);
  if (alg === undefined || !signing)
    return jwtRefused('signature', 'the token is signed with an algorithm that is not taken');
  const { kid, typ, crit } = header as Readonly<Record<string, unknown>>;
  if (typeof kid !== 'string' || kid === '' || kid.length > KID_CHARACTERS_MAX) {
    return jwtRefused('signature', 'the token names no key');
  }
  // Nothing that may stand in `crit` is understood here.
  if (crit !== undefined) return jwtRefused('signature', 'the token asks for an extension that is not known');
  return { alg, signing, kid, typ };
}

/** RFC 7515, section 4.1.9: `application/` may be left out, and media types ignore case. */
function isOfKind(typ: unknown, { types }: TokenKind): boolean {
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ;
  return types.some((one) => one === type);
}

async function verifiedPayload(token: string, key: CryptoKey, alg: string): Promise<Buffer | undefined> {
  try {
    const { payload } = await compactVerify(token, key, { algorithms: [alg] });
    return Buffer.from(payload);
  } catch {
    return undefined;
  }
}

/** A NumericDate (RFC 7519: seconds, fractions allowed) in milliseconds. */
function timeOf(date: unknown): number | undefined {
  if (typeof date !== 'number' || date < 0) return undefined;
  const ms = Math.floor(date * 1000);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

export const DENY_EVENT = 'urn:mail-relay:deny';
const SECURITY_EVENT: TokenKind = { name: 'security event token', types: ['secevent+jwt'] };
const HOST_FP_PATTERN = /^[0-9a-f]{64}$/;
const REASON_CHARACTERS_MAX = 256;

interface DenyEvent extends DenySelectors {
  type: 'DenyEvent';
  reason: string;
}

/**
 * Reads a deny entry out of a Security Event Token (RFC 8417) that the issuer pushed; its `typ` is `secevent+jwt`.
 *
 * A token may be delivered again, by the issuer or by a third party that saw it: the entry it makes is the same, and
 * its time to stand begins anew. Were it good for ever, it could keep out hosts that the issuer let in again later. So
 * it is taken for a day after `iat`, as long as an entry stands; one that took longer is to be issued anew.
 */
export async function readDenyEvent(token: string, issuer: Issuer, nowMs: number): Promise<DenyEvent | JwtRefused> {
  const jwt = await issuer.verify(token, SECURITY_EVENT);
  if (jwt.type === 'JwtRefused') return jwt;
  if (nowMs - jwt.iatMs >= DENY_KEPT_MS) {
    return jwtRefused('claims', 'the token was issued more than a day ago: issue it anew');
  }
  const { events } = jwt.claims;
  const deny = isObject(events) && Object.keys(events).length === 1 ? events[DENY_EVENT] : undefined;
  return denyEvent(deny) ?? jwtRefused('form', `the token does not hold one event, ${DENY_EVENT}, with a selector`);
}

/** `undefined` unless some selector is set and all set ones are valid: an entry without any would match every host. */
function denyEvent(event: unknown): DenyEvent | undefined {
  if (!isObject(event)) return undefined;
  const { host_fp: hostFp, client_id: clientId, account, org, reason } = event;
  const selectors = [hostFp, clientId, account, org];
  const isEachOne = selectors.every((selector) => selector === undefined || isName(selector));
  if (!isEachOne || selectors.every((selector) => selector === undefined)) return undefined;
  if (hostFp !== undefined && !HOST_FP_PATTERN.test(hostFp as string)) return undefined;
  if (typeof reason !== 'string') return undefined;
  return {
    type: 'DenyEvent',
    hostFp: (hostFp as Sha256Hex | undefined) ?? null,
    clientId: (clientId as string | undefined) ?? null,
    account: (account as string | undefined) ?? null,
    org: (org as string | undefined) ?? null,
    // For people; however long it is, the entry counts.
    reason: reason.slice(0, REASON_CHARACTERS_MAX).toWellFormed(),
  };
}
