/** MessagePack as docs/protocol.md has it, "The binary form": read strictly, and written in the shortest forms. */
import * as fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it, test } from 'vitest';
import { type JsonBounds, REQUEST_JSON_BOUNDS } from '../../../src/protocol/json.ts';
import { BODY_BYTES_MAX } from '../../../src/protocol/limits.ts';
import {
  type MessagePackBounds,
  type Packable,
  packed,
  packedBytes,
  readMessagePack,
  framesIn,
  pulledFrameHead,
  readPush,
} from '../../../src/protocol/message-pack.ts';
import { anyText } from '../../support/any-text.ts';
import { packedLoosely, readPlainly } from '../../support/plain-message-pack.ts';
import { share } from '../../support/thorough.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import { publicKeyFromBytes } from '../../../src/protocol/public-key.ts';

const WIDE: JsonBounds = { depthMax: 1000, valuesMax: 1_000_000, membersMax: 1_000_000 };

function read(hex: string, bounds: MessagePackBounds = WIDE): unknown {
  return readMessagePack(Buffer.from(hex.replaceAll(' ', ''), 'hex'), bounds);
}

/** A head, and behind it nothing but zeros up to the largest body. */
function largest(hex: string): Buffer {
  const body = Buffer.alloc(BODY_BYTES_MAX);
  Buffer.from(hex.replaceAll(' ', ''), 'hex').copy(body);
  return body;
}

/** Returns what it read, and whether that took next to nothing. */
function readAtOnce(bytes: Buffer, bounds: JsonBounds): { value: unknown; isCheap: boolean } {
  const { heapUsed, external } = process.memoryUsage();
  const { user } = process.cpuUsage();
  const value = readMessagePack(bytes, bounds);
  const isQuick = process.cpuUsage().user - user < 100_000;
  const after = process.memoryUsage();
  return { value, isCheap: isQuick && after.heapUsed + after.external - heapUsed - external < 32 << 20 };
}

const integer = fc.oneof(
  fc.maxSafeInteger(),
  fc.integer({ min: -40, max: 300 }),
  fc.constantFrom(127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -32, -33, -(2 ** 53 - 1)),
);
const name = fc.oneof(fc.constantFrom('items', '__proto__', 'constructor', ''), anyText());
const { value: anyValue } = fc.letrec<{ value: Packable }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, false),
    integer,
    anyText({ maxLength: 70 }),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(name, tie('value'), { maxKeys: 20, noNullPrototype: false }),
  ),
}));
const choices = fc.infiniteStream(fc.nat()).map((stream) => (count: number) => Number(stream.next().value) % count);

