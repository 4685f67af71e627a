import * as fc from 'fast-check';
import { canonicalize } from 'json-canonicalize';
import { describe, expect, it } from 'vitest';
import {
  CanonicalMembers,
  NotCanonicalisable,
  canonicalBytes,
  canonicalJson,
} from '../../../src/protocol/documents.ts';
import { anyText } from '../../support/any-text.ts';

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
