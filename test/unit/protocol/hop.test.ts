import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  EMPTY_BODY_HASH,
  type HopFields,
  isHopNonce,
  hopV1Message,
  hopV2Message,
  parseHopTimestamp,
  signedTarget,
} from '../../../src/protocol/hop.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';

const RELAY = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=' as PublicKey;
const OTHER_RELAY = 'PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=' as PublicKey;

function hop(changes: Partial<HopFields> = {}): HopFields {
  return {
    method: 'GET',
    target: '/v2/relay/items?limit=500',
    timestamp: '1763675303000',
    bodyHash: EMPTY_BODY_HASH,
    ...changes,
  };
}

// The vectors (vectors.test.ts) have the lines of each version, the headers, and the hash of no body.
describe('signed hop: the bytes that are signed', () => {
  it('LAN: a nonce is the canonical base64url of 16 bytes', () => {
    for (const byte of [0, 0x51, 0xff]) expect(isHopNonce(Buffer.alloc(16, byte).toString('base64url'))).toBe(true);
    const others = [
      '',
      'A'.repeat(21),
      'A'.repeat(23),
      `${'A'.repeat(21)}B`,
      `${'A'.repeat(21)}=`,
      `${'+'.repeat(21)}A`,
    ];
    for (const text of [...others, `${'A'.repeat(22)}\n`, undefined, ['A'.repeat(22)]])
      expect(isHopNonce(text)).toBe(false);
  });

  it('v2: `?` differs from no query, and nothing of the query is decoded or put in order (trap 21)', () => {
    const targets = ['', '?', '?a=1', '?a=1&b=2', '?b=2&a=1', '?a=%31', '?a=1#', '?a=1&', '??', '?a=+', '?a=%20'];
    const messages = targets.map((query) =>
      hopV2Message(hop({ target: `/v2/relay/items${query}` }), RELAY).toString('hex'),
    );
    expect(new Set(messages).size).toBe(targets.length);
  });

  it('v1: no query is signed, whatever it is', () => {
    const targets = ['', '?', '?after=1', '?after=1?2', '?after=%3F'];
    const messages = targets.map((query) =>
      hopV1Message(hop({ target: `/v1/relay/messages${query}` })).toString('hex'),
    );
    expect(new Set(messages).size).toBe(1);
  });

  it('v2: another relay has another message, so a relay cannot replay a hop at another one', () => {
    expect(hopV2Message(hop(), RELAY).equals(hopV2Message(hop(), OTHER_RELAY))).toBe(false);
  });

  it('property: two hops of values without a line break have one message only when they are the same', () => {
    const line = fc.string({ unit: fc.constantFrom('a', '/', '?', '1', '\u00e9'), maxLength: 4 });
    const fields = fc.record({
      method: line,
      target: line,
      timestamp: line,
      bodyHash: line.map((text) => sha256Hex(text)),
    });
    fc.assert(
      fc.property(fields, fields, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other);
        expect(hopV2Message(one, RELAY).equals(hopV2Message(other, RELAY))).toBe(same);
        expect(hopV2Message(one, RELAY).toString('utf8').split('\n')).toHaveLength(6);
        expect(hopV1Message(one).toString('utf8').split('\n')).toHaveLength(5);
      }),
      { numRuns: 300 },
    );
  });
});

describe('signed hop: the target behind a path prefix', () => {
  it.each([
    ['/v2/relay/items', '/v2/relay/items'],
    ['/v1/relay/messages?after=1', '/v1/relay/messages?after=1'],
    ['/v2/relay/items?', '/v2/relay/items?'],
    ['/mail/v2/relay/items', '/v2/relay/items'],
    ['/mail/v2/relay/items?', '/v2/relay/items?'],
    ['/a/b/v1/relay/ack?x=1', '/v1/relay/ack?x=1'],
    ['/v1/v2/relay/items', '/v2/relay/items'],
    ['/v2/relay/v2/relay/items', '/v2/relay/items'],
    ['https://relay.example/mail/v2/relay/info', '/v2/relay/info'],
  ])('%s is signed as %s', (target, signed) => {
    expect(signedTarget(target)).toBe(signed);
  });

  it.each([
    '/v2/relay/items?next=/v1/relay/ack',
    '/v2/relay/enc-key?key=a/v2/relay/b',
    '/items?next=/v2/relay/items',
    '/v2/relay',
    '/V2/relay/items',
    '/v2/relays/items',
    '/v3/relay/items',
    '/v2%2Frelay/items',
    '',
  ])('%j is left as it is: a query names no path, and other paths are no routes', (target) => {
    expect(signedTarget(target)).toBe(target);
  });

  it('property: is what follows the prefix, byte for byte, and settled after one time', () => {
    const prefix = fc.stringMatching(/^(?:\/[a-z0-9.-]{1,5}){0,3}$/).filter((text) => !/\/v[12]$/.test(text));
    const rest = fc.stringMatching(/^\/v[12]\/relay\/[a-z-]{1,8}(?:\?[a-z=%&/?]{0,12})?$/);
    fc.assert(
      fc.property(prefix, rest, (before, target) => {
        expect(signedTarget(before + target)).toBe(target);
        expect(signedTarget(signedTarget(before + target))).toBe(target);
      }),
    );
  });
});

describe('signed hop: x-mail-ts', () => {
  it.each([
    ['0', 0],
    ['1', 1],
    ['1763675303000', 1_763_675_303_000],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ])('takes %s', (text, ms) => {
    expect(parseHopTimestamp(text)).toBe(ms);
  });

  it.each([
    '',
    ' 1',
    '1 ',
    '1\n',
    '+1',
    '-1',
    '-0',
    '00',
    '01',
    '1.0',
    '1e3',
    '0x10',
    '1_000',
    '1n',
    'NaN',
    'Infinity',
    '9007199254740992',
    '99999999999999999',
    '\u0661',
    '2025-11-20T21:48:23Z',
  ])('refuses %j', (text) => {
    expect(parseHopTimestamp(text)).toBeUndefined();
  });

  it('property: takes a number in one form only, the plain decimal one', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.maxSafeNat().map(String), fc.string({ unit: fc.constantFrom('0', '1', '9', '-', '.', 'e', ' ') })),
        (text) => {
          const value = parseHopTimestamp(text);
          expect(value === undefined ? undefined : String(value)).toBe(isPlainSafeInteger(text) ? text : undefined);
        },
      ),
      { numRuns: 500 },
    );
  });
});

function isPlainSafeInteger(text: string): boolean {
  const value = Number(text);
  return Number.isSafeInteger(value) && value >= 0 && value.toFixed(0) === text;
}