describe('MessagePack: what is read', () => {
  it('an integer as a double where that is asked for, and nowhere else; never a fraction, nor the half of one', () => {
    const RECORD = { ...WIDE, hasDoubles: true } as const;
    expect(read('cb 42 79 aa 33 d6 c5 80 00', RECORD)).toBe(1_763_675_303_000);
    expect(read('cb 42 79 aa 33 d6 c5 80 00')).toBeUndefined();
    expect(read('cb 3f f8 00 00 00 00 00 00', RECORD)).toBeUndefined();
    expect(read('cb 42 79 aa 33 d6 c5 80', RECORD)).toBeUndefined();
  });

  it.each([
    ['nil', 'c0', null],
    ['false', 'c2', false],
    ['true', 'c3', true],
    ['an integer in the type', '7f', 127],
    ['a negative integer in the type', 'e0', -32],
    ['an integer of 8 bits that needs none', 'cc 01', 1],
    ['an integer of 64 bits that needs 8', 'cf 00 00 00 00 00 00 00 ff', 255],
    ['a signed integer of 16 bits', 'd1 ff 00', -256],
    ['a signed integer of 64 bits', 'd3 ff ff ff ff ff ff ff fe', -2],
    ['the largest integer', 'cf 00 1f ff ff ff ff ff ff', Number.MAX_SAFE_INTEGER],
    ['the smallest integer', 'd3 ff e0 00 00 00 00 00 01', Number.MIN_SAFE_INTEGER],
    ['an empty text', 'a0', ''],
    ['a text of 8 bits that needs none', 'd9 01 61', 'a'],
    ['a text of 32 bits that needs none', 'db 00 00 00 01 61', 'a'],
    ['a text outside ASCII', 'a2 c3 a9', 'é'],
    ['a byte order mark in a text', 'a3 ef bb bf', '\ufeff'],
    ['empty bytes', 'c4 00', Buffer.alloc(0)],
    ['bytes of 32 bits that need 8', 'c6 00 00 00 01 ff', Buffer.from([0xff])],
    ['an array of 32 bits that needs none', 'dd 00 00 00 01 05', [5]],
    ['a map of 16 bits that needs none', 'de 00 01 a1 61 05', { a: 5 }],
  ])('%s', (_what, hex, value) => {
    expect(read(hex)).toEqual(value);
  });

  it.each([
    ['nothing', ''],
    ['a byte behind the value', 'c0 c0'],
    ['the type that is none', 'c1'],
    ['an integer above 2^53 - 1', 'cf 00 20 00 00 00 00 00 00'],
    ['one that rounds to it', 'cf 00 20 00 00 00 00 00 01'],
    ['the largest of 64 bits', 'cf ff ff ff ff ff ff ff ff'],
    ['an integer below -(2^53 - 1)', 'd3 ff e0 00 00 00 00 00 00'],
    ['a float of 32 bits', 'ca 00 00 00 00'],
    ['a float of 64 bits', 'cb 00 00 00 00 00 00 00 00'],
    ['a time', 'd6 ff 00 00 00 00'],
    ['an extension of one byte', 'd4 01 00'],
    ['an extension with a length', 'c7 01 01 00'],
    ['an overlong slash', 'a2 c0 af'],
    ['a surrogate in UTF-8', 'a3 ed a0 80'],
    ['a stray continuation byte', 'a1 80'],
    ['a sequence cut short', 'a2 e2 82'],
    ['Latin-1', 'a1 e9'],
    ['Latin-1 in a long text', `d9 80 e9 ${'61'.repeat(127)}`],
    ['Latin-1 in a key', '81 a1 e9 00'],
    ['a key twice', '82 a1 61 01 a1 61 02'],
    ['a key twice in other forms', '82 a1 61 01 d9 01 61 02'],
    ['__proto__ twice', '82 a9 5f 5f 70 72 6f 74 6f 5f 5f 00 a9 5f 5f 70 72 6f 74 6f 5f 5f 00'],
    ['a number for a key', '81 05 00'],
    ['bytes for a key', '81 c4 01 61 00'],
    ['nil for a key', '81 c0 00'],
    ['a map without its value', '81 a1 61'],
    ['an array without its element', '92 01'],
    ['a text cut short', 'a3 61 62'],
    ['bytes cut short', 'c4 03 61 62'],
    ['a length cut short', 'db 00 00 00'],
  ])('refuses %s', (_what, hex) => {
    expect(read(hex)).toBeUndefined();
    expect(readPlainly(Buffer.from(hex.replaceAll(' ', ''), 'hex'), WIDE)).toBeUndefined();
  });

  it('takes a member called __proto__ as a member', () => {
    const value = read('81 a9 5f 5f 70 72 6f 74 6f 5f 5f 81 a7 69 73 41 64 6d 69 6e c3') as { isAdmin?: unknown };
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect(value.isAdmin).toBeUndefined();
    expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
  });

  it('property: of every value in every form, the value', () => {
    fc.assert(
      fc.property(anyValue, choices, (value, choose) => {
        const bytes = packedLoosely(value, choose);
        expect(readMessagePack(bytes, WIDE)).toEqual(value);
        expect(readPlainly(bytes, WIDE)).toEqual(value);
      }),
      { numRuns: share(8000) },
    );
  });

  it('property: of altered and cut bytes, what a plain reader makes of them', () => {
    let refused = 0;
    const altered = fc.tuple(anyValue, choices, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }), fc.nat());
    fc.assert(
      fc.property(altered, ([value, choose, changes, cut]) => {
        const bytes = packedLoosely(value, choose);
        for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
        const left = cut % 3 === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
        const expected = readPlainly(left, WIDE);
        expect(readMessagePack(left, WIDE)).toEqual(expected);
        refused += Number(expected === undefined);
      }),
      { numRuns: share(16_000) },
    );
    expect(refused).toBeGreaterThan(0);
  });

  it('property: of any bytes, what a plain reader makes of them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 24 }), (bytes) => {
        expect(readMessagePack(Buffer.from(bytes), WIDE)).toEqual(readPlainly(Buffer.from(bytes), WIDE));
      }),
      { numRuns: share(32_000) },
    );
  });
});

