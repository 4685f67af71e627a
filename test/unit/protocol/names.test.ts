import * as fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import {
  HOST_NAME_PATTERN,
  ITEM_ID_CHARACTERS_MAX,
  OWNER_FP_PATTERN,
  foldHostName,
  parseHostName,
  parseMessageId,
  parseReceiptId,
  messageIdFrom,
  messageIdTimeMs,
} from '../../../src/protocol/names.ts';

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Texts of letters around the edges of the patterns, and now and then of anything. */
const nearlyName = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'aZ09._-:@/ \n\u00e9\u0130'.split('')), maxLength: 6 }),
  fc.string({ unit: fc.constantFrom('a', '-', '.', '9'), minLength: 60, maxLength: 66 }),
  fc.string(),
);

function consistsOf(text: string, letters: string): boolean {
  return text.split('').every((letter) => letters.includes(letter));
}

describe('host names', () => {
  it.each(['a', 'A', '7', 'mac-mini', 'build.example.org', 'a_b', 'a..b', 'a'.repeat(63), `a${'-'.repeat(61)}b`])(
    'takes %s',
    (name) => {
      expect(parseHostName(name)).toBe(name);
    },
  );

  it.each([
    ['nothing', ''],
    ['64 characters', 'a'.repeat(64)],
    ['a hyphen in front', '-a'],
    ['a hyphen at the end', 'a-'],
    ['a dot in front', '.a'],
    ['a dot at the end', 'a.'],
    ['an underscore alone', '_'],
    ['a space', 'a b'],
    ['a line break at the end', 'a\n'],
    ['a byte of zero', 'a\u0000b'],
    ['a colon', 'a:b'],
    ['an at sign', 'a@b'],
    ['a slash', 'a/b'],
    ['a letter outside ASCII', 'caf\u00e9'],
    ['a letter that folds to ASCII', '\u212aelvin'],
    ['a full-width letter', '\uff41'],
  ])('refuses %s', (_why, name) => {
    expect(parseHostName(name)).toBeUndefined();
  });

  it('property: is 1 to 63 letters, digits, dots, hyphens and underscores between letters or digits', () => {
    fc.assert(
      fc.property(nearlyName, (text) => {
        const ends = text.charAt(0) + text.charAt(text.length - 1);
        const isName =
          text.length >= 1 &&
          text.length <= 63 &&
          consistsOf(text, `${ALPHANUMERIC}._-`) &&
          consistsOf(ends, ALPHANUMERIC);
        expect(parseHostName(text)).toBe(isName ? text : undefined);
        expect(new RegExp(HOST_NAME_PATTERN).test(text)).toBe(isName);
      }),
      { numRuns: 1000 },
    );
  });

  it('are compared lowercased', () => {
    expect(foldHostName('Mac-Mini.LOCAL')).toBe('mac-mini.local');
    expect(foldHostName('mac-mini.local')).toBe('mac-mini.local');
  });
});

describe('owner_fp', () => {
  const pattern = new RegExp(OWNER_FP_PATTERN);

  it.each(['', 'a', 'SHA256:abc+/=', 'user@example.org', 'a'.repeat(64)])('takes %j', (text) => {
    expect(pattern.test(text)).toBe(true);
  });

  it.each(['a'.repeat(65), 'a b', 'a\n', '<script>', 'a"b', "a'b", 'a&b', 'caf\u00e9', '\u0000'])(
    'refuses %j',
    (text) => {
      expect(pattern.test(text)).toBe(false);
    },
  );
});

