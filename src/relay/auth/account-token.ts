/**
 * The authority of a hosted relay: a host enrols with an account token ("Enrolment", rule 7; docs/protocol.md).
 *
 * The proof is `{token, cloud_key, cert}`. The token names the host key (`sub`) and the cloud key (`cnf.jkt`); the host
 * key certifies the cloud key (`cert`). So no host enrols with a token that was issued to another.
 */
import { type JWK, calculateJwkThumbprint } from 'jose';
import { cloudKeyCertificate, isDocumentSigned } from '../../protocol/documents.ts';
import { isObject } from '../../protocol/json.ts';
import { hostFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { AccountProof, parserOf } from '../../protocol/schemas.ts';
import type { AuthorityAnswer } from '../core/command.ts';
import { type Authority, AuthorityUnavailable, type EnrolmentQuestion } from './authority.ts';
import { type IssuedJwt, type Issuer, type TokenKind, isName, isNameOrEmpty } from './issuer.ts';
import { hasSecretMember } from './jwks.ts';
import { sha256Hex } from '../../protocol/encodings.ts';

/** An access token (RFC 9068), or a JWT that says nothing more of itself. */
const ACCOUNT_TOKEN: TokenKind = { name: 'account token', types: [undefined, 'jwt', 'at+jwt'] };

/** `exp` lies at most this long after `iat`. */
const TOKEN_LIFETIME_MAX_MS = 900_000;

interface AccountTokenOptions {
  issuer: Issuer;
  nowMs: () => number;
  monotonicMs: () => number;
}

const parseProof = parserOf(AccountProof);

export function accountTokenAuthority(options: AccountTokenOptions): Authority {
  const seen = new SeenTokens(options.monotonicMs);
  return { name: 'account-token', ask: (question) => ask(question, options, seen) };
}

async function ask(
  { hostPubkey, proof }: EnrolmentQuestion,
  { issuer, nowMs }: AccountTokenOptions,
  seen: SeenTokens,
): Promise<AuthorityAnswer> {
  const parsed = parseProof(proof);
  if (!parsed) return refusal('the proof is not {token, cloud_key, cert}');
  const jkt = await thumbprintOf(parsed.cloud_key);
  if (jkt === undefined) return refusal('cloud_key is no public JWK');
  if (!isDocumentSigned(hostPubkey, cloudKeyCertificate({ host_pubkey: hostPubkey, jkt }), parsed.cert)) {
    return refusal('the host key has not certified cloud_key');
  }
  const jwt = await issuer.verify(parsed.token, ACCOUNT_TOKEN);
  if (jwt.type === 'JwtRefused') return refusal(jwt.reason);
  const grant = grantOf(jwt);
  if (!grant) return refusal('a claim of the token is missing or malformed');
  const { expMs, sub } = grant;
  if (expMs - jwt.iatMs > TOKEN_LIFETIME_MAX_MS) return refusal('the token lives longer than 15 minutes');
  if (sub !== hostFingerprint(hostPubkey)) return refusal('the token is for another host key');
  if (grant.jkt !== jkt) return refusal('the token is for another cloud key');
  switch (seen.use(jwt.jti, hostPubkey, expMs - nowMs())) {
    case 'used':
      return { ok: true, account: grant.account, org: grant.org, clientId: grant.clientId, validUntilMs: expMs };
    case 'used by another':
      return refusal('the token was used by another host key');
    case 'full':
      throw new AuthorityUnavailable('too many tokens are in use');
  }
}

function refusal(reason: string): AuthorityAnswer {
  return { ok: false, reason };
}

interface Grant {
  sub: unknown;
  jkt: unknown;
  account: string;
  org: string;
  clientId: string;
  expMs: number;
}

/** Reads what the claims of an account token grant, and to whom; `undefined` when one is missing or malformed. */
function grantOf({ claims, expMs }: IssuedJwt): Grant | undefined {
  const { sub, account, org, cnf, client_id: clientId } = claims;
  if (!isName(account) || !isNameOrEmpty(org) || !isName(clientId) || !isObject(cnf) || expMs === undefined) {
    return undefined;
  }
  return { sub, jkt: cnf['jkt'], account, org, clientId, expMs };
}

/** RFC 7638; `undefined` when the key is none that may be shown. */
async function thumbprintOf(cloudKey: Readonly<Record<string, unknown>>): Promise<string | undefined> {
  if (hasSecretMember(cloudKey) || !['OKP', 'EC', 'RSA'].includes(cloudKey['kty'] as string)) return undefined;
  return calculateJwkThumbprint(cloudKey as JWK, 'sha256').catch(() => undefined);
}

/** More than a hundred new tokens a second for the whole of their 15 minutes. */
const SEEN_TOKENS_MAX = 100_000;

interface SeenToken {
  hostPubkey: PublicKey;
  endsMs: number;
}

/**
 * The tokens that were used, so that none serves two hosts: `jti` is unique ("Enrolment", rule 7). A bounded table in
 * memory: a restart admits no other host, since `sub` binds a token to one host key anyway; when the table is full, no
 * other token is taken until the oldest has ended.
 */
export class SeenTokens {
  readonly #monotonicMs: () => number;
  readonly #max: number;
  /** The tokens by the hash of `jti`, whose length is the issuer's choice; oldest first. */
  readonly #seen = new Map<string, SeenToken>();

  constructor(monotonicMs: () => number, max: number = SEEN_TOKENS_MAX) {
    this.#monotonicMs = monotonicMs;
    this.#max = max;
  }

  /** Notes that `hostPubkey` used the token, which is in force for `leftMs` more. */
  use(jti: string, hostPubkey: PublicKey, leftMs: number): 'used' | 'used by another' | 'full' {
    const nowMs = this.#monotonicMs();
    this.#forgetEnded(nowMs);
    const name = sha256Hex(jti);
    const seen = this.#seen.get(name);
    if (seen && seen.endsMs > nowMs) return seen.hostPubkey === hostPubkey ? 'used' : 'used by another';
    if (this.#seen.size >= this.#max) return 'full';
    this.#seen.delete(name);
    this.#seen.set(name, { hostPubkey, endsMs: nowMs + leftMs });
    return 'used';
  }

  /** Up to the first that is in force: those behind it wait for it, at most the lifetime of a token. */
  #forgetEnded(nowMs: number): void {
    for (const [name, { endsMs }] of this.#seen) {
      if (endsMs > nowMs) return;
      this.#seen.delete(name);
    }
  }
}