describe('MessagePack: what it costs is known before it is paid (attacks with lengths)', () => {
  it.each([
    ['an array of 2^32 values', largest('dd ff ff ff ff')],
    ['an array of as many values as there are bytes', largest('dd 00 7f ff fb')],
    ['a map of 2^32 members', largest('df ff ff ff ff')],
    ['a map of 1,001 members', largest('de 03 e9')],
    ['a text of 4 GiB', largest('db ff ff ff ff')],
    ['bytes of 4 GiB', largest('c6 ff ff ff ff')],
    ['8 MiB of arrays, each in the one before', Buffer.alloc(BODY_BYTES_MAX, 0x91)],
    ['8 MiB of maps, each in the one before', Buffer.from('81a161'.repeat(BODY_BYTES_MAX / 3), 'hex')],
    ['many small arrays', Buffer.concat([Buffer.from('dc8000', 'hex'), Buffer.alloc(2 * 0x8000, '9100', 'hex')])],
  ])('refuses %s at once', (_what, bytes) => {
    expect(readAtOnce(bytes, REQUEST_JSON_BOUNDS)).toEqual({ value: undefined, isCheap: true });
  });

  it('refuses more values than there are bytes before it reads the first', () => {
    const array = readAtOnce(largest('dd 00 80 00 00'), { ...WIDE, valuesMax: Infinity });
    expect(array).toEqual({ value: undefined, isCheap: true });
    const members = Buffer.alloc(BODY_BYTES_MAX, 'df003fffffa0c0', 'hex');
    expect(readAtOnce(members, { ...WIDE, membersMax: Infinity })).toEqual({ value: undefined, isCheap: true });
  });

  it.each([
    [4, '93 01 02 03'],
    [4, '83 a1 61 01 a1 62 02 a1 63 03'],
    [3, '91 91 01'],
    [2, '91 c4 01 ff'],
  ])('counts %i values in %s', (valuesMax, hex) => {
    expect(read(hex, { ...WIDE, valuesMax })).toBeDefined();
    expect(read(hex, { ...WIDE, valuesMax: valuesMax - 1 })).toBeUndefined();
  });

  it.each([
    [1, '91 01'],
    [2, '81 a1 61 90'],
    [3, '91 91 81 a1 61 01'],
  ])('counts %i layers in %s', (depthMax, hex) => {
    expect(read(hex, { ...WIDE, depthMax })).toBeDefined();
    expect(read(hex, { ...WIDE, depthMax: depthMax - 1 })).toBeUndefined();
  });

  it('counts the members of each map alone', () => {
    const bounds = { ...WIDE, membersMax: 2 };
    expect(read('82 a1 61 82 a1 61 01 a1 62 02 a1 62 02', bounds)).toBeDefined();
    expect(read('83 a1 61 01 a1 62 02 a1 63 03', bounds)).toBeUndefined();
  });

  it('property: within narrow bounds it takes what a plain reader that counts takes', () => {
    const bounds = { depthMax: 3, valuesMax: 12, membersMax: 3 };
    const taken = { yes: 0, no: 0 };
    fc.assert(
      fc.property(anyValue, choices, (value, choose) => {
        const bytes = packedLoosely(value, choose);
        const expected = readPlainly(bytes, bounds);
        expect(readMessagePack(bytes, bounds)).toEqual(expected);
        taken[expected === undefined ? 'no' : 'yes']++;
      }),
      { numRuns: share(4000) },
    );
    expect(Math.min(taken.yes, taken.no)).toBeGreaterThan(0);
  });
});