describe('message ids', () => {
  it.each(['m', '.', '-', '_', '01JD4Z8M4T7X9Q2V5W6Y3R1K0B', 'a'.repeat(128)])('takes %s', (id) => {
    expect(parseMessageId(id)).toBe(id);
  });

  it.each(['', 'a'.repeat(129), 'a:b', 'a/b', 'a b', 'a\n', 'receipt:m:a@h:1', 'caf\u00e9', 'a@b'])(
    'refuses %j',
    (id) => {
      expect(parseMessageId(id)).toBeUndefined();
    },
  );

  it('property: is 1 to 128 letters, digits, dots, hyphens and underscores', () => {
    fc.assert(
      fc.property(nearlyName, (text) => {
        const isId = text.length >= 1 && text.length <= 128 && consistsOf(text, `${ALPHANUMERIC}._-`);
        expect(parseMessageId(text)).toBe(isId ? text : undefined);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('receipt ids', () => {
  it.each([
    'receipt:m:agent@host:0',
    'receipt:m:agent@host:1763675303000',
    'receipt:.:a@h:1',
    'receipt:m:reviewer-2.b_c@build.example.org:7',
    `receipt:m:a@h:${Number.MAX_SAFE_INTEGER}`,
  ])('takes %s', (id) => {
    expect(parseReceiptId(id)).toBe(id);
  });

  it('the longest stays within the 320 characters of an item id', () => {
    const recipient = `${'a'.repeat(64)}@${'h'.repeat(63)}`;
    const longest = `receipt:${'m'.repeat(128)}:${recipient}:${Number.MAX_SAFE_INTEGER}`;
    expect(parseReceiptId(longest)).toBe(longest);
    expect(ITEM_ID_CHARACTERS_MAX).toBe(320);
    expect(longest.length).toBeLessThanOrEqual(ITEM_ID_CHARACTERS_MAX);
    expect(parseReceiptId(`receipt:${'m'.repeat(129)}:a@h:1`)).toBeUndefined();
    expect(parseReceiptId(`receipt:m:${'a'.repeat(65)}@h:1`)).toBeUndefined();
    expect(parseReceiptId(`receipt:m:a@${'h'.repeat(64)}:1`)).toBeUndefined();
  });

  it.each([
    ['a message id', 'm'],
    ['another prefix', 'Receipt:m:a@h:1'],
    ['the id of an expiry notice', 'expired:m:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='],
    ['no sequence number', 'receipt:m:a@h'],
    ['an empty sequence number', 'receipt:m:a@h:'],
    ['an empty message', 'receipt::a@h:1'],
    ['an empty recipient', 'receipt:m::1'],
    ['an empty agent', 'receipt:m:@h:1'],
    ['an empty host', 'receipt:m:a@:1'],
    ['an agent without a host', 'receipt:m:a:1'],
    ['two hosts', 'receipt:m:a@h@i:1'],
    ['an agent that begins with a dot', 'receipt:m:.a@h:1'],
    ['a host that ends in a dot', 'receipt:m:a@h.:1'],
    ['a colon too many', 'receipt:m:a@h:1:2'],
    ['a leading zero', 'receipt:m:a@h:01'],
    ['a sign', 'receipt:m:a@h:-1'],
    ['a plus', 'receipt:m:a@h:+1'],
    ['a fraction', 'receipt:m:a@h:1.5'],
    ['an exponent', 'receipt:m:a@h:1e3'],
    ['an unsafe integer', 'receipt:m:a@h:9007199254740992'],
    ['17 digits', 'receipt:m:a@h:10000000000000000'],
    ['a line break at the end', 'receipt:m:a@h:1\n'],
  ])('refuses %s', (_why, id) => {
    expect(parseReceiptId(id)).toBeUndefined();
  });

  it('property: no two triples have one id, and no receipt id is a message id', () => {
    const message = fc.stringMatching(/^[A-Za-z0-9._-]{1,4}$/);
    const recipient = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,2}@[a-z0-9]$/);
    const triple = fc.tuple(message, recipient, fc.nat());
    fc.assert(
      fc.property(triple, triple, (one, other) => {
        const [oneId, otherId] = [one, other].map((parts) => parseReceiptId(`receipt:${parts.join(':')}`));
        expect(oneId).toBeDefined();
        expect(oneId === otherId).toBe(JSON.stringify(one) === JSON.stringify(other));
        expect(parseMessageId(oneId ?? '')).toBeUndefined();
      }),
    );
  });
});

test('ids are message ids of the protocol and sort by time', () => {
  const random = Buffer.alloc(10, 0xff);
  const ids = [0, 1, 1_763_675_303_000, 1_763_675_303_001, 2 ** 48 - 1].map((nowMs) => messageIdFrom(nowMs, random));
  expect(ids.toSorted()).toEqual(ids);
  expect(ids.map((id) => parseMessageId(id))).toEqual(ids);
  expect(new Set(ids.map((id) => id.length))).toEqual(new Set([26]));
});

test('another count of random bytes is refused', () => {
  expect(() => messageIdFrom(1, Buffer.alloc(9))).toThrow(RangeError);
});

test('an id tells when its message was sent, and one of another kind tells nothing', () => {
  for (const nowMs of [0, 1_763_675_303_000, 2 ** 48 - 1]) {
    expect(messageIdTimeMs(messageIdFrom(nowMs, Buffer.alloc(10, 0xff)))).toBe(nowMs);
  }
  expect(messageIdTimeMs('of-another-program')).toBeUndefined();
});
