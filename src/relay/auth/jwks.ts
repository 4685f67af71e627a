/**
 * The issuer's keys, fetched and kept.
 *
 * Invariants ("Enrolment", rule 8), all in monotonic time:
 *   - only the newest set that was fetched verifies, so a removed key stops at once;
 *   - it is refreshed every 10 minutes, and for unknown `kid`s at most once a minute;
 *   - a set that cannot be refreshed is used until an hour after it was asked for; then no host is admitted
 *     (`AuthorityUnavailable`);
 *   - simultaneous look-ups share one fetch, and during an outage there is at most one every 10 s.
 */
import { type CryptoKey, type JWK, createLocalJWKSet } from 'jose';
import { type JsonBounds, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { AuthorityUnavailable } from './authority.ts';

export const JWKS_REFRESH_MS = 600_000;
export const JWKS_STALE_MAX_MS = 3_600_000;
const JWKS_UNKNOWN_KID_MS = 60_000;
/** After a failure the timer tries again this soon, so that what was removed in an outage stops soon after it. */
export const JWKS_FAILED_REFRESH_MS = 60_000;
/** Requests start no fetch this soon after one that failed. */
const JWKS_RETRY_MS = 10_000;
export const JWKS_FETCH_MS = 5000;

export const KEY_SET_BYTES_MAX = 262_144;
const KEY_SET_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 20_000, membersMax: 1000 };

/** The part of the platform's `fetch` that is used. */
type Fetch = (
  url: string,
  init: { headers: Readonly<Record<string, string>>; redirect: 'error'; signal: AbortSignal },
) => Promise<Response>;

interface JwksOptions {
  url: string;
  fetch: Fetch;
  monotonicMs: () => number;
  timers: { after: (ms: number, run: () => void) => () => void };
  failed: (reason: string) => void;
}

interface HeldKeys {
  keys: KeySet;
  /** The time at which it was asked for: it is no newer than that. */
  askedMs: number;
}

export class Jwks {
  readonly #options: JwksOptions;
  readonly #closing = new AbortController();
  #held: HeldKeys | undefined;
  #underWay: Promise<void> | undefined;
  /** The time at which the newest fetch failed; `undefined` when it did not. */
  #failedMs: number | undefined;
  #unknownKidMs = Number.NEGATIVE_INFINITY;
  #cancelRefresh: (() => void) | undefined;

  constructor(options: JwksOptions) {
    this.#options = options;
  }

  /** Fetches the keys, and again and again until `close`. Never rejects. */
  start(): Promise<void> {
    return this.#fetch();
  }

  /** Ends the timer and a fetch that is under way. */
  close(): void {
    this.#closing.abort();
    this.#cancelRefresh?.();
  }