describe('MessagePack: what is written', () => {
  it.each([
    [null, 'c0'],
    [true, 'c3'],
    [127, '7f'],
    [128, 'cc80'],
    [255, 'ccff'],
    [256, 'cd0100'],
    [65_536, 'ce00010000'],
    [2 ** 32 - 1, 'ceffffffff'],
    [2 ** 32, 'cf0000000100000000'],
    [Number.MAX_SAFE_INTEGER, 'cf001fffffffffffff'],
    ['', 'a0'],
    ['é', 'a2c3a9'],
    ['a'.repeat(31), `bf${'61'.repeat(31)}`],
    ['a'.repeat(32), `d920${'61'.repeat(32)}`],
    ['é'.repeat(128), `da0100${'c3a9'.repeat(128)}`],
    [Buffer.alloc(0), 'c400'],
    [Buffer.alloc(256, 0xff), `c50100${'ff'.repeat(256)}`],
    [Array.from({ length: 15 }, () => 0), `9f${'00'.repeat(15)}`],
    [Array.from({ length: 16 }, () => 0), `dc0010${'00'.repeat(16)}`],
    [{}, '80'],
    [{ b: 1, left_out: undefined, a: 2 }, '82a16201a16102'],
  ])('value %#', (value, hex) => {
    expect(packedBytes(value).toString('hex')).toBe(hex);
  });

  it.each([-1, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER + 1])('refuses the number %d', (value) => {
    expect(() => packed(value)).toThrow(RangeError);
  });

  it('property: in no form is it shorter, and another reader of MessagePack reads it', () => {
    const other = new Packr({ useRecords: false, int64AsType: 'number' });
    const nonNegative = anyValue.filter((value) => !/-\d/.test(JSON.stringify(value)));
    fc.assert(
      fc.property(nonNegative, choices, (value, choose) => {
        const bytes = packedBytes(value);
        expect(readMessagePack(bytes, WIDE)).toEqual(value);
        expect(bytes.length).toBeLessThanOrEqual(packedLoosely(value, choose).length);
        // It renames this one.
        expect(bytes.includes('__proto__') ? value : other.unpack(bytes)).toEqual(value);
      }),
      { numRuns: share(4000) },
    );
  });
});

const KEY = Buffer.alloc(32, 7);
const ITEM = { kind: 'envelope', item_id: 'm1', targets: [{ host_pubkey: KEY, wire: Buffer.from('{"a":1}') }] };

const text = (one: string): string => Buffer.from(one).toString('hex');
const pushOf = (count: number): Buffer => packedBytes({ items: Array.from({ length: count }, () => ITEM) });

/** Maps of the general way have no prototype. */
function isReadInOnePass(bytes: Buffer): boolean {
  return Object.getPrototypeOf(readPush(bytes)) === Object.prototype;
}

