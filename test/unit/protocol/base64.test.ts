import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeBase64, encodeBase64 } from '../../../src/protocol/base64.ts';

describe('strict base64', () => {
  // RFC 4648 section 10.
  it.each([
    ['', ''],
    ['f', 'Zg=='],
    ['fo', 'Zm8='],
    ['foo', 'Zm9v'],
    ['foob', 'Zm9vYg=='],
    ['fooba', 'Zm9vYmE='],
    ['foobar', 'Zm9vYmFy'],
  ])('RFC 4648: %j is %j', (text, encoded) => {
    expect(encodeBase64(Buffer.from(text))).toBe(encoded);
    expect(decodeBase64(encoded)?.toString()).toBe(text);
  });

  it.each([
    ['set bits behind the end', 'QR=='],
    ['set bits behind the end of two bytes', 'QUJ='],
    ['garbage behind the padding', 'QQ==garbage'],
    ['garbage of a full group behind the padding', 'QQ==QQ=='],
    ['missing padding', 'QQ'],
    ['half of the padding', 'QQ='],
    ['padding alone', '===='],
    ['too much padding', 'QUI=='],
    ['padding of nothing', 'QUJD===='],
    ['one letter left over', 'QUJDR'],
    ['a leading space', ' QUJD'],
    ['spaces of a full group', 'QUJD    '],
    ['a space inside', 'QU JD==='],
    ['a line break', 'QUJD\nQUJD'],
    ['four line breaks', 'QUJD\n\n\n\n'],
    ['a trailing line break', 'QUJD\n'],
    ['url-safe letters for +', '-_-_'],
    ['url-safe letters mixed in', '+_-/'],
    ['a letter outside ASCII', 'QUJ\u00e9'],
    ['a byte of zero', 'QUJ\u0000'],
    ['letters that are no base64', '!!!!'],
    ['a full-width letter', '\uff31UJD'],
  ])('refuses %s', (_why, text) => {
    expect(decodeBase64(text)).toBeUndefined();
  });

  it('property: decodes what it encodes, as Buffer encodes it', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const text = encodeBase64(bytes);
        expect(text).toBe(Buffer.from(bytes).toString('base64'));
        expect(decodeBase64(text)).toEqual(Buffer.from(bytes));
      }),
    );
  });

  it('property: everything accepted encodes to itself again, so no bytes have two texts', () => {
    const nearlyBase64 = fc.string({ unit: fc.constantFrom(...'AQRZaz019+/-_= \n'.split('')), maxLength: 12 });
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(nearlyBase64, fc.base64String({ maxLength: 40 }), fc.string()), (text) => {
        const bytes = decodeBase64(text);
        if (bytes === undefined) return;
        accepted++;
        expect(text).toMatch(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
        expect(encodeBase64(bytes)).toBe(text);
      }),
      { numRuns: 1000 },
    );
    expect(accepted).toBeGreaterThan(0);
  });

  it('encodes a view, and not the whole buffer behind it', () => {
    const view = new Uint8Array([0, 1, 2, 3, 4, 5]).subarray(2, 4);
    expect(encodeBase64(view)).toBe('AgM=');
  });
});