  /**
   * The issuer's key of this `kid` for `alg`; `undefined` when it has none. Throws `AuthorityUnavailable` when that
   * is unknown: there is no set young enough, or the `kid` is in none and the newest fetch failed.
   */
  async key(kid: string, alg: SigningAlgorithm): Promise<CryptoKey | undefined> {
    const calledMs = this.#options.monotonicMs();
    if (!this.#fresh()) await this.#fetchUnlessFailing();
    if (this.#isUnknown(kid, alg, calledMs) && this.#underWay) await this.#underWay;
    if (this.#isUnknown(kid, alg, calledMs)) await this.#refetchForUnknownKid();
    const held = this.#fresh();
    if (!held || (this.#failedMs !== undefined && !held.keys.has(kid, alg))) {
      throw new AuthorityUnavailable("the issuer's keys cannot be fetched");
    }
    return held.keys.key(kid, alg);
  }

  #fresh(): HeldKeys | undefined {
    const { monotonicMs } = this.#options;
    return this.#held && monotonicMs() - this.#held.askedMs < JWKS_STALE_MAX_MS ? this.#held : undefined;
  }

  /** True when a newer set than the one held may have the key. */
  #isUnknown(kid: string, alg: SigningAlgorithm, calledMs: number): boolean {
    const held = this.#fresh();
    return held !== undefined && !held.keys.has(kid, alg) && held.askedMs < calledMs;
  }

  async #refetchForUnknownKid(): Promise<void> {
    const nowMs = this.#options.monotonicMs();
    if (nowMs - this.#unknownKidMs < JWKS_UNKNOWN_KID_MS) return;
    this.#unknownKidMs = nowMs;
    await this.#fetchUnlessFailing();
  }

  async #fetchUnlessFailing(): Promise<void> {
    const pausedMs = this.#options.monotonicMs() - (this.#failedMs ?? Number.NEGATIVE_INFINITY);
    if (this.#underWay || pausedMs >= JWKS_RETRY_MS) await this.#fetch();
  }

  #fetch(): Promise<void> {
    this.#underWay ??= this.#attempt().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #attempt(): Promise<void> {
    const { url, fetch, monotonicMs, timers, failed } = this.#options;
    const closing = this.#closing.signal;
    if (closing.aborted) return;
    const late = new AbortController();
    const cancel = timers.after(JWKS_FETCH_MS, () => late.abort(new FetchFailed('the answer took too long')));
    const askedMs = monotonicMs();
    try {
      const keys = await fetchKeySet(fetch, url, AbortSignal.any([late.signal, closing]));
      this.#held = { keys, askedMs };
      this.#failedMs = undefined;
    } catch (error) {
      this.#failedMs = monotonicMs();
      if (!closing.aborted) failed(reasonOf(error));
    } finally {
      cancel();
      this.#scheduleRefresh();
    }
  }

  #scheduleRefresh(): void {
    this.#cancelRefresh?.();
    if (this.#closing.signal.aborted) return;
    const afterMs = this.#failedMs === undefined ? JWKS_REFRESH_MS : JWKS_FAILED_REFRESH_MS;
    this.#cancelRefresh = this.#options.timers.after(afterMs, () => void this.#fetch());
  }
}

/** The platform's fetch hides the reason in `cause`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** Is thrown when there is no key set; the message is for the operator's log. */
class FetchFailed extends Error {}

/**
 * Fetches a JWK Set: one request, no redirect, a bounded answer. The keys decide who is let in, so the settings take a
 * URL only of https or of this machine (`trustedUrl` in cli/relay/values.ts). Throws `FetchFailed`, and whatever
 * `fetch` throws.
 */
async function fetchKeySet(fetch: Fetch, url: string, signal: AbortSignal): Promise<KeySet> {
  const headers = { accept: 'application/jwk-set+json, application/json' };
  const response = await fetch(url, { headers, redirect: 'error', signal });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new FetchFailed(`the answer was ${response.status}`);
  }
  const keySet = KeySet.from(parseJsonBounded(await boundedBytes(response), KEY_SET_JSON_BOUNDS));
  if (!keySet) throw new FetchFailed('the answer was no JWK Set');
  return keySet;
}

