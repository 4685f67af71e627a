/** Account tokens against a real issuer: what is taken, and every way in which one is refused. */
import { type JsonWebKey, createHmac, createPublicKey } from 'node:crypto';
import { type JWK, calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { accountTokenAuthority } from '../../../../src/relay/auth/account-token.ts';
import { type Authority, AuthorityUnavailable } from '../../../../src/relay/auth/authority.ts';
import { Issuer } from '../../../../src/relay/auth/issuer.ts';
import { Jwks } from '../../../../src/relay/auth/jwks.ts';
import { SIGNING_ALGORITHMS } from '../../../../src/relay/auth/jwks.ts';
import { type TestHost, alice, bob } from '../../../support/hosts.ts';
import {
  type LocalIssuer,
  RELAY_URL,
  type TokenChanges,
  accountToken,
  certificateOf,
  cloudKeyOf,
  issuerForTest,
  proofOf,
  signed,
  signingPair,
} from '../../../support/local-issuer.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { NOON_MS, TestClock } from '../../../support/test-clock.ts';

const NOON_S = Math.floor(NOON_MS / 1000);
const CLAIMS = ['iss', 'aud', 'sub', 'account', 'org', 'cnf', 'client_id', 'iat', 'exp', 'jti'];

function encoded(header: object): string {
  return Buffer.from(JSON.stringify(header)).toString('base64url');
}

class Hosted {
  readonly issuer: LocalIssuer;
  readonly authority: Authority;
  readonly clock = new TestClock();
  readonly #jwks: Jwks;

  constructor(issuer: LocalIssuer) {
    this.issuer = issuer;
    const { jwksUrl, ...names } = issuer.settings;
    const monotonicMs = (): number => this.clock.nowMs;
    const nowMs = (): number => this.clock.nowMs;
    this.#jwks = new Jwks({ url: jwksUrl, fetch, monotonicMs, timers: new ManualTimers(), failed: () => undefined });
    this.authority = accountTokenAuthority({
      issuer: new Issuer({ ...names, jwks: this.#jwks, nowMs }),
      nowMs,
      monotonicMs,
    });
  }

  close(): void {
    this.#jwks.close();
  }

  ask(host: TestHost, proof: unknown): ReturnType<Authority['ask']> {
    return this.authority.ask({ hostName: host.name, hostPubkey: host.key, ownerFp: '', proof });
  }

  /** The answer to alice with a token that is changed. */
  async askChanged(changes: TokenChanges): ReturnType<Authority['ask']> {
    return this.ask(alice, await proofOf(this.issuer.url, alice, changes));
  }
}

async function hosted(): Promise<Hosted> {
  const opened = new Hosted(await issuerForTest());
  onTestFinished(() => opened.close());
  return opened;
}

test('enrolment rule 7: a token of the issuer for this relay, host and cloud key admits, as it grants', async () => {
  const { authority, issuer, ...rest } = await hosted();
  expect(authority.name).toBe('account-token');
  expect(rest.clock.nowMs).toBe(NOON_MS);
  const proof = await proofOf(issuer.url, alice, { claims: { org: 'org-1' } });
  expect(await authority.ask({ hostName: alice.name, hostPubkey: alice.key, ownerFp: '', proof })).toEqual({
    ok: true,
    account: 'acme',
    org: 'org-1',
    clientId: 'client of alice',
    validUntilMs: (NOON_S + 900) * 1000,
  });
});

describe('enrolment rule 7: the algorithm is one of three and that of the key', () => {
  test.each(SIGNING_ALGORITHMS.flatMap((alg) => SIGNING_ALGORITHMS.map((keyAlg) => [alg, keyAlg] as const)))(
    'signed as %s, the kid a key of %s',
    async (alg, keyAlg) => {
      const relay = await hosted();
      await relay.issuer.publish('of-alg', keyAlg);
      const { privateKey, jwk } = await signingPair(alg, 'of-alg');
      const answer = await relay.askChanged({ pair: { privateKey, jwk } });
      const reason = 'the token names no key of the issuer for its algorithm';
      expect([answer.ok, answer.reason]).toEqual(alg === keyAlg ? [true, undefined] : [false, reason]);
    },
  );

  test.each(['Ed25519', 'EdDSA', undefined])('Ed25519 is EdDSA, for a key that names %s', async (alg) => {
    const relay = await hosted();
    const { privateKey, jwk } = await signingPair('EdDSA', 'key-2');
    relay.issuer.published.push({ ...jwk, ...(alg === undefined ? { alg: undefined as never } : { alg }) });
    for (const named of ['Ed25519', 'EdDSA']) {
      expect(await relay.askChanged({ pair: { privateKey, jwk }, header: { alg: named } })).toMatchObject({ ok: true });
    }
  });

  test('none, symmetric with the public key as its secret, and every other one are refused', async () => {
    const relay = await hosted();
    const { jwk } = await relay.issuer.publish('rsa', 'RS256');
    const proof = await proofOf(relay.issuer.url, alice);
    const [, claims = ''] = proof.token.split('.');
    const pem = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' }).export({ format: 'pem', type: 'spki' });
    const hmac = (header: object): string =>
      createHmac('sha256', pem)
        .update(`${encoded(header)}.${claims}`)
        .digest('base64url');
    const tokens = ['none', 'None', '', 'HS256', 'HS512', 'PS256', 'ES512', 'Ed448', undefined, 7].flatMap((alg) => {
      const header = { alg, kid: 'rsa' };
      return [`${encoded(header)}.${claims}.`, `${encoded(header)}.${claims}.${hmac(header)}`];
    });
    for (const token of tokens) {
      expect(await relay.ask(alice, { ...proof, token })).toEqual({
        ok: false,
        reason: 'the token is signed with an algorithm that is not taken',
      });
    }
  });
});

describe('enrolment rule 7: the types that enrol are named', () => {
  test.each([undefined, 'JWT', 'jwt', 'at+jwt', 'application/at+jwt', 'AT+JWT'])('%s does', async (typ) => {
    const relay = await hosted();
    expect(await relay.askChanged({ header: typ === undefined ? {} : { typ } })).toMatchObject({ ok: true });
  });

  test.each(['secevent+jwt', 'logout+jwt', 'dpop+jwt', 'id+jwt', '', 'application/', 'at+jwt ', 7])(
    '%j does not',
    async (typ) => {
      const relay = await hosted();
      const answer = await relay.askChanged({ header: { typ: typ as string } });
      expect(answer).toEqual({ ok: false, reason: 'the token is no account token' });
    },
  );
});

describe('enrolment rule 7: the key is named and the signature is its own', () => {
  test.each<[string, object]>([
    ['no kid', { kid: undefined }],
    ['an empty kid', { kid: '' }],
    ['a long kid', { kid: 'k'.repeat(257) }],
    ['an unknown kid', { kid: 'key-9' }],
    ['a critical extension', { crit: ['b64'], b64: true }],
  ])('%s is refused', async (_what, header) => {
    const relay = await hosted();
    expect(await relay.askChanged({ header })).toMatchObject({ ok: false });
  });

  test('a token of another key under a known kid is refused, also one that brings its own key', async () => {
    const relay = await hosted();
    const pair = await signingPair('EdDSA', 'mallory');
    const { kid: _kid, ...jwk } = pair.jwk;
    for (const header of [{ kid: 'key-1' }, { kid: 'key-1', jwk }, { kid: 'key-1', jku: 'http://127.0.0.1:1/' }]) {
      expect(await relay.askChanged({ pair, header })).toEqual({
        ok: false,
        reason: 'the signature of the token does not verify',
      });
    }
  });

  test('every changed byte of the signed part breaks it', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    const payloadAt = proof.token.indexOf('.') + 1;
    for (const at of [payloadAt, payloadAt + 40, proof.token.lastIndexOf('.') - 2, proof.token.length - 10]) {
      const other = proof.token[at] === 'A' ? 'B' : 'A';
      const token = `${proof.token.slice(0, at)}${other}${proof.token.slice(at + 1)}`;
      expect(await relay.ask(alice, { ...proof, token })).toMatchObject({ ok: false });
    }
    expect(await relay.ask(alice, proof)).toMatchObject({ ok: true });
  });

  test.each(['', '.', '..', 'a.b', 'a.b.c', 'a.b.c.d', 'ä.ö.ü', '{}', 'e30.e30.'])('%j is no token', async (token) => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    expect(await relay.ask(alice, { ...proof, token })).toMatchObject({ ok: false });
    expect(relay.issuer.requests).toBe(0);
  });

  test.each(['no JSON', '[]', '"text"', 'null', '{"iss":'])('a payload of %s is refused', async (payload) => {
    const relay = await hosted();
    const token = await signed(await signingPair('EdDSA', 'key-1'), payload);
    const proof = await proofOf(relay.issuer.url, alice);
    expect(await relay.ask(alice, { ...proof, token })).toEqual({ ok: false, reason: 'the token holds no claims' });
  });
});

describe('enrolment rule 7: every claim is required and has its form', () => {
  test.each(CLAIMS)('a token without %s is refused', async (claim) => {
    const relay = await hosted();
    expect(await relay.askChanged({ claims: { [claim]: undefined } })).toMatchObject({ ok: false });
  });

  const malformed: [string, unknown[]][] = [
    ['iss', ['', 'https://accounts.example', 7, null, ['http://127.0.0.1']]],
    ['aud', ['', `${RELAY_URL}/`, RELAY_URL.toUpperCase(), 'https://api.example', [], ['https://api.example'], {}, 7]],
    ['sub', ['', hostFingerprint(bob.key), hostFingerprint(alice.key).toUpperCase(), alice.key, 7, null]],
    ['account', ['', 7, null, ['acme'], 'a'.repeat(257), 'a\nb', '\ud800', '\u0000']],
    ['org', [7, null, ['org'], 'o'.repeat(257), '\udc00']],
    ['client_id', ['', 7, null, 'c'.repeat(257), '\u007f']],
    ['jti', ['', 7, null, 'j'.repeat(257), 'a\tb']],
    ['cnf', [{}, null, 'jkt', [], { jkt: '' }, { jkt: 7 }, { 'x5t#S256': 'AA' }]],
    ['iat', ['1763675303', null, -1, 1e300, true]],
    ['exp', ['1763676203', null, -1, 1e300, {}]],
    ['nbf', ['1763675303', null, -1]],
  ];
  test.each(malformed.flatMap(([claim, values]) => values.map((value) => [claim, value] as const)))(
    '%s may not be %j',
    async (claim, value) => {
      const relay = await hosted();
      const answer = await relay.askChanged({ claims: { [claim]: value } });
      expect(answer).toEqual({ ok: false, reason: expect.any(String) as string });
    },
  );

  test('the audience may be one of several, and then this relay must be among them', async () => {
    const relay = await hosted();
    expect(await relay.askChanged({ claims: { aud: ['https://api.example', RELAY_URL] } })).toMatchObject({ ok: true });
    expect(await relay.askChanged({ claims: { aud: [[RELAY_URL], { url: RELAY_URL }] } })).toMatchObject({ ok: false });
  });

  test('names of 256 characters are taken, and the organisation may be empty', async () => {
    const relay = await hosted();
    const claims = { account: '𝒶'.repeat(256), client_id: 'c'.repeat(256), jti: 'j'.repeat(256), org: '' };
    expect(await relay.askChanged({ claims })).toMatchObject({ ok: true, account: claims.account, org: '' });
  });

  test('unknown claims are ignored', async () => {
    const relay = await hosted();
    expect(await relay.askChanged({ claims: { scope: 'mail', act: { sub: 'x' } } })).toMatchObject({ ok: true });
  });
});

describe('enrolment rule 7: the times', () => {
  test.each<[string, object, boolean]>([
    ['issued 60 s ahead', { iat: NOON_S + 60 }, true],
    ['issued 61 s ahead', { iat: NOON_S + 61 }, false],
    ['of 15 minutes', { exp: NOON_S + 900 }, true],
    ['of 15 minutes and a second', { exp: NOON_S + 901 }, false],
    ['of 15 minutes and half a second', { exp: NOON_S + 900.5 }, false],
    ['that ends in a second', { iat: NOON_S - 899, exp: NOON_S + 1 }, true],
    ['that ends now', { iat: NOON_S - 900, exp: NOON_S }, false],
    ['not before a minute', { nbf: NOON_S + 60 }, true],
    ['not before a minute and a second', { nbf: NOON_S + 61 }, false],
    ['of an hour, issued long ago', { iat: NOON_S - 3000, exp: NOON_S + 600 }, false],
  ])('a token %s', async (_what, claims, isTaken) => {
    const relay = await hosted();
    expect((await relay.askChanged({ claims: { ...claims } })).ok).toBe(isTaken);
  });

  test('the relay goes by its own clock', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    relay.clock.move(899_000);
    expect(await relay.ask(alice, proof)).toMatchObject({ ok: true });
    relay.clock.move(1000);
    expect(await relay.ask(alice, proof)).toEqual({ ok: false, reason: 'the token has expired' });
  });
});

