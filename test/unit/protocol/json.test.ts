import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  ENVELOPE_JSON_BOUNDS,
  type JsonBounds,
  REQUEST_JSON_BOUNDS,
  parseJsonBounded,
  splitJsonArray,
} from '../../../src/protocol/json.ts';
import { BODY_BYTES_MAX } from '../../../src/protocol/limits.ts';
import { share } from '../../support/thorough.ts';

const WIDE: JsonBounds = { depthMax: 1000, valuesMax: 1_000_000, membersMax: 1_000_000 };

function parse(text: string, bounds: JsonBounds = WIDE): unknown {
  return parseJsonBounded(Buffer.from(text, 'utf8'), bounds);
}

/** `{},{},...` in an array, of `bytes` in all. */
function manyObjects(bytes: number): Buffer {
  return Buffer.from(`[${'{},'.repeat(Math.floor((bytes - 4) / 3))}{}]`);
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('bounded JSON: what it costs is known before it is paid (trap 25)', () => {
  it.each([
    ['8 MiB of {}', manyObjects(BODY_BYTES_MAX)],
    ['8 MiB of []', Buffer.from(`[${'[],'.repeat(2_700_000)}[]]`)],
    ['8 MiB of numbers', Buffer.from(`[${'1,'.repeat(4_000_000)}1]`)],
    ['8 MiB of empty strings', Buffer.from(`[${'"",'.repeat(2_700_000)}""]`)],
    ['8 MiB of members', Buffer.from(`{${'"":1,'.repeat(1_600_000)}"":1}`)],
    ['8 MiB of [', Buffer.from('['.repeat(BODY_BYTES_MAX))],
    ['8 MiB of {"":', Buffer.from('{"":'.repeat(BODY_BYTES_MAX / 4))],
    ['an envelope of many values', manyObjects(60_000)],
  ])('refuses %s without parsing it', (_what, bytes) => {
    const parser = vi.spyOn(JSON, 'parse');
    const bounds = bytes.length > 1_000_000 ? REQUEST_JSON_BOUNDS : ENVELOPE_JSON_BOUNDS;
    expect(parseJsonBounded(bytes, bounds)).toBeUndefined();
    expect(parser).not.toHaveBeenCalled();
  });

  it('takes 8 MiB that are a few long strings, brackets and commas and all', () => {
    const long = '[{",\\"}]'.repeat(500_000);
    expect(parse(JSON.stringify({ items: [long, long] }), REQUEST_JSON_BOUNDS)).toEqual({ items: [long, long] });
  });

  it('takes the largest push that the limits allow', () => {
    const item = {
      kind: 'envelope',
      item_id: 'm',
      targets: Array.from({ length: 64 }, () => ({ host_pubkey: '', wire_b64: '' })),
    };
    const push = { items: Array.from({ length: 200 }, () => item) };
    expect(parse(JSON.stringify(push), REQUEST_JSON_BOUNDS)).toEqual(push);
  });

  it.each([
    [4, '[1,2,3]'],
    [4, '{"a":1,"b":2,"c":3}'],
    [3, '[[1]]'],
    [6, '{"a":[1,2],"b":{"c":3}}'],
    [2, '["a,b,[{"]'],
  ])('counts %i values in %s', (values, text) => {
    expect(parse(text, { depthMax: 9, valuesMax: values, membersMax: 1_000_000 })).toEqual(JSON.parse(text));
    expect(parse(text, { depthMax: 9, valuesMax: values - 1, membersMax: 1_000_000 })).toBeUndefined();
  });

  it.each([
    [1, '[1]'],
    [2, '{"a":[]}'],
    [3, '[[[1]]]'],
    [2, '[[],[],{"a":"[[["}]'],
  ])('counts %i layers in %s', (layers, text) => {
    expect(parse(text, { depthMax: layers, valuesMax: 99, membersMax: 1_000_000 })).toEqual(JSON.parse(text));
    expect(parse(text, { depthMax: layers - 1, valuesMax: 99, membersMax: 1_000_000 })).toBeUndefined();
  });

  it('property: nothing passes that holds more values or nests deeper than the bounds', () => {
    const bounds = { depthMax: 3, valuesMax: 12, membersMax: 1_000_000 };
    let taken = 0;
    let beyond = 0;
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        const value: unknown = JSON.parse(text);
        const within = depthOf(value) <= bounds.depthMax && valuesOf(value) <= bounds.valuesMax;
        // An empty array or object may be counted twice, nothing more.
        const wellWithin = within && 2 * valuesOf(value) <= bounds.valuesMax;
        const isTaken = parse(text, bounds) !== undefined;
        expect({ isTaken, within, wellWithin }).not.toMatchObject({ isTaken: true, within: false });
        expect({ isTaken, within, wellWithin }).not.toMatchObject({ isTaken: false, wellWithin: true });
        taken += Number(isTaken);
        beyond += Number(!within);
      }),
      { numRuns: 1000 },
    );
    expect(Math.min(taken, beyond)).toBeGreaterThan(0);
  });
});

