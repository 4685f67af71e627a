import { expect, test } from 'vitest';
import { messageIdFrom, messageIdTimeMs } from '../../../../src/host/core/message-id.ts';
import { parseMessageId } from '../../../../src/protocol/names.ts';

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

test('an id tells when its message was sent, and one of another kind tells nothing', () => {
  for (const nowMs of [0, 1_763_675_303_000, 2 ** 48 - 1]) {
    expect(messageIdTimeMs(messageIdFrom(nowMs, Buffer.alloc(10, 0xff)))).toBe(nowMs);
  }
  expect(messageIdTimeMs('of-another-program')).toBeUndefined();
});