/** Counts the bytes as they arrive, unpacked: a length header proves nothing. */
async function boundedBytes(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    // Leaving the loop cancels the rest.
    if (bytes > KEY_SET_BYTES_MAX) throw new FetchFailed(`the answer has more than ${KEY_SET_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

export const SIGNING_ALGORITHMS = ['EdDSA', 'ES256', 'RS256'] as const;
export type SigningAlgorithm = (typeof SIGNING_ALGORITHMS)[number];

/** The algorithm that an `alg` names, of a token or of a key; RFC 9864 names EdDSA over this curve Ed25519. */
export function signingAlgorithm(alg: unknown): SigningAlgorithm | undefined {
  return alg === 'Ed25519' ? 'EdDSA' : SIGNING_ALGORITHMS.find((one) => one === alg);
}

const RSA_BITS_MIN = 2048;
const RSA_BITS_MAX = 8192;
export const KID_CHARACTERS_MAX = 256;

/** Members that only private and symmetric keys have (RFC 7518, sections 6.2.2, 6.3.2, 6.4.1; RFC 8037). */
const SECRET_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

interface SigningJwk extends JWK {
  kid: string;
  alg: SigningAlgorithm;
}

/**
 * A JWK Set (RFC 7517) as far as this relay believes it: public signing keys, each under one `kid`.
 *
 * Invariants (trap: a verifier that takes the algorithm from the token):
 *   - a key verifies one algorithm only, the one its JWK names or, without a name, the one of its type and curve;
 *   - symmetric keys, private keys, keys for encryption and short RSA keys are as if they were not there;
 *   - a token names a key by `kid` and algorithm; what two usable keys carry names neither.
 */
export class KeySet {
  readonly #names: ReadonlySet<string>;
  readonly #resolve: ReturnType<typeof createLocalJWKSet>;

  private constructor(keys: readonly SigningJwk[]) {
    this.#names = new Set(keys.map(nameOf));
    this.#resolve = createLocalJWKSet({ keys: [...keys] });
  }

  /** The set that `document` is, or `undefined` when it is none. */
  static from(document: unknown): KeySet | undefined {
    if (!isObject(document) || !Array.isArray(document['keys'])) return undefined;
    const usable = document['keys'].flatMap((jwk) => signingJwk(jwk) ?? []);
    const uses = new Map<string, number>();
    for (const jwk of usable) uses.set(nameOf(jwk), (uses.get(nameOf(jwk)) ?? 0) + 1);
    return new KeySet(usable.filter((jwk) => uses.get(nameOf(jwk)) === 1));
  }

  has(kid: string, alg: SigningAlgorithm): boolean {
    return this.#names.has(nameOf({ kid, alg }));
  }

  /** The key of this `kid` that verifies `alg`, or `undefined` when there is none. */
  async key(kid: string, alg: SigningAlgorithm): Promise<CryptoKey | undefined> {
    if (!this.has(kid, alg)) return undefined;
    // A JWK that cannot be imported is no key: a point off its curve, say.
    return this.#resolve({ kid, alg }).catch(() => undefined);
  }
}

function nameOf({ kid, alg }: Pick<SigningJwk, 'kid' | 'alg'>): string {
  return `${alg} ${kid}`;
}

/** True when `jwk` holds anything that its owner must not show. */
export function hasSecretMember(jwk: Readonly<Record<string, unknown>>): boolean {
  return SECRET_MEMBERS.some((name) => name in jwk);
}

/** Picks the members that the verifier needs; `undefined` when this relay verifies nothing with the JWK. */
function signingJwk(value: unknown): SigningJwk | undefined {
  if (!isObject(value) || hasSecretMember(value)) return undefined;
  const { kid, use, key_ops: operations } = value;
  if (typeof kid !== 'string' || kid === '' || kid.length > KID_CHARACTERS_MAX) return undefined;
  if (use !== undefined && use !== 'sig') return undefined;
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return undefined;
  const alg = algorithmOf(value);
  if (!alg || (value['alg'] !== undefined && signingAlgorithm(value['alg']) !== alg)) return undefined;
  const { kty, crv, x, y, n, e } = value as JWK;
  // Nothing else of it shall steer the import.
  const members = Object.entries({ kty, crv, x, y, n, e }).filter(([, member]) => typeof member === 'string');
  return { ...Object.fromEntries(members), kty: kty as string, kid, alg };
}

/** Each of the three algorithms has a key type of its own. */
function algorithmOf({ kty, crv, n }: Readonly<Record<string, unknown>>): SigningAlgorithm | undefined {
  if (kty === 'OKP' && crv === 'Ed25519') return 'EdDSA';
  if (kty === 'EC' && crv === 'P-256') return 'ES256';
  if (kty !== 'RSA' || typeof n !== 'string') return undefined;
  const bits = bitLength(Buffer.from(n, 'base64url'));
  return bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX ? 'RS256' : undefined;
}

function bitLength(bytes: Buffer): number {
  const first = bytes.findIndex((byte) => byte !== 0);
  if (first === -1) return 0;
  return (bytes.length - first) * 8 - (Math.clz32(bytes[first] ?? 0) - 24);
}