const scalar = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('envelope', 'receipt', 'm1', 'é') },
  { weight: 8, arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)) },
  fc.constantFrom<Packable>(null, 5, true, [], {}, [{ wire: 1 }]),
);
const target = fc.record({ host_pubkey: scalar, wire: scalar });
const item = fc.record({ kind: scalar, item_id: scalar, targets: fc.array(target, { maxLength: 20 }) });
const others: fc.Arbitrary<Packable> = fc.oneof(
  scalar,
  fc.record({ item_id: scalar, kind: scalar, targets: fc.array(target) }),
  fc.record({ kind: scalar, item_id: scalar, targets: scalar }),
  fc.record({ kind: scalar, item_id: scalar, targets: fc.array(fc.record({ wire: scalar, host_pubkey: scalar })) }),
  fc.record({ kind: scalar, item_id: scalar, targets: fc.array(target), note: scalar }),
);
const usual = fc.record({ items: fc.array(item, { maxLength: 20 }) });
const push = fc.oneof(
  usual,
  fc.record({ items: fc.array(fc.oneof(item, others)) }),
  fc.record({ items: others }),
  others,
);

describe('a push in the binary form', () => {
  it('of one item is these bytes', () => {
    const wire = Buffer.alloc(1024, 0xee);
    const id = '01KAW3B2C4D5E6F7G8H9J0K1M2';
    const body = packedBytes({
      items: [{ kind: 'envelope', item_id: id, targets: [{ host_pubkey: KEY, wire }] }],
    });
    const members = `83a4${text('kind')}a8${text('envelope')}a7${text('item_id')}ba${text(id)}a7${text('targets')}`;
    const target = `82ab${text('host_pubkey')}c420${KEY.toString('hex')}a4${text('wire')}c50400${wire.toString('hex')}`;
    expect(body.toString('hex')).toBe(`81a5${text('items')}91${members}91${target}`);
    expect(isReadInOnePass(body)).toBe(true);
  });

  it.each([
    ['the order and the shortest forms', packedBytes({ items: [ITEM, ITEM] }), true],
    ['no items', packedBytes({ items: [] }), true],
    ['200 items', pushOf(200), true],
    ['a longer form of a value', packedLoosely({ items: [{ ...ITEM, targets: [] }] }, () => 0), true],
    ['another member beside the items', packedBytes({ items: [ITEM], note: 1 }), false],
    ['another member in an item', packedBytes({ items: [{ ...ITEM, note: 1 }] }), false],
    ['another order in an item', packedBytes({ items: [{ item_id: 'm1', kind: 'envelope', targets: [] }] }), false],
    ['a number for an item', packedBytes({ items: [1] }), false],
  ])('with %s: in one pass %s', (_what, bytes, inOnePass) => {
    expect(readPush(bytes)).toEqual(readPlainly(bytes, REQUEST_JSON_BOUNDS));
    expect(isReadInOnePass(bytes)).toBe(inOnePass);
  });

  it('with a byte behind it is none', () => {
    expect(readPush(Buffer.concat([packedBytes({ items: [ITEM] }), Buffer.from([0xc0])]))).toBeUndefined();
  });

  it('the largest that the limits allow is read in one pass, and one of too many values in none', () => {
    const targets = Array.from({ length: 64 }, () => ({ host_pubkey: KEY, wire: Buffer.alloc(0) }));
    const largest = packedBytes({ items: Array.from({ length: 200 }, () => ({ ...ITEM, targets })) });
    expect(isReadInOnePass(largest)).toBe(true);
    // Two for the map and its array, four for an item and three for a target.
    const itemsMax = Math.floor((REQUEST_JSON_BOUNDS.valuesMax - 2) / 7);
    expect(isReadInOnePass(pushOf(itemsMax))).toBe(true);
    expect(readPush(pushOf(itemsMax + 1))).toBeUndefined();
  });

  it('of too many values of which the last one is a list without elements is none', () => {
    // Two for the map and its array, four for an item and three for the one target.
    const items = (REQUEST_JSON_BOUNDS.valuesMax + 1 - 2 - 3) / 4;
    const others = Array.from({ length: items - 1 }, () => ({ ...ITEM, targets: [] }));
    const first = { ...ITEM, targets: [{ host_pubkey: KEY, wire: Buffer.alloc(0) }] };
    const isRead = (behind: typeof others): boolean =>
      readPush(packedBytes({ items: [first, ...behind] })) !== undefined;
    expect([isRead(others.slice(1)), isRead(others)]).toEqual([true, false]);
  });

  test('property: in one pass or not, it is what a plain reader makes of it', () => {
    const ways = { flat: 0, general: 0 };
    fc.assert(
      fc.property(push, fc.infiniteStream(fc.nat()), fc.boolean(), (value, stream, isShortest) => {
        const choose = (count: number): number => Number(stream.next().value) % count;
        const bytes = isShortest ? packedBytes(value) : packedLoosely(value, choose);
        const expected = readPlainly(bytes, REQUEST_JSON_BOUNDS);
        expect(readPush(bytes)).toEqual(expected);
        if (expected !== null && typeof expected === 'object') ways[isReadInOnePass(bytes) ? 'flat' : 'general']++;
      }),
      { numRuns: share(6000) },
    );
    expect(Math.min(ways.flat, ways.general)).toBeGreaterThan(0);
  });

  test('property: cut or altered, it is what a plain reader makes of it', () => {
    fc.assert(
      fc.property(
        usual,
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 2 }),
        fc.nat(),
        (value, changes, cut) => {
          const bytes = packedBytes(value);
          for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
          const left = changes.length === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
          expect(readPush(left)).toEqual(readPlainly(left, REQUEST_JSON_BOUNDS));
        },
      ),
      { numRuns: share(6000) },
    );
  });
});

