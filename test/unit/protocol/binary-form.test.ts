/** The binary form, docs/protocol.md: a push is read in one pass or the general way, and a page is frames. */
import * as fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { framesIn, pulledFrameHead, readPush } from '../../../src/protocol/binary-form.ts';
import { REQUEST_JSON_BOUNDS } from '../../../src/protocol/json.ts';
import { type Packable, packedBytes } from '../../../src/protocol/message-pack.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import { publicKeyFromBytes } from '../../../src/protocol/public-key.ts';
import { packedLoosely, readPlainly } from '../../support/plain-message-pack.ts';
import { share } from '../../support/thorough.ts';

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
