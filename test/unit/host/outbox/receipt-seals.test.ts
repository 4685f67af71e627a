/** Tests what a delivery receipt shows of a relay: for one host, between two keys, of one size, never in the way. */
import { randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SealKey } from '../../../../src/host/core/rows.ts';
import { generateSealKey, type Sealed, sealTo } from '../../../../src/host/wire/sealing.ts';
import {
  HOME_SEAL,
  openInReceipt,
  SEEN_SEAL,
  sealedAdditional,
  sealedPlaintext,
  sealInReceipt,
} from '../../../../src/host/outbox/receipt-seals.ts';
import { PLAIN_NOTE_CHARACTERS_MAX } from '../../../../src/protocol/checkpoint.ts';
import {
  HOME_RELAYS_BYTES_MAX,
  homeRelaysText,
  type SignedHomeRelays,
  signHomeRelays,
} from '../../../../src/protocol/home-relays.ts';
import { parseSeen, type SeenEntry } from '../../../../src/protocol/seen.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { seenEntry } from '../../../support/relay-notes.ts';

const SEEN_INFO = SEEN_SEAL.info;
const BETWEEN = { host_pubkey: bob.key, sender_host_pubkey: alice.key };

const sealSeen = (entry: SeenEntry | undefined, between: typeof BETWEEN, encPub: string): Promise<Sealed> =>
  sealInReceipt(SEEN_SEAL, entry, between, encPub);
const seenAdditional = (between: typeof BETWEEN): Buffer => sealedAdditional(SEEN_SEAL, between);
async function openSeen(seen: unknown, between: typeof BETWEEN, keys: readonly SealKey[]): Promise<SeenEntry[]> {
  return parseSeen([await openInReceipt(SEEN_SEAL, seen, between, keys)]);
}

function padded(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([bytes, Buffer.alloc(704 - bytes.length, ' ')]);
}

async function sealKey(): Promise<SealKey> {
  const { enc_pub: encPub, secret } = await generateSealKey();
  return { encPub, secret, sinceMs: 0, retiredAtMs: null };
}

const key = await sealKey();

test('"Delivery receipts": the host that it was sealed for opens it, also with a key that it has retired', async () => {
  const entry = seenEntry(17);
  const seen = await sealSeen(entry, BETWEEN, key.encPub);
  expect(await openSeen(seen, BETWEEN, [await sealKey(), { ...key, retiredAtMs: 1 }])).toEqual([entry]);
});

test('the ciphertext has 720 bytes for the longest entry, for a short one and before there is a note', async () => {
  const longest = seenEntry(Number.MAX_SAFE_INTEGER);
  expect(longest.checkpoint).toHaveLength(PLAIN_NOTE_CHARACTERS_MAX);
  for (const entry of [longest, seenEntry(1), undefined]) {
    const { ct } = await sealSeen(entry, BETWEEN, key.encPub);
    expect(Buffer.from(ct, 'base64')).toHaveLength(720);
  }
  expect(sealedPlaintext(SEEN_SEAL, undefined).toString()).toBe(' '.repeat(704));
  expect(await openSeen(await sealSeen(undefined, BETWEEN, key.encPub), BETWEEN, [key])).toEqual([]);
});

