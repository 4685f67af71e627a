/**
 * What the issuer of account tokens says: JWTs that one of its keys signed for this relay.
 *
 * Checked for every kind of token alike: form, algorithm, key, signature, `iss`, `aud`, and its times. `iss` and `aud`
 * are compared as strings, character for character: a trailing slash is significant. What the kinds need beyond that
 * is checked by account-token.ts and security-event.ts.
 *
 * A reason is a fixed sentence: it never holds anything of the token.
 */
import { type CryptoKey, compactVerify, decodeProtectedHeader } from 'jose';
import { type JsonBounds, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { isObject } from '../../protocol/json-object.ts';
import type { Jwks } from './jwks.ts';
import { KID_CHARACTERS_MAX, SIGNING_ALGORITHMS, type SigningAlgorithm } from './key-set.ts';

/** How far `iat` and `nbf` may lie ahead of the relay's clock. */
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

/** A JWT of the issuer for this relay, in force now. Times in milliseconds since the Unix epoch. */
export interface IssuedJwt {
  type: 'IssuedJwt';
  typ: unknown;
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

  async verify(token: string): Promise<IssuedJwt | JwtRefused> {
    const header = readHeader(token);
    if ('type' in header) return header;
    const { alg, kid, typ } = header;
    const key = await this.#options.jwks.key(kid, alg);
    if (!key) return jwtRefused('signature', 'the token names no key of the issuer for its algorithm');
    const payload = await verifiedPayload(token, key, alg);
    if (!payload) return jwtRefused('signature', 'the signature of the token does not verify');
    const claims = parseJsonBounded(payload, CLAIMS_JSON_BOUNDS);
    if (!isObject(claims)) return jwtRefused('form', 'the token holds no claims');
    return this.#addressed(claims, typ);
  }

  #addressed(claims: Readonly<Record<string, unknown>>, typ: unknown): IssuedJwt | JwtRefused {
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
    return { type: 'IssuedJwt', typ, claims, jti, iatMs, expMs };
  }
}

export function jwtRefused(fault: JwtRefused['fault'], reason: string): JwtRefused {
  return { type: 'JwtRefused', fault, reason };
}

export function isName(value: unknown): value is string {
  return isNameOrEmpty(value) && value !== '';
}

export function isNameOrEmpty(value: unknown): value is string {
  return typeof value === 'string' && CLAIM_TEXT_PATTERN.test(value);
}

interface JwtHeader {
  alg: SigningAlgorithm;
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
  const alg = SIGNING_ALGORITHMS.find((one) => one === header.alg);
  if (!alg) return jwtRefused('signature', 'the token is signed with an algorithm that is not taken');
  const { kid, typ, crit } = header as Readonly<Record<string, unknown>>;
  if (typeof kid !== 'string' || kid === '' || kid.length > KID_CHARACTERS_MAX) {
    return jwtRefused('signature', 'the token names no key');
  }
  // Nothing that may stand in `crit` is understood here.
  if (crit !== undefined) return jwtRefused('signature', 'the token asks for an extension that is not known');
  return { alg, kid, typ };
}

async function verifiedPayload(token: string, key: CryptoKey, alg: SigningAlgorithm): Promise<Buffer | undefined> {
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