describe('bounded JSON: the value is what JSON.parse makes of it', () => {
  it.each([
    ['an escaped quote', String.raw`["\"",1]`],
    ['an escaped backslash before the end', String.raw`["\\",1]`],
    ['three backslashes and a quote', String.raw`["\\\"",1]`],
    ['four backslashes', String.raw`["\\\\",1]`],
    ['an escape at the start of a string', String.raw`{"\"a":"\\"}`],
    ['brackets in strings', '["[[[","}}}",{"]":"{"}]'],
    ['every escape', String.raw`"\b\f\n\r\t\/\u00e9\ud83d\ude00"`],
    ['spaces', ' \t\r\n[ 1 , 2 ] '],
    ['letters outside ASCII', '["\u00e9","\u20ac","\ud83d\ude00"]'],
    ['the last of two members', '{"a":1,"a":2}'],
    ['1e400', '[1e400]'],
    ['a lone surrogate, escaped', String.raw`["\ud800"]`],
    ['null', 'null'],
    ['zero below zero', '-0'],
  ])('%s', (_what, text) => {
    expect(parse(text)).toEqual(JSON.parse(text));
  });

  it.each([
    ['nothing', ''],
    ['spaces alone', '  '],
    ['a comma behind the end', '[1,]'],
    ['two values', '{} {}'],
    ['brackets that close nothing', ']]]['],
    ['the wrong bracket', '[1}'],
    ['an open array', '[1'],
    ['an open string', '["a'],
    ['an open string that ends in a backslash', '["a\\'],
    ['an open string that ends in an escaped quote', '["a\\"'],
    ['a line break in a string', '["a\nb"]'],
    ['a comment', '[1] // one'],
    ['single quotes', "['a']"],
    ['NaN', '[NaN]'],
    ['a leading zero', '[01]'],
    ['a byte order mark', '\ufeff{}'],
  ])('refuses %s', (_what, text) => {
    expect(parse(text)).toBeUndefined();
  });

  it.each([
    ['a byte order mark', 'efbbbf7b7d'],
    ['UTF-16', 'fffe7b007d00'],
    ['a stray continuation byte', '5b2280225d'],
    ['a sequence cut short', '5b22e282225d'],
    ['an overlong slash', '5b22c0af225d'],
    ['a surrogate in UTF-8', '5b22eda080225d'],
    ['a code point past the last', '5b22f4908080225d'],
    ['Latin-1', '5b22e9225d'],
  ])('refuses bytes that are not well-formed UTF-8: %s', (_what, hex) => {
    expect(parseJsonBounded(Buffer.from(hex, 'hex'), WIDE)).toBeUndefined();
  });

  it('takes a member called __proto__ as a member', () => {
    const value = parse('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}') as object;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.hasOwn(value, '__proto__')).toBe(true);
    expect((value as { isAdmin?: unknown }).isAdmin).toBeUndefined();
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
  });

  it('property: equals JSON.parse for every document within the bounds', () => {
    const spaced = fc
      .tuple(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'))
      .map(([value, space]) => JSON.stringify(value, null, space));
    fc.assert(
      fc.property(fc.oneof(fc.json({ stringUnit: 'binary' }), spaced), (text) => {
        fc.pre(text.isWellFormed());
        expect(isDeepStrictEqual(parse(text), JSON.parse(text))).toBe(true);
      }),
      { numRuns: share(2000) },
    );
  });

  it('property: takes a text when JSON.parse does, and no other', () => {
    const nearlyJson = fc.string({
      unit: fc.constantFrom(...'[]{}:,"\\01 eu'.split(''), 'null', '"a"', '\\u00e9', '\u00e9'),
      maxLength: 10,
    });
    fc.assert(
      fc.property(nearlyJson, (text) => {
        expect(parse(text)).toEqual(parsedOrUndefined(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('property: refuses bytes when they are no UTF-8, whatever they would have been', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        const document = Buffer.concat([Buffer.from('"'), bytes, Buffer.from('"')]);
        expect(parseJsonBounded(document, WIDE)).toEqual(decodedOrUndefined(document));
      }),
      { numRuns: 1000 },
    );
  });
});

const DEEP = `${'['.repeat(5000)}${']'.repeat(5000)}`;

describe('bounded JSON: the elements of an array taken out unparsed', () => {
  it.each([
    ['none', '{"items":[],"more":true}', []],
    ['none but spaces', '{"items":[ \n\t],"more":true}', []],
    ['what nests deeper than can be parsed', `{"more":true,"items":[1,${DEEP},2]}`, ['1', DEEP, '2']],
    ['what is no JSON', '{"items":[{"a":},nonsense, "b" ],"more":true}', ['{"a":}', 'nonsense', '"b"']],
    ['brackets, commas and quotes in strings', '{"items":["[{,\\"","]}"],"more":true}', ['"[{,\\""', '"]}"']],
    ['members of the same name inside', '{"x":{"items":[1]},"items":[{"items":[2]}],"more":true}', ['{"items":[2]}']],
    ['a text of that name before', '{"name":"items","other":[1],"items":[2],"more":true}', ['2']],
  ] as const)('%s', (_what, text, elements) => {
    const found = split(text);
    expect(found.rest).toMatchObject({ more: true, items: [] });
    expect(found.elements).toEqual(elements);
  });

  it('takes what follows the last but one as the last, when there are too many', () => {
    expect(split('{"items":[1,2,3,4,5]}', 3)).toEqual({ rest: { items: [] }, elements: ['1', '2', '3,4,5'] });
  });

  it('an element that is no UTF-8 leaves the others and the rest', () => {
    const bytes = Buffer.concat([Buffer.from('{"items":["'), Buffer.from([0xff]), Buffer.from('",7],"more":true}')]);
    const { rest, elements } = splitJsonArray(bytes, 'items', WIDE, 100);
    expect(rest).toEqual({ items: [], more: true });
    expect(elements.map((element) => parseJsonBounded(element, WIDE))).toEqual([undefined, 7]);
  });

  it('property: of every object, what JSON.parse makes of its elements and its rest', () => {
    const spaced = fc.tuple(
      fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
      fc.array(fc.jsonValue(), { maxLength: 5 }),
      fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
      fc.constantFrom(undefined, 1, '\t'),
    );
    fc.assert(
      fc.property(spaced, ([before, items, after, space]) => {
        const value = { ...before, items, ...after };
        fc.pre(Object.hasOwn(value, 'items') && value.items === items);
        const text = JSON.stringify(value, null, space);
        fc.pre(text.isWellFormed());
        const { rest, elements } = split(text);
        expect(rest).toEqual({ ...(JSON.parse(text) as object), items: [] });
        expect(elements.map((element) => JSON.parse(element) as unknown)).toEqual(JSON.parse(JSON.stringify(items)));
      }),
      { numRuns: 300 },
    );
  });
});

function split(text: string, elementsMax = 100): { rest: unknown; elements: string[] } {
  const { rest, elements } = splitJsonArray(Buffer.from(text, 'utf8'), 'items', WIDE, elementsMax);
  return { rest, elements: elements.map((bytes) => bytes.toString('utf8')) };
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function valuesOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  return 1 + Object.values(value).reduce<number>((sum, member) => sum + valuesOf(member), 0);
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function decodedOrUndefined(bytes: Buffer): unknown {
  try {
    return parsedOrUndefined(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
