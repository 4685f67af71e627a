/**
 * A JWK Set (RFC 7517) as far as this relay believes it: public signing keys, each under one `kid`.
 *
 * Invariants (trap: a verifier that takes the algorithm from the token):
 *   - a key verifies one algorithm only, the one its JWK names or, without a name, the one of its type and curve;
 *   - symmetric keys, private keys, keys for encryption and short RSA keys are as if they were not there;
 *   - a token names a key by `kid` and algorithm; what two usable keys carry names neither.
 */
import { type CryptoKey, type JWK, createLocalJWKSet } from 'jose';
import { isObject } from '../../protocol/json-object.ts';

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
    // What cannot be imported is no key: a point off its curve, say.
    return this.#resolve({ kid, alg }).catch(() => undefined);
  }
}

function nameOf({ kid, alg }: Pick<SigningJwk, 'kid' | 'alg'>): string {
  return `${alg} ${kid}`;
}

/** Whether `jwk` holds anything that its owner must not show. */
export function hasSecretMember(jwk: Readonly<Record<string, unknown>>): boolean {
  return SECRET_MEMBERS.some((name) => name in jwk);
}

/** What of a JWK the verifier needs; `undefined` when this relay verifies nothing with it. */
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

/** Of the three algorithms each has a key type of its own. */
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
