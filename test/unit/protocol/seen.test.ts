import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { noteText, signCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import {
  KNEW_BYTES,
  SEEN_ENTRIES_MAX,
  afterOf,
  decodeKnew,
  knewHolds,
  makeKnew,
  markOf,
  noteHash,
  parseHeard,
  parseSeen,
} from '../../../src/protocol/seen.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { alice, bob, relay } from '../../support/hosts.ts';

const zeros = (count: number): Buffer => Buffer.alloc(count);
const hashes = ['one', 'two', 'three', 'four'].map((text) => sha256Hex(text));
const note = signCheckpoint({ epoch: epochNumbered(1), size: 7, rootHash: zeros(32) }, relay.signer);

describe('knew', () => {
  test('is 16 random bytes and four hashes', () => {
    const knew = makeKnew(hashes, (count) => Buffer.alloc(count, 0xee));
    expect(knew.toString('hex')).toBe(`${'ee'.repeat(16)}${hashes.join('')}`);
    expect(knew).toHaveLength(KNEW_BYTES);
    expect(() => makeKnew([...hashes, hashes[0]!], zeros)).toThrow(RangeError);
  });

  test('is random where there are fewer hashes, so its length and look say nothing', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), fc.uint8Array({ minLength: 144, maxLength: 144 }), (many, random) => {
        const knew = makeKnew(hashes.slice(0, many), (count) => Buffer.from(random.subarray(0, count)));
        const filled = 16 + 32 * many;
        expect(knew.subarray(0, 16)).toEqual(Buffer.from(random.subarray(0, 16)));
        expect(knew.subarray(filled)).toEqual(Buffer.from(random.subarray(filled)));
        for (const [nth, one] of hashes.entries()) expect(knewHolds(knew, one)).toBe(nth < many);
      }),
    );
  });

  test('holds a hash at its place alone: not across two, and not in the random bytes', () => {
    const knew = makeKnew(hashes, zeros);
    expect(knewHolds(knew, knew.toString('hex', 32, 64) as never)).toBe(false);
    expect(knewHolds(knew, knew.toString('hex', 0, 32) as never)).toBe(false);
    expect(knewHolds(knew.subarray(1), hashes[0]!)).toBe(false);
  });

  test('does not change the random bytes that it is made of', () => {
    const shared = Buffer.alloc(KNEW_BYTES, 1);
    makeKnew(hashes, () => shared);
    expect(shared).toEqual(Buffer.alloc(KNEW_BYTES, 1));
  });

  test('has a SHA-256, which the relay signs', () => {
    const knew = makeKnew(hashes, zeros);
    expect(afterOf(knew).toString('hex')).toBe(sha256Hex(knew));
  });
});

test('the hash of a note covers its signature, so that nobody can make it before the relay signed', () => {
  expect(noteHash(note)).toBe(sha256Hex(note));
  expect(noteHash(note)).not.toBe(sha256Hex(noteText(note)));
});

describe('seen', () => {
  const knew = makeKnew(hashes, zeros).toString('base64');
  const entry = { relay: relay.key, checkpoint: note, knew };

  test('is a list of entries; unknown members are passed over', () => {
    expect(knew).toHaveLength(192);
    expect(parseSeen([entry])).toEqual([entry]);
    expect(parseSeen([{ ...entry, more: 1 }])).toEqual([entry]);
    expect(decodeKnew(knew)).toEqual(makeKnew(hashes, zeros));
  });

  test('has at most two entries: more are passed over', () => {
    const ofAlice = { ...entry, relay: alice.key };
    expect(parseSeen([entry, ofAlice, { ...entry, relay: bob.key }])).toEqual([entry, ofAlice]);
    expect(SEEN_ENTRIES_MAX).toBe(2);
  });

  test.each([
    ['a text', 'x'],
    ['null', null],
    ['no relay', { ...entry, relay: undefined }],
    ['a key that is none', { ...entry, relay: relay.key.slice(1) }],
    ['no note', { ...entry, checkpoint: 7 }],
    ['a note with half of a surrogate pair', { ...entry, checkpoint: '\ud800' }],
    ['a note of too many characters', { ...entry, checkpoint: 'x'.repeat(406) }],
    ['no knew', { ...entry, knew: undefined }],
    ['a short knew', { ...entry, knew: knew.slice(4) }],
    ['a knew that is not canonical', { ...entry, knew: ` ${knew.slice(1)}` }],
  ])('passes over an entry that is %s, and takes those behind it', (_what, wrong) => {
    expect(parseSeen([wrong, entry])).toEqual([entry]);
  });

  test('never throws', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect([parseSeen(value), parseSeen([value])]).toEqual([[], []]);
      }),
    );
  });
});

describe('heard', () => {
  const entry = { relay: relay.key, checkpoint: note, knew: makeKnew(hashes, zeros).toString('base64') };
  const mark = markOf(entry);

  test('a mark is 16 bytes of the SHA-256 of the canonical entry, whatever the order of its members', () => {
    const { checkpoint, knew } = entry;
    const digest = sha256Hex(`{"checkpoint":${JSON.stringify(checkpoint)},"knew":"${knew}","relay":"${relay.key}"}`);
    expect(mark).toBe(Buffer.from(digest.slice(0, 32), 'hex').toString('base64url'));
    expect(markOf({ checkpoint, knew, relay: relay.key })).toBe(mark);
  });

  test('another relay, note or knew has another mark', () => {
    const others = [{ relay: bob.key }, { checkpoint: `${note} ` }, { knew: 'A'.repeat(192) }];
    const marks = others.map((other) => markOf({ ...entry, ...other }));
    expect(new Set([mark, ...marks]).size).toBe(4);
  });

  test('is a list of two marks at most: what is none, and more, is passed over', () => {
    expect(parseHeard([mark])).toEqual([mark]);
    const wrong = [7, null, {}, mark.slice(1), `${mark}A`, [mark]];
    const [two, three] = ['B'.repeat(22), 'C'.repeat(22)];
    expect(parseHeard([...wrong, mark, two, three])).toEqual([mark, two]);
  });

  test('never throws', () => {
    const anything = fc.anything().filter((value) => typeof value !== 'string' || value.length !== mark.length);
    fc.assert(
      fc.property(anything, (value) => {
        expect([parseHeard(value), parseHeard([value])]).toEqual([[], []]);
      }),
    );
  });
});
