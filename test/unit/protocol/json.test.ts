import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  ENVELOPE_JSON_BOUNDS,
  type JsonBounds,
  REQUEST_JSON_BOUNDS,
  parseJsonBounded,
  splitJsonArray,
  CanonicalMembers,
  NotCanonicalisable,
  canonicalBytes,
  canonicalJson,
} from '../../../src/protocol/json.ts';
import { BODY_BYTES_MAX } from '../../../src/protocol/limits.ts';
import { share } from '../../support/thorough.ts';
import { canonicalize } from 'json-canonicalize';
import { anyText } from '../../support/any-text.ts';

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

/** The double with these 64 bits. */
function double(bits: string): number {
  return Buffer.from(bits, 'hex').readDoubleBE();
}

/** `layers` arrays inside each other. */
function nested(layers: number): unknown {
  let value: unknown = 1;
  for (let layer = 0; layer < layers; layer++) value = [value];
  return value;
}

/** JSON values whose member names are as likely to need sorting or escaping as not. */
const jsonValue = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    anyText(),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(fc.oneof(anyText({ maxLength: 4 }), fc.constantFrom('a', 'b', '10', '9', '')), tie('value'), {
      maxKeys: 6,
    }),
  ),
})).value;

describe('canonical JSON (RFC 8785)', () => {
  it('section 3.2.2: the sample object', () => {
    const sample = JSON.parse(String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`) as unknown;
    const text =
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
      String.raw`"string":"€$\u000f\nA'B\"\\\\\"/"}`;
    expect(canonicalJson(sample)).toBe(text);
    expect(canonicalBytes(sample).toString('hex')).toMatch(/^7b226c69746572616c73223a.*e282ac.*227d$/);
  });

  it('section 3.2.3: members are sorted by UTF-16 code units, not by code points and not by language', () => {
    const sample = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    };
    const order = ['Carriage Return', 'One', 'Control', 'Latin Small Letter O With Diaeresis', 'Euro Sign'];
    order.push('Emoji: Grinning Face', 'Hebrew Letter Dalet With Dagesh');
    expect(Object.values(JSON.parse(canonicalJson({ sample })) as object)).toEqual([sample]);
    expect([...canonicalJson(sample).matchAll(/:"([^"]*)"/g)].map(([, name]) => name)).toEqual(order);
  });

  // Appendix B, and numbers around the places where ECMAScript changes its notation.
  it.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('appendix B: the double %s is %s', (bits, text) => {
    expect(canonicalJson(double(bits))).toBe(text);
  });

  it('section 3.2.2.2: escapes what must be escaped, in the shortest way, and nothing else', () => {
    const controls = Array.from({ length: 0x20 }, (_, code) => String.fromCodePoint(code)).join('');
    const escaped =
      String.raw`"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f` +
      String.raw`\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f"`;
    expect(canonicalJson(controls)).toBe(escaped);
    expect(canonicalJson('"\\')).toBe(String.raw`"\"\\"`);
    expect(canonicalJson("/'<>&\u007f\u0080\u2028\u2029\ufeff\ud83d\ude00")).toBe(
      '"/\'<>&\u007f\u0080\u2028\u2029\ufeff\ud83d\ude00"',
    );
  });

  it('writes no space, sorts members at every depth and keeps the order of elements', () => {
    const value = { b: [{ d: 1, c: [3, 1, 2] }, {}], a: [], 10: 'ten', 9: 'nine', '': null };
    expect(canonicalJson(value)).toBe('{"":null,"10":"ten","9":"nine","a":[],"b":[{"c":[3,1,2],"d":1},{}]}');
  });

  it('treats no member name in a special way', () => {
    const value: unknown = JSON.parse('{"toJSON":1,"constructor":2,"__proto__":{"z":1,"toJSON":null,"a":2},"b":3}');
    expect(canonicalJson(value)).toBe('{"__proto__":{"a":2,"toJSON":null,"z":1},"b":3,"constructor":2,"toJSON":1}');
  });

  it('takes the same value in two places for two values', () => {
    const value = { x: 1 };
    expect(canonicalJson({ a: value, ab: value, list: [value, value] })).toBe(
      '{"a":{"x":1},"ab":{"x":1},"list":[{"x":1},{"x":1}]}',
    );
  });

  it.each([
    ['a lone high surrogate', 'a\ud800'],
    ['a lone low surrogate', '\udc00a'],
    ['surrogates in the wrong order', '\udc00\ud800'],
    ['a lone surrogate in a list', ['\ud800']],
    ['a lone surrogate in a member name', { '\ud800': 1 }],
    ['a lone surrogate in a member name further down', [{ a: { '\udfff': 1 } }]],
    ['Infinity', Infinity],
    ['-Infinity', -Infinity],
    ['1e400 of a document', JSON.parse('{"a":[1e400]}')],
    ['NaN', Number.NaN],
    ['undefined', undefined],
    ['an undefined member', { a: undefined }],
    ['an undefined element', [undefined]],
    ['a hole', Object.assign([1], { length: 3 })],
    ['a bigint', 1n],
    ['a symbol', Symbol('a')],
    ['a function', () => 1],
    ['an object with toJSON', { toJSON: () => 1 }],
    ['a date', new Date(0)],
    ['bytes', Buffer.from('a')],
    ['a map', new Map([['a', 1]])],
    ['a boxed string', Object('a')],
  ])('refuses %s', (_why, value) => {
    expect(() => canonicalJson(value)).toThrow(NotCanonicalisable);
    expect(() => canonicalBytes({ value })).toThrow(NotCanonicalisable);
  });

  it('never shows in its error what the value held', () => {
    expect(() => canonicalJson({ secret: 'geheim\ud800' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('geheim') as string }),
    );
  });

  it('nests 64 deep and no further, so that neither depth nor a circle ends the process', () => {
    expect(canonicalJson(nested(64))).toBe(`${'['.repeat(64)}1${']'.repeat(64)}`);
    expect(() => canonicalJson(nested(65))).toThrow(NotCanonicalisable);
    expect(() => canonicalJson(nested(100_000))).toThrow(NotCanonicalisable);
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    expect(() => canonicalJson(circle)).toThrow(NotCanonicalisable);
  });

  it('property: parses back to the value it was made of', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        fc.pre(isWellFormed(value));
        // JCS has one zero.
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 500 },
    );
  });

  it('property: is its own canonical form, whatever the order of members was', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        fc.pre(isWellFormed(value));
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(canonicalJson(reversed(value))).toBe(text);
        expect(canonicalBytes(value).toString('utf8')).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it('property: agrees with json-canonicalize', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        fc.pre(isWellFormed(value));
        // A fresh copy: the library takes values that are shared for circles.
        expect(canonicalJson(value)).toBe(canonicalize(JSON.parse(JSON.stringify(value))));
      }),
      { numRuns: 500 },
    );
  });

  it('property: refuses every lone surrogate, wherever it stands', () => {
    const halfPair = fc.integer({ min: 0xd800, max: 0xdfff }).map((code) => String.fromCharCode(code));
    const surroundings = fc.tuple(fc.string(), halfPair, fc.string()).map((parts) => parts.join(''));
    fc.assert(
      fc.property(surroundings, jsonValue, (text, other) => {
        expect(() => canonicalJson([other, text])).toThrow(NotCanonicalisable);
        expect(() => canonicalJson({ [text]: other })).toThrow(NotCanonicalisable);
      }),
    );
  });

  it('property: an object without some members, one of them set later, is the canonical form of what is left', () => {
    const object = fc.dictionary(fc.oneof(anyText({ maxLength: 4 }), fc.constantFrom('a', 'b')), jsonValue);
    fc.assert(
      fc.property(object, fc.infiniteStream(fc.boolean()), jsonValue, (value, chosen, later) => {
        const whole = { ...value, b: later };
        fc.pre(isWellFormed(whole));
        const members = new CanonicalMembers({ ...value, b: null });
        members.set('b', later);
        expect(members.bytesWithout()).toEqual(canonicalBytes(whole));
        const left = Object.keys(whole).filter(() => chosen.next().value);
        const rest = Object.fromEntries(Object.entries(whole).filter(([name]) => !left.includes(name)));
        expect(members.bytesWithout(...left)).toEqual(canonicalBytes(rest));
      }),
    );
    for (const refused of [{ a: '\ud800' }, { '\ud800': 1 }, { a: undefined }])
      expect(() => new CanonicalMembers(refused)).toThrow(NotCanonicalisable);
    expect(() => new CanonicalMembers({ a: nested(64) })).toThrow(NotCanonicalisable);
    expect(() => new CanonicalMembers(new Date())).toThrow(NotCanonicalisable);
    expect(new CanonicalMembers({ a: nested(63) }).bytesWithout()).toEqual(canonicalBytes({ a: nested(63) }));
  });
});

function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, member]) => name.isWellFormed() && isWellFormed(member));
}

/** The same value with its members the other way round. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, reversed(member)] as const);
  return Object.fromEntries(members.toReversed());
}
