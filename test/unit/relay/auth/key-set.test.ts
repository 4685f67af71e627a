import { type JWK, exportJWK, generateKeyPair } from 'jose';
import { describe, expect, test } from 'vitest';
import { KeySet, SIGNING_ALGORITHMS, type SigningAlgorithm } from '../../../../src/relay/auth/jwks.ts';
import { signingPair } from '../../../support/local-issuer.ts';

const jwkOf = async (alg: SigningAlgorithm): Promise<JWK> => (await signingPair(alg, 'k')).jwk;

async function verifiable(jwk: unknown, alg: SigningAlgorithm): Promise<boolean> {
  return (await KeySet.from({ keys: [jwk] })?.key('k', alg)) !== undefined;
}

describe.each(SIGNING_ALGORITHMS)('a public %s key', (alg) => {
  test('verifies its algorithm and no other', async () => {
    const jwk = await jwkOf(alg);
    for (const other of SIGNING_ALGORITHMS) expect(await verifiable(jwk, other)).toBe(other === alg);
  });

  test('that names no algorithm has that of its type', async () => {
    const { alg: _alg, ...jwk } = await jwkOf(alg);
    for (const other of SIGNING_ALGORITHMS) expect(await verifiable(jwk, other)).toBe(other === alg);
  });

  test.each<[string, object, boolean]>([
    ['for signatures', { use: 'sig' }, true],
    ['for encryption', { use: 'enc' }, false],
    ['to verify with', { key_ops: ['verify'] }, true],
    ['to sign with', { key_ops: ['sign'] }, false],
    ['whose operations are no list', { key_ops: 'verify' }, false],
    ['with a certificate and unknown members', { x5c: ['AA=='], more: 1 }, true],
    ['without a kid', { kid: undefined }, false],
    ['with an empty kid', { kid: '' }, false],
    ['with a kid that is a number', { kid: 7 }, false],
    ['of another algorithm', { alg: 'HS256' }, false],
    ['of an algorithm that is no text', { alg: null }, false],
  ])('%s', async (_what, changes, isUsable) => {
    expect(await verifiable({ ...(await jwkOf(alg)), ...changes }, alg)).toBe(isUsable);
  });

  test('of another type or curve verifies nothing', async () => {
    for (const changes of [{ kty: 'oct' }, { kty: undefined }, { kty: 'EC', crv: 'P-384' }, { crv: 'Ed448' }]) {
      const isSame = alg === 'RS256' && 'crv' in changes && !('kty' in changes);
      expect(await verifiable({ ...(await jwkOf(alg)), ...changes }, alg)).toBe(isSame);
    }
  });
});

test('a private key that the issuer published by mistake is not believed', async () => {
  for (const alg of SIGNING_ALGORITHMS) {
    const { privateKey } = await signingPair(alg, 'k');
    expect(await verifiable({ ...(await exportJWK(privateKey)), kid: 'k', alg }, alg)).toBe(false);
  }
});

test('a symmetric key is none', async () => {
  const jwk = { kty: 'oct', k: Buffer.alloc(32, 1).toString('base64url'), kid: 'k', alg: 'HS256' };
  for (const alg of SIGNING_ALGORITHMS) expect(await verifiable(jwk, alg)).toBe(false);
});

test('an RSA key has 2,048 bits at least, leading zeros not counted', async () => {
  const { n = '', ...jwk } = await jwkOf('RS256');
  const modulus = Buffer.from(n, 'base64url');
  expect(modulus).toHaveLength(256);
  const withModulus = (bytes: Buffer): object => ({ ...jwk, n: bytes.toString('base64url') });
  expect(await verifiable(withModulus(modulus), 'RS256')).toBe(true);
  const short = Buffer.from(modulus);
  short[0] = 0x7f;
  expect(await verifiable(withModulus(short), 'RS256')).toBe(false);
  expect(await verifiable(withModulus(Buffer.concat([Buffer.alloc(64), modulus.subarray(1)])), 'RS256')).toBe(false);
  expect(await verifiable(withModulus(Buffer.alloc(1025, 0xff)), 'RS256')).toBe(false);
  expect(await verifiable(withModulus(Buffer.alloc(256)), 'RS256')).toBe(false);
});

test('a point that is not on its curve is no key, and its kid is known all the same', async () => {
  const jwk = { ...(await jwkOf('ES256')), y: Buffer.alloc(32, 1).toString('base64url') };
  const keys = KeySet.from({ keys: [jwk] });
  expect(keys?.has('k', 'ES256')).toBe(true);
  expect(await keys?.key('k', 'ES256')).toBeUndefined();
});

test('two keys of one kid and algorithm are neither; of different algorithms they are both', async () => {
  const [first, second] = [await jwkOf('EdDSA'), await jwkOf('ES256')];
  const { publicKey } = await generateKeyPair('EdDSA', { extractable: true });
  const third = { ...(await exportJWK(publicKey)), kid: 'k' };
  const keys = KeySet.from({ keys: [first, second, third, { ...third, kid: 'other' }] });
  expect([keys?.has('k', 'EdDSA'), keys?.has('k', 'ES256'), keys?.has('other', 'EdDSA')]).toEqual([false, true, true]);
  expect(await keys?.key('k', 'EdDSA')).toBeUndefined();
  const both = KeySet.from({ keys: [first, second] });
  for (const alg of ['EdDSA', 'ES256'] as const) expect(await both?.key('k', alg)).toBeDefined();
  const one = KeySet.from({ keys: [first, { ...third, use: 'enc' }, null, 'k', [first]] });
  expect(await one?.key('k', 'EdDSA')).toBeDefined();
});

test('a key may name EdDSA by its curve, as RFC 9864 does', async () => {
  expect(await verifiable({ ...(await jwkOf('EdDSA')), alg: 'Ed25519' }, 'EdDSA')).toBe(true);
  expect(await verifiable({ ...(await jwkOf('ES256')), alg: 'Ed25519' }, 'ES256')).toBe(false);
});

test.each([undefined, null, [], 'keys', {}, { keys: {} }, { keys: null }])('%j is no JWK Set', (document) => {
  expect(KeySet.from(document)).toBeUndefined();
});
