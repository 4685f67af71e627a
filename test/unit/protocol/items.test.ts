import { hash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ItemBounds,
  itemIdToEcho,
  parsePushedItem as parseBounded,
  PUSHED_KINDS,
  type PushedItem,
} from '../../../src/protocol/items.ts';
import { isObject } from '../../../src/protocol/json.ts';
import { inBinary } from '../../support/binary-form.ts';

const BOUNDS: ItemBounds = { targetsMax: 64, itemBytesMax: 524_288 };

/** Parses it in both forms, which give the same. */
function parsePushedItem(value: unknown): PushedItem | undefined {
  const item = parseBounded(value, BOUNDS);
  expect(parseBounded(inBinary(value), BOUNDS, true)).toEqual(item);
  return item;
}

const KEY = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';
const OTHER_KEY = 'PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=';
const TARGET = { host_pubkey: KEY, wire_b64: 'eyJhIjoxfQ==' };
const ENVELOPE = { kind: 'envelope', item_id: 'm1', targets: [TARGET] };
const RECEIPT = { kind: 'receipt', item_id: 'receipt:m1:agent@host:3', targets: [TARGET] };

function withTarget(changes: object): object {
  return { ...ENVELOPE, targets: [{ ...TARGET, ...changes }] };
}

/** `object` without one member. */
function without(object: object, name: string): object {
  return Object.fromEntries(Object.entries(object).filter(([member]) => member !== name));
}

