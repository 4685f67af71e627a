import { hash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { signerFromSeed, verifySignature } from '../../../src/protocol/ed25519.ts';
import {
  EMPTY_BODY_HASH,
  HOP_HEADERS,
  HOP_SKEW_MAX_MS,
  type HopFields,
  hopLanMessage,
  isHopNonce,
  hopV1Message,
  hopV2Message,
  parseHopTimestamp,
  signedTarget,
} from '../../../src/protocol/hop.ts';
import { sha256Hex } from '../../../src/protocol/digest.ts';
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

describe('signed hop: the bytes that are signed', () => {
  it('v2: six lines, the path with its query, the relay key last, no newline at the end', () => {
    expect(hopV2Message(hop({ method: 'POST' }), RELAY).toString('utf8')).toBe(
      [
        'mail-hop-v2',
        'POST',
        '/v2/relay/items?limit=500',
        '1763675303000',
        'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
        RELAY,
      ].join('\n'),
    );
  });

  it('v1: five lines, the path without its query, no relay key, no newline at the end', () => {
    expect(hopV1Message(hop({ target: '/v1/relay/messages?after=abc' })).toString('utf8')).toBe(
      [
        'mail-hop-v1',
        'GET',
        '/v1/relay/messages',
        '1763675303000',
        'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      ].join('\n'),
    );
  });

  it('LAN: the lines of v2 and a nonce, under a tag of their own, so that neither is ever good for the other', () => {
    const [tag, ...lines] = hopLanMessage(hop(), RELAY, 'AAAAAAAAAAAAAAAAAAAAAA').toString('utf8').split('\n');
    const [, ...linesOfV2] = hopV2Message(hop(), RELAY).toString('utf8').split('\n');
    expect([tag, lines]).toEqual(['mail-hop-lan-2', [...linesOfV2, 'AAAAAAAAAAAAAAAAAAAAAA']]);
  });

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

  it('every field is signed: a signature is good for one request and no other', () => {
    const signer = signerFromSeed(hash('sha256', 'hop', 'buffer'));
    const signature = signer.sign(hopV2Message(hop(), RELAY));
    const others: HopFields[] = [
      hop({ method: 'POST' }),
      hop({ target: '/v2/relay/items' }),
      hop({ target: '/v2/relay/ack' }),
      hop({ timestamp: '1763675303001' }),
      hop({ bodyHash: sha256Hex('{}') }),
    ];
    expect(verifySignature(signer.publicKey, hopV2Message(hop(), RELAY), signature)).toBe(true);
    expect(verifySignature(signer.publicKey, hopV2Message(hop(), OTHER_RELAY), signature)).toBe(false);
    expect(verifySignature(signer.publicKey, hopV1Message(hop()), signature)).toBe(false);
    for (const other of others)
      expect(verifySignature(signer.publicKey, hopV2Message(other, RELAY), signature)).toBe(false);
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

  it('the hash of no body is that of no bytes', () => {
    expect(EMPTY_BODY_HASH).toBe(hash('sha256', Buffer.alloc(0), 'hex'));
  });

  it('the headers and the skew are those of the protocol', () => {
    expect(HOP_HEADERS).toEqual({
      host: 'x-mail-host',
      timestamp: 'x-mail-ts',
      signature: 'x-mail-sig',
      key: 'x-mail-key',
      nonce: 'x-mail-nonce',
    });
    expect(HOP_SKEW_MAX_MS).toBe(300_000);
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