describe('nothing is shown, and nothing thrown, by', () => {
  const shown = sealSeen(seenEntry(17), BETWEEN, key.encPub);
  const sealed = (plaintext: string, info = SEEN_INFO): Promise<Sealed> =>
    sealTo(key.encPub, info, padded(plaintext), seenAdditional(BETWEEN));

  test.each<[string, () => Promise<unknown>]>([
    ['no object', async () => 'seen'],
    ['a list', async () => [await shown]],
    ['an object without its members', async () => ({})],
    ['the id of another key', async () => ({ ...(await shown), key_id: 'f'.repeat(16) })],
    ['a member of another type', async () => ({ ...(await shown), enc: 7 })],
    ['no base64', async () => ({ ...(await shown), enc: '?' })],
    ['a key of another length', async () => ({ ...(await shown), enc: 'AAAA' })],
    [
      'a key with which every secret is zero',
      async () => ({ ...(await shown), enc: Buffer.alloc(32).toString('base64') }),
    ],
    ['other bytes', async () => ({ ...(await shown), ct: randomBytes(720).toString('base64') })],
    ['another length', async () => sealTo(key.encPub, SEEN_INFO, Buffer.alloc(705, ' '), seenAdditional(BETWEEN))],
    ['a seal of mail', async () => sealed(JSON.stringify(seenEntry(1)), Buffer.from('mail-envelope-v1'))],
    ['no JSON', async () => sealed('{')],
    ['another value', async () => sealed('[1,2]')],
    ['an entry without a member', async () => sealed(JSON.stringify({ ...seenEntry(1), knew: undefined }))],
    ['a note that is too long', async () => sealed(JSON.stringify({ ...seenEntry(1), checkpoint: 'x'.repeat(406) }))],
  ])('%s', async (_what, seen) => {
    expect(await openSeen(await seen(), BETWEEN, [key])).toEqual([]);
  });

  test.each([
    ['another receiver', { ...BETWEEN, sender_host_pubkey: carol.key }],
    ['another signer', { ...BETWEEN, host_pubkey: carol.key }],
    ['the two exchanged', { host_pubkey: alice.key, sender_host_pubkey: bob.key }],
  ])('a receipt between others: %s', async (_what, between) => {
    expect(await openSeen(await shown, between, [key])).toEqual([]);
  });

  test('property: any JSON value', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (seen) => {
        expect(await openSeen(seen, BETWEEN, [key])).toEqual([]);
      }),
    );
  });
});

test('an unknown member of the entry is passed over', async () => {
  const entry = seenEntry(3);
  const plaintext = padded(JSON.stringify({ ...entry, x: 1 }));
  const seen = await sealTo(key.encPub, SEEN_INFO, plaintext, seenAdditional(BETWEEN));
  expect(await openSeen(seen, BETWEEN, [key])).toEqual([entry]);
});

function signed(more: object = {}): SignedHomeRelays {
  return signHomeRelays(bob.signer, {
    seq: 7,
    relays: [{ relay_pubkey: carol.key, url: 'https://r.example' }],
    ...more,
  });
}

describe('what a host says of relays', () => {
  test('takes 144 bytes without a document and 2,192 with one, the longest too', async () => {
    const room = HOME_RELAYS_BYTES_MAX - homeRelaysText(signed({ x: '' })).length;
    const longest = signed({ x: 'x'.repeat(room) });
    expect(homeRelaysText(longest)).toHaveLength(HOME_RELAYS_BYTES_MAX);
    const known = Number.MAX_SAFE_INTEGER;
    for (const [home, size] of [
      [{ known: 1 }, 144],
      [{ known }, 144],
      [signed(), 2_192],
      [signHomeRelays(bob.signer, { seq: 1, relays: [] }), 2_192],
      [{ ...longest, known }, 2_192],
    ] as const) {
      const box = await sealInReceipt(HOME_SEAL, home, BETWEEN, key.encPub);
      expect(Buffer.from(box.ct, 'base64')).toHaveLength(size);
      expect(await openInReceipt(HOME_SEAL, box, BETWEEN, [key])).toEqual(home);
      expect(await openInReceipt(SEEN_SEAL, box, BETWEEN, [key])).toBeUndefined();
    }
  });

  test('more than fits is never sealed, and of another size never opened', async () => {
    expect(() => sealedPlaintext(HOME_SEAL, { x: 'x'.repeat(2_176) })).toThrow(/fits/);
    for (const size of [127, 129, 2_175, 2_177, 4_096]) {
      const plaintext = Buffer.from('{"known":1}'.padEnd(size));
      const box = await sealTo(key.encPub, HOME_SEAL.info, plaintext, sealedAdditional(HOME_SEAL, BETWEEN));
      expect(await openInReceipt(HOME_SEAL, box, BETWEEN, [key])).toBeUndefined();
    }
  });

  test('a seal of what was seen, moved there, does not open', async () => {
    const box = await sealInReceipt(SEEN_SEAL, seenEntry(1), BETWEEN, key.encPub);
    expect(await openInReceipt({ ...HOME_SEAL, sizes: [704] }, box, BETWEEN, [key])).toBeUndefined();
  });
});
