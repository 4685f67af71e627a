/**
 * An account service: an HTTP server on 127.0.0.1 that publishes real keys, and signs account tokens and security event
 * tokens with them. What it publishes and how it answers is the test's to change.
 */
import { type RequestListener, type Server, createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import {
  CompactSign,
  type CryptoKey,
  type JWK,
  type JWSHeaderParameters,
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
} from 'jose';
import { onTestFinished } from 'vitest';
import { canonicalize } from 'json-canonicalize';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import type { SigningAlgorithm } from '../../src/relay/auth/jwks.ts';
import type { IssuerSettings } from '../../src/relay/auth/issuer.ts';
import type { TestHost } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

/** The name that the issuer has for the relay. */
export const RELAY_URL = 'https://relay.example';

export interface SigningPair {
  privateKey: CryptoKey;
  /** With `kid` and `alg`. */
  jwk: JWK;
}

/** Making an RSA key takes a while: one of each kind and number for each test file is enough. */
const pairs = new Map<string, Promise<SigningPair>>();

/** A key pair, always the same for the same algorithm and `kid`. */
export function signingPair(alg: SigningAlgorithm, kid: string): Promise<SigningPair> {
  const name = `${alg} ${kid}`;
  const pair = pairs.get(name) ?? newPair(alg, kid);
  pairs.set(name, pair);
  return pair;
}

async function newPair(alg: SigningAlgorithm, kid: string): Promise<SigningPair> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg } };
}

export class LocalIssuer {
  /** The keys that `/.well-known/jwks.json` holds. */
  published: JWK[] = [];
  /** Answers instead of the published keys. */
  answer: RequestListener | undefined;
  /** The number of times that the keys were asked for. */
  requests = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      if (request.url !== '/.well-known/jwks.json') return void response.writeHead(404).end();
      this.requests++;
      if (this.answer) return this.answer(request, response);
      response.setHeader('content-type', 'application/jwk-set+json');
      return void response.end(JSON.stringify({ keys: this.published }));
    });
  }

  static async open(): Promise<LocalIssuer> {
    const issuer = new LocalIssuer();
    issuer.#server.listen(0, '127.0.0.1');
    await once(issuer.#server, 'listening');
    return issuer;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get settings(): IssuerSettings {
    return { issuer: this.url, relayUrl: RELAY_URL, jwksUrl: `${this.url}/.well-known/jwks.json` };
  }

  /** Answers 503 from now on. */
  fail(): void {
    this.answer = (_request, response) => void response.writeHead(503).end();
  }

  /** The pair of `kid`, which is published from now on. */
  async publish(kid: string, alg: SigningAlgorithm = 'EdDSA'): Promise<SigningPair> {
    const pair = await signingPair(alg, kid);
    this.published.push(pair.jwk);
    return pair;
  }

  withdraw(kid: string): void {
    this.published = this.published.filter((jwk) => jwk.kid !== kid);
  }
}

/** An issuer for one test; call it inside. It publishes the EdDSA key `key-1`. */
export async function issuerForTest(): Promise<LocalIssuer> {
  const issuer = await LocalIssuer.open();
  onTestFinished(() => issuer.close());
  await issuer.publish('key-1');
  return issuer;
}

/** Signs claims, or any text, as a compact JWS. */
export async function signed(
  { privateKey, jwk }: SigningPair,
  payload: unknown,
  header: Partial<JWSHeaderParameters> = {},
): Promise<string> {
  const bytes = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload));
  const { alg = '', kid = '' } = jwk;
  return new CompactSign(bytes).setProtectedHeader({ alg, kid, ...header }).sign(privateKey);
}

export interface TokenChanges {
  /** Put over the claims; `undefined` takes one away. */
  claims?: Readonly<Record<string, unknown>>;
  header?: Partial<JWSHeaderParameters>;
  /** The pair that signs; `key-1` when absent. */
  pair?: SigningPair;
  nowMs?: number;
}

const cloudKeys = new Map<string, Promise<JWK>>();
let tokens = 0;

/** The cloud key of a host: a public JWK. */
export function cloudKeyOf(host: TestHost): Promise<JWK> {
  const jwk = cloudKeys.get(host.name) ?? generateKeyPair('ES256').then(({ publicKey }) => exportJWK(publicKey));
  cloudKeys.set(host.name, jwk);
  return jwk;
}

/** A token of 15 minutes for `host`, in the account `acme`. */
export async function accountToken(issuer: string, host: TestHost, changes: TokenChanges = {}): Promise<string> {
  const iat = Math.floor((changes.nowMs ?? NOON_MS) / 1000);
  const claims = {
    iss: issuer,
    aud: RELAY_URL,
    sub: hostFingerprint(host.key),
    account: 'acme',
    org: '',
    cnf: { jkt: await calculateJwkThumbprint(await cloudKeyOf(host)) },
    client_id: `client of ${host.name}`,
    iat,
    exp: iat + 900,
    jti: `token-${++tokens}`,
    ...changes.claims,
  };
  return signed(changes.pair ?? (await signingPair('EdDSA', 'key-1')), claims, changes.header);
}

/** The host key's word for the cloud key. */
export function certificateOf(host: TestHost, jkt: string, changes: Readonly<Record<string, unknown>> = {}): string {
  const document = { v: 1, type: 'relay-cloud-key', host_pubkey: host.key, jkt, ...changes };
  return host.signer.sign(Buffer.from(canonicalize(document)));
}

/** `{token, cloud_key, cert}` of `host`. */
export async function proofOf(
  issuer: string,
  host: TestHost,
  changes: TokenChanges = {},
): Promise<{ token: string; cloud_key: JWK; cert: string }> {
  const cloudKey = await cloudKeyOf(host);
  const cert = certificateOf(host, await calculateJwkThumbprint(cloudKey));
  return { token: await accountToken(issuer, host, changes), cloud_key: cloudKey, cert };
}

/** A security event token that denies whom `event` selects. */
export async function denyToken(
  issuer: string,
  event: Readonly<Record<string, unknown>>,
  changes: TokenChanges = {},
): Promise<string> {
  const claims = {
    iss: issuer,
    aud: RELAY_URL,
    iat: Math.floor((changes.nowMs ?? NOON_MS) / 1000),
    jti: `event-${++tokens}`,
    events: { 'urn:mail-relay:deny': { reason: 'credential revoked', ...event } },
    ...changes.claims,
  };
  const header = { typ: 'secevent+jwt', ...changes.header };
  return signed(changes.pair ?? (await signingPair('EdDSA', 'key-1')), claims, header);
}