describe('enrolment rule 7: the cloud key is the one of the token, and the host key certified it', () => {
  test('a cloud key of every kind', async () => {
    const relay = await hosted();
    for (const alg of ['EdDSA', 'ES256', 'ES384', 'RS256', 'X25519']) {
      const algorithm = alg === 'X25519' ? 'ECDH-ES' : alg;
      const { publicKey } = await generateKeyPair(algorithm, alg === 'X25519' ? { crv: 'X25519' } : {});
      const cloud_key = await exportJWK(publicKey);
      const jkt = await calculateJwkThumbprint(cloud_key);
      const token = await accountToken(relay.issuer.url, alice, { claims: { cnf: { jkt } } });
      const proof = { token, cloud_key: { ...cloud_key, use: 'sig', kid: 'any' }, cert: certificateOf(alice, jkt) };
      expect(await relay.ask(alice, proof)).toMatchObject({ ok: true });
    }
  });

  test('another cloud key is refused, certified or not', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    const cloud_key = await cloudKeyOf(bob);
    expect(await relay.ask(alice, { ...proof, cloud_key })).toMatchObject({ ok: false });
    const cert = certificateOf(alice, await calculateJwkThumbprint(cloud_key));
    expect(await relay.ask(alice, { ...proof, cloud_key, cert })).toEqual({
      ok: false,
      reason: 'the token is for another cloud key',
    });
  });

  test.each<[string, (jkt: string) => string]>([
    ['of another host', (jkt) => certificateOf(bob, jkt)],
    ['for another host', (jkt) => certificateOf(alice, jkt, { host_pubkey: bob.key })],
    ['of another type', (jkt) => certificateOf(alice, jkt, { type: 'relay-enrol' })],
    ['of another version', (jkt) => certificateOf(alice, jkt, { v: 2 })],
    ['of another thumbprint', () => certificateOf(alice, 'AA')],
    ['with more in it', (jkt) => certificateOf(alice, jkt, { more: 1 })],
    ['that is none', () => Buffer.alloc(64).toString('base64')],
    ['that is no base64', () => '!'.repeat(88)],
  ])('a certificate %s is refused', async (_what, certificate) => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    const cert = certificate(await calculateJwkThumbprint(proof.cloud_key));
    expect(await relay.ask(alice, { ...proof, cert })).toEqual({
      ok: false,
      reason: 'the host key has not certified cloud_key',
    });
    expect(relay.issuer.requests).toBe(0);
  });

  test('a key that holds something private, is symmetric or is none is refused', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    const { privateKey } = await generateKeyPair('ES256', { extractable: true });
    const secret = await exportJWK(privateKey);
    const { x: _x, ...incomplete } = proof.cloud_key;
    const keys: object[] = [secret, { ...proof.cloud_key, d: secret.d }, { kty: 'oct', k: 'AAAA' }, incomplete, {}];
    for (const cloud_key of [...keys, { ...proof.cloud_key, kty: 'AKP', alg: 'ML-DSA-44', pub: 'AA' } satisfies JWK]) {
      const answer = await relay.ask(alice, { ...proof, cloud_key });
      expect(answer).toEqual({ ok: false, reason: 'cloud_key is no public JWK' });
    }
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['the token alone', 'a.b.c'],
    ['an empty object', {}],
    ['a list', []],
    ['a token that is no text', { token: 7, cloud_key: {}, cert: 'A'.repeat(88) }],
    ['a cloud key that is a list', { token: 'a.b.c', cloud_key: [], cert: 'A'.repeat(88) }],
    ['a short certificate', { token: 'a.b.c', cloud_key: {}, cert: 'A' }],
  ])('%s is no proof', async (_what, proof) => {
    const relay = await hosted();
    expect(await relay.ask(alice, proof)).toEqual({ ok: false, reason: 'the proof is not {token, cloud_key, cert}' });
  });
});

