/** Where libsodium does not load: OpenSSL opens what libsodium sealed, and the other way round. */
import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import type * as Libsodium from '../../../../src/protocol/libsodium.ts';
import { LOW_ORDER } from './low-order-points.ts';

const { sodiumHere } = vi.hoisted(() => ({ sodiumHere: { loads: true } }));
vi.mock('../../../../src/protocol/libsodium.ts', async (original) => {
  const { libsodium } = await original<typeof Libsodium>();
  return { libsodium: () => (sodiumHere.loads ? libsodium() : undefined) };
});
const { sealSuite } = await import('../../../../src/host/wire/seal-suite.ts');
const { libsodium } = await import('../../../../src/protocol/libsodium.ts');

const INFO = Buffer.from('mail-envelope-v1');
type SealKeyOf = Parameters<typeof sealSuite.kem.serializePublicKey>[0];
const BOTH = [true, false] as const;

async function withSodium<T>(loads: boolean, ask: () => Promise<T>): Promise<T> {
  sodiumHere.loads = loads;
  try {
    return await ask();
  } finally {
    sodiumHere.loads = true;
  }
}

async function sealed(recipientPublicKey: SealKeyOf, message: Uint8Array, aad: Uint8Array) {
  const context = await sealSuite.createSenderContext({ recipientPublicKey, info: INFO });
  return { enc: context.enc, ct: await context.seal(Buffer.from(message), Buffer.from(aad)) };
}

test('libsodium loads on this machine, so that what follows compares two libraries', () => {
  expect(libsodium()).toBeDefined();
});

test('property: each opens what either sealed to a pair that either made, and neither what was changed', async () => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  const loads = fc.constantFrom(...BOTH);
  await fc.assert(
    fc.asyncProperty(bytes, bytes, loads, loads, loads, async (message, aad, makes, seals, opens) => {
      const recipientKey = await withSodium(makes, () => sealSuite.kem.generateKeyPair());
      const { enc, ct } = await withSodium(seals, () => sealed(recipientKey.publicKey, message, aad));
      const open = (bytesToOpen: ArrayBuffer): Promise<ArrayBuffer> =>
        withSodium(opens, async () => {
          const context = await sealSuite.createRecipientContext({ recipientKey, enc, info: INFO });
          return context.open(bytesToOpen, Buffer.from(aad));
        });
      expect(Buffer.from(await open(ct))).toEqual(Buffer.from(message));
      const changed = new Uint8Array(ct.slice(0));
      changed[0]! ^= 1;
      await expect(open(changed.buffer)).rejects.toThrow(Error);
      await expect(open(ct.slice(0, 15))).rejects.toThrow(Error);
    }),
    { numRuns: 60 },
  );
});

test.each(LOW_ORDER)('neither seals to %s', async (hex) => {
  const key = new Uint8Array(Buffer.from(hex, 'hex')).buffer;
  for (const loads of BOTH) {
    const sealing = withSodium(loads, async () =>
      sealed(await sealSuite.kem.deserializePublicKey(key), Buffer.from('a message'), Buffer.alloc(0)),
    );
    await expect(sealing).rejects.toThrow(Error);
  }
});
