/** Where libsodium does not load: the same signatures and the same verdicts by OpenSSL alone. */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Point } from '@noble/ed25519';
import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { GROUP_ORDER, fromLittleEndian, littleEndian, torsionPoints } from '../../support/edwards25519.ts';
import type * as Libsodium from '../../../src/protocol/libsodium.ts';

const { sodiumHere } = vi.hoisted(() => ({ sodiumHere: { loads: true } }));
vi.mock('../../../src/protocol/libsodium.ts', async (original) => {
  const { libsodium } = await original<typeof Libsodium>();
  return { libsodium: () => (sodiumHere.loads ? libsodium() : undefined) };
});
const { signerFromSeed, signingWith, verifySignature } = await import('../../../src/protocol/ed25519.ts');
const { libsodium } = await import('../../../src/protocol/libsodium.ts');
const { publicKeyBytes, publicKeyFromBytes } = await import('../../../src/protocol/public-key.ts');

function withAndWithout<T>(ask: () => T): [withLibsodium: T, without: T] {
  sodiumHere.loads = true;
  const withLibsodium = ask();
  sodiumHere.loads = false;
  const without = ask();
  sodiumHere.loads = true;
  return [withLibsodium, without];
}

test('libsodium loads on this machine, so that what follows compares two libraries', () => {
  expect(libsodium()).toBeDefined();
});

test('property: both sign alike, and each accepts what the other signed', () => {
  const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(seeds, fc.uint8Array({ maxLength: 300 }), (seed, message) => {
      const { publicKey, privateKey } = signerFromSeed(seed);
      const [ofLibsodium, ofOpenssl] = withAndWithout(() => signingWith(privateKey)(message));
      expect(ofLibsodium).toBe(ofOpenssl);
      expect(withAndWithout(() => verifySignature(publicKey, message, ofOpenssl))).toEqual([true, true]);
    }),
    { numRuns: 50 },
  );
});

test('neither takes a signature whose R has torsion, which a verifier with the cofactor would', () => {
  const secret = 123_456_789n;
  const key = publicKeyFromBytes(Point.BASE.multiply(secret).toBytes());
  const message = Buffer.from('a message');
  for (const torsion of torsionPoints()) {
    const r = Point.BASE.multiply(987_654_321n).add(torsion).toBytes();
    const hashed = hash('sha512', Buffer.concat([r, publicKeyBytes(key), message]), 'buffer');
    const s = (987_654_321n + fromLittleEndian(hashed) * secret) % GROUP_ORDER;
    const signature = Buffer.concat([r, littleEndian(s)]).toString('base64');
    expect(withAndWithout(() => verifySignature(key, message, signature))).toEqual([false, false]);
  }
});

test.each(['ed25519-wycheproof.json', 'ed25519-speccheck.json'])('every case of %s has one verdict', (name) => {
  const file = join(import.meta.dirname, '../../vectors/third-party', name);
  const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: { pk: string; msg: string; sig: string }[] };
  expect(cases.length).toBeGreaterThan(10);
  for (const { pk, msg, sig } of cases) {
    const key = publicKeyFromBytes(Buffer.from(pk, 'hex'));
    const [message, signature] = [Buffer.from(msg, 'hex'), Buffer.from(sig, 'hex').toString('base64')];
    const [ofLibsodium, ofOpenssl] = withAndWithout(() => verifySignature(key, message, signature));
    expect({ pk, msg, sig, verdict: ofLibsodium }).toEqual({ pk, msg, sig, verdict: ofOpenssl });
  }
});