describe('enrolment rule 7: a token admits the host it was issued to', () => {
  test('the proof of another host is refused', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice);
    expect(await relay.ask(bob, proof)).toMatchObject({ ok: false });
    // Also when bob certifies the cloud key of alice himself.
    const cert = certificateOf(bob, await calculateJwkThumbprint(proof.cloud_key));
    expect(await relay.ask(bob, { ...proof, cert })).toEqual({
      ok: false,
      reason: 'the token is for another host key',
    });
  });

  test('a token may be used again by its host; its jti by no other', async () => {
    const relay = await hosted();
    const proof = await proofOf(relay.issuer.url, alice, { claims: { jti: 'the-one' } });
    expect(await relay.ask(alice, proof)).toMatchObject({ ok: true });
    expect(await relay.ask(alice, proof)).toMatchObject({ ok: true });
    const other = await proofOf(relay.issuer.url, bob, { claims: { jti: 'the-one' } });
    expect(await relay.ask(bob, other)).toEqual({ ok: false, reason: 'the token was used by another host key' });
    relay.clock.move(900_000);
    const nowMs = relay.clock.nowMs;
    const later = await proofOf(relay.issuer.url, bob, { nowMs, claims: { jti: 'the-one' } });
    expect(await relay.ask(bob, later)).toMatchObject({ ok: true });
  });

  test('a refused token uses nothing up', async () => {
    const relay = await hosted();
    const claims = { jti: 'the-one' };
    const refused = await proofOf(relay.issuer.url, alice, { claims: { ...claims, aud: 'https://api.example' } });
    expect(await relay.ask(alice, refused)).toMatchObject({ ok: false });
    expect(await relay.ask(bob, await proofOf(relay.issuer.url, bob, { claims }))).toMatchObject({ ok: true });
  });
});

test('no reason repeats anything of the proof', async () => {
  const relay = await hosted();
  const claims = { iss: 'SECRET', aud: 'SECRET', sub: 'SECRET', account: 'SECRET\n', jti: 'SECRET\t', exp: 'SECRET' };
  for (const [name, value] of Object.entries(claims)) {
    const { reason } = await relay.askChanged({ claims: { [name]: value } });
    expect(reason).toMatch(/^[a-z]/);
    expect(reason).not.toContain('SECRET');
  }
});

test('without the keys of the issuer nobody can say', async () => {
  const relay = await hosted();
  relay.issuer.fail();
  const proof = await proofOf(relay.issuer.url, alice);
  await expect(relay.ask(alice, proof)).rejects.toThrow(AuthorityUnavailable);
  // What needs no key is said all the same.
  expect(await relay.ask(alice, { ...proof, token: 'none' })).toMatchObject({ ok: false });
});