describe('a page in the binary form', () => {
  const PULLED = {
    seq: 1_763_675_312_000,
    kind: 'envelope',
    itemId: 'm1' as ItemId,
    senderPubkey: publicKeyFromBytes(KEY),
  } as const;

  test('the frame of an item is its length, and one map with the members in this order', () => {
    for (const length of [0, 255, 256, 65_536]) {
      const wire = Buffer.alloc(length, 1);
      const frame = Buffer.concat([Buffer.from(pulledFrameHead(PULLED, length), 'latin1'), wire]);
      const { seq, kind, itemId, senderPubkey } = PULLED;
      const sender_pubkey = Buffer.from(senderPubkey, 'base64');
      const map = packedBytes({ seq, kind, item_id: itemId, sender_pubkey, wire });
      expect(frame.readUInt32BE(0)).toBe(map.length);
      expect(frame.subarray(4).equals(map)).toBe(true);
    }
  });

  test('a frame has at most 1 KiB more than the wire bytes in it', () => {
    const longest = { ...PULLED, kind: 'receipt', itemId: 'a'.repeat(320) as ItemId, seq: 2 ** 53 - 1 } as const;
    expect(pulledFrameHead(longest, 2 ** 19).length).toBeLessThan(1024);
  });

  test('of a page that is cut anywhere, the frames before the cut are whole', () => {
    const maps = [{ epoch: 'e', head_seq: 2 }, { seq: 1 }, {}, { last_seq: 2, more: false }].map(packedBytes);
    const page = Buffer.concat(maps.flatMap((map) => [Buffer.from([0, 0, 0, map.length]), map]));
    expect(framesIn(page, 10)).toEqual(maps);
    expect(framesIn(page, 2)).toEqual(maps.slice(0, 2));
    for (let length = 0; length < page.length; length++) {
      const frames = framesIn(page.subarray(0, length), 10);
      const ends = maps.map((_, at) => maps.slice(0, at + 1).reduce((sum, map) => sum + 4 + map.length, 0));
      expect(frames).toEqual(maps.slice(0, ends.filter((end) => end <= length).length));
    }
  });

  test('a frame that says it is longer than the page is none', () => {
    expect(framesIn(Buffer.from('ffffffffc0', 'hex'), 10)).toEqual([]);
    expect(framesIn(Buffer.from('00000000', 'hex'), 10)).toEqual([Buffer.alloc(0)]);
  });
});
