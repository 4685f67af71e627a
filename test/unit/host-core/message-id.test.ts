import { expect, test } from 'vitest';
import { messageIdFrom } from '../../../src/host/core/message-id.ts';
import { parseMessageId } from '../../../src/protocol/names.ts';

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