describe('pushed items: from unknown JSON to typed values', () => {
  it('an envelope: the exact bytes and their hash', () => {
    expect(parsePushedItem(ENVELOPE)).toEqual({
      kind: 'envelope',
      itemId: 'm1',
      targets: [
        {
          hostPubkey: KEY,
          wire: Buffer.from('{"a":1}'),
          wireHash: '015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862',
          bytes: 7,
        },
      ],
    });
  });

  it('a receipt is named by a receipt id, an envelope by a message id', () => {
    expect(parsePushedItem(RECEIPT)).toMatchObject({ kind: 'receipt', itemId: 'receipt:m1:agent@host:3' });
    expect(parsePushedItem({ ...RECEIPT, item_id: 'm1' })).toBeUndefined();
    expect(parsePushedItem({ ...ENVELOPE, item_id: 'receipt:m1:agent@host:3' })).toBeUndefined();
  });

  it('of too many targets and of too many bytes no more is looked at than says so', () => {
    const targets = Array.from({ length: 500 }, () => TARGET);
    expect(parseBounded({ ...ENVELOPE, targets }, { ...BOUNDS, targetsMax: 3 })?.targets).toHaveLength(4);
    const tight = { ...BOUNDS, itemBytesMax: 4 };
    const [large] = parseBounded(ENVELOPE, tight)?.targets ?? [];
    expect(large?.bytes).toBeGreaterThan(4);
    expect(large?.wire).toHaveLength(0);
    expect(parseBounded(ENVELOPE, { ...BOUNDS, itemBytesMax: 7 })?.targets[0]?.wire).toHaveLength(7);
    const [inBytes] = parseBounded(inBinary(ENVELOPE), { ...BOUNDS, itemBytesMax: 6 }, true)?.targets ?? [];
    expect(inBytes).toMatchObject({ bytes: 7, wire: Buffer.alloc(0) });
  });

  it('keeps the targets in order, the same one twice included: `duplicate target` is decided later', () => {
    const targets = [{ ...TARGET, host_pubkey: OTHER_KEY }, TARGET, TARGET];
    expect(parsePushedItem({ ...ENVELOPE, targets })?.targets.map(({ hostPubkey }) => hostPubkey)).toEqual([
      OTHER_KEY,
      KEY,
      KEY,
    ]);
  });

  it('ignores members it does not know', () => {
    const item = { ...ENVELOPE, note: 1, targets: [{ ...TARGET, seq: 7 }] };
    expect(parsePushedItem(item)).toEqual(parsePushedItem(ENVELOPE));
  });

  it('takes no bytes for bytes: that they are not sealed is decided later', () => {
    expect(parsePushedItem(withTarget({ wire_b64: '' }))?.targets[0]).toMatchObject({
      wire: Buffer.alloc(0),
      wireHash: hash('sha256', '', 'hex'),
    });
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'envelope'],
    ['a number', 1],
    ['a list', [ENVELOPE]],
    ['an empty object', {}],
    ['no kind', without(ENVELOPE, 'kind')],
    ['no item_id', without(ENVELOPE, 'item_id')],
    ['no targets', without(ENVELOPE, 'targets')],
    ['the kind that only the relay makes', { ...ENVELOPE, kind: 'expired' }],
    ['an unknown kind', { ...ENVELOPE, kind: 'Envelope' }],
    ['a kind that every object has', { ...ENVELOPE, kind: 'constructor' }],
    ['a kind in a list', { ...ENVELOPE, kind: ['envelope'] }],
    ['an item_id that is a number', { ...ENVELOPE, item_id: 1 }],
    ['an item_id that is null', { ...ENVELOPE, item_id: null }],
    ['an empty item_id', { ...ENVELOPE, item_id: '' }],
    ['an item_id with a colon', { ...ENVELOPE, item_id: 'a:b' }],
    ['an item_id with a space', { ...ENVELOPE, item_id: 'a b' }],
    ['an item_id that ends in a newline', { ...ENVELOPE, item_id: 'x\n' }],
    ['an item_id of 129 characters', { ...ENVELOPE, item_id: 'a'.repeat(129) }],
    ['an item_id with a lone surrogate', { ...ENVELOPE, item_id: 'a\ud800' }],
    ['a receipt of a malformed id', { ...RECEIPT, item_id: 'receipt:m1:agent:3' }],
    ['targets that are no list', { ...ENVELOPE, targets: TARGET }],
    ['targets that look like a list', { ...ENVELOPE, targets: { 0: TARGET, length: 1 } }],
    ['no target', { ...ENVELOPE, targets: [] }],
    ['a target that is null', { ...ENVELOPE, targets: [null] }],
    ['a target that is a key', { ...ENVELOPE, targets: [KEY] }],
    ['a target that is a list', { ...ENVELOPE, targets: [[KEY, 'QQ==']] }],
    ['one bad target among good ones', { ...ENVELOPE, targets: [TARGET, TARGET, {}] }],
    ['a target without a key', { ...ENVELOPE, targets: [without(TARGET, 'host_pubkey')] }],
    ['a target without bytes', { ...ENVELOPE, targets: [without(TARGET, 'wire_b64')] }],
    ['a key of 31 bytes', withTarget({ host_pubkey: Buffer.alloc(31).toString('base64') })],
    ['a key of 33 bytes', withTarget({ host_pubkey: Buffer.alloc(33).toString('base64') })],
    ['a key in url-safe letters', withTarget({ host_pubkey: KEY.replace('/', '_') })],
    ['a key that is null', withTarget({ host_pubkey: null })],
    ['bytes that are a number', withTarget({ wire_b64: 1 })],
    ['bytes that are a list', withTarget({ wire_b64: ['QQ=='] })],
    ['bytes that are null', withTarget({ wire_b64: null })],
    ['set bits behind the end', withTarget({ wire_b64: 'QR==' })],
    ['garbage behind the padding', withTarget({ wire_b64: 'QQ==garbage' })],
    ['missing padding', withTarget({ wire_b64: 'QQ' })],
    ['too much padding', withTarget({ wire_b64: 'QUI==' })],
    ['a line break behind the bytes', withTarget({ wire_b64: 'QUFB\n' })],
    ['letters beyond ASCII', withTarget({ wire_b64: 'éééé' })],
    ['a space', withTarget({ wire_b64: 'QUJD QUJ' })],
    ['url-safe bytes', withTarget({ wire_b64: '-_-_' })],
  ])('malformed: %s', (_why, item) => {
    expect(parsePushedItem(item)).toBeUndefined();
  });

  it('in the binary form neither a text nor base64 stands for bytes, and in JSON no bytes for a text', () => {
    const target = { host_pubkey: Buffer.from(KEY, 'base64'), wire: Buffer.from('{}') };
    const parse = (changes: object, isBinary = true): unknown =>
      parseBounded({ ...ENVELOPE, targets: [{ ...target, ...changes }] }, BOUNDS, isBinary);
    expect(parse({})).toMatchObject({ targets: [{ hostPubkey: KEY, bytes: 2 }] });
    expect(parse({ host_pubkey: KEY })).toBeUndefined();
    expect(parse({ wire: 'e30=' })).toBeUndefined();
    expect(parse({ wire: undefined, wire_b64: 'e30=' })).toBeUndefined();
    expect(parse({}, false)).toBeUndefined();
    expect(parseBounded(ENVELOPE, BOUNDS, true)).toBeUndefined();
  });

  it('own members count, and not what a member called __proto__ would lend', () => {
    const item: unknown = JSON.parse(`{"__proto__":${JSON.stringify(ENVELOPE)}}`);
    expect(parsePushedItem(item)).toBeUndefined();
  });

  it('property: whatever it is, it is parsed or malformed, and never a throw', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('kind', 'item_id', 'targets', 'host_pubkey', 'wire_b64'),
        (value, name) => {
          const changed =
            name === 'host_pubkey' || name === 'wire_b64'
              ? withTarget({ [name]: value })
              : { ...ENVELOPE, [name]: value };
          expect([undefined, 'envelope']).toContain(parsePushedItem(changed)?.kind);
          expect(parsePushedItem(value)).toBeUndefined();
        },
      ),
      { numRuns: 300 },
    );
  });

  it('property: the bytes are those that were encoded, hashed as they are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const target = parsePushedItem(withTarget({ wire_b64: Buffer.from(bytes).toString('base64') }))?.targets[0];
        expect(target?.wire).toEqual(Buffer.from(bytes));
        expect(target?.wireHash).toBe(hash('sha256', bytes, 'hex'));
      }),
    );
  });

  it('the kinds that are stored do not change', () => {
    expect(PUSHED_KINDS).toEqual(['envelope', 'receipt']);
  });
});

describe('the item_id to answer with', () => {
  it.each([
    ['a good one', ENVELOPE, 'm1'],
    ['one that is no id', { item_id: 'a b:\u00e9' }, 'a b:\u00e9'],
    ['an empty one', { item_id: '' }, ''],
    ['one of 320 characters', { item_id: 'a'.repeat(320) }, 'a'.repeat(320)],
    ['one of 321 characters', { item_id: 'a'.repeat(321) }, null],
    ['one that JSON in UTF-8 cannot carry', { item_id: 'a\ud800' }, null],
    ['a number', { item_id: 1 }, null],
    ['none', {}, null],
    ['of no object', 'm1', null],
    ['of null', null, null],
    ['of a list', [ENVELOPE], null],
  ])('%s', (_what, item, echoed) => {
    expect(itemIdToEcho(item)).toBe(echoed);
  });
});

describe('JSON objects', () => {
  it.each([
    [{}, true],
    [{ a: 1 }, true],
    [[], false],
    [null, false],
    ['a', false],
    [1, false],
    [undefined, false],
  ])('%j: %s', (value, expected) => {
    expect(isObject(value)).toBe(expected);
  });
});
