import { expect, test } from 'vitest';
import { acceptedSenders } from '../../../../src/host/core/peer-keys.ts';
import {
  BATCH_SIZE_MAX,
  BATCH_SIZE_MIN,
  SLOW_MS,
  batchOf,
  batchSizeAfter,
} from '../../../../src/host/relay/push-batch.ts';
import { parseRelayUrl } from '../../../../src/host/relay/relay-input.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';

test.each([
  ['https://relay.example', 'https://relay.example'],
  ['https://relay.example/mail/', 'https://relay.example/mail'],
  ['HTTPS://Relay.Example:8443', 'https://relay.example:8443'],
  ['http://127.0.0.1:8787', 'http://127.0.0.1:8787'],
  ['http://localhost:8787/', 'http://localhost:8787'],
  ['http://[::1]:8787', 'http://[::1]:8787'],
  ['https://relay.example/mail//', 'https://relay.example/mail'],
  [`https://relay.example/${'a'.repeat(1978)}`, `https://relay.example/${'a'.repeat(1978)}`],
])('%s is the address of a relay', (text, url) => {
  expect(parseRelayUrl(text)).toEqual({ url });
});

test.each([
  ['relay.example', 'that is no address'],
  ['http://relay.example', 'https'],
  ['http://127.0.0.1.evil.example', 'https'],
  ['ftp://relay.example', 'https'],
  ['https://me:secret@relay.example', 'no user'],
  ['https://me@relay.example', 'no user'],
  ['https://:secret@relay.example', 'no password'],
  ['ftp://127.0.0.1', 'https'],
  ['https://relay.example/?a=1', 'no query'],
  ['https://relay.example/#a', 'no fragment'],
  [`https://relay.example/${'a'.repeat(2000)}`, 'too long'],
])('%s is none, and it is said why', (text, why) => {
  const parsed = parseRelayUrl(text);
  expect('fault' in parsed && parsed.fault).toContain(why);
});

test('batches get smaller after a failure or a slow answer, and larger again after quick ones', () => {
  const failed = batchSizeAfter(BATCH_SIZE_MAX, Infinity);
  expect(failed).toEqual({ items: 100, bytes: BATCH_SIZE_MAX.bytes / 2 });
  expect(batchSizeAfter(BATCH_SIZE_MAX, SLOW_MS + 1)).toEqual(failed);
  expect(batchSizeAfter(failed, SLOW_MS)).toEqual(BATCH_SIZE_MAX);
  let size = BATCH_SIZE_MAX;
  for (let at = 0; at < 20; at++) size = batchSizeAfter(size, Infinity);
  expect(size).toEqual(BATCH_SIZE_MIN);
  for (let at = 0; at < 20; at++) size = batchSizeAfter(size, 0);
  expect(size).toEqual(BATCH_SIZE_MAX);
});

test('a batch holds one row at least, and never more than the relay takes', () => {
  expect(batchOf([], BATCH_SIZE_MAX, 200)).toBe(0);
  expect(batchOf(rows(3, 1 << 30), BATCH_SIZE_MIN, 200)).toBe(1);
  expect(batchOf(rows(500, 10), BATCH_SIZE_MAX, 50)).toBe(50);
  expect(batchOf(rows(500, 10), BATCH_SIZE_MAX, 1000)).toBe(BATCH_SIZE_MAX.items);
  expect(batchOf(rows(10, 100), { items: 10, bytes: 350 }, 200)).toBe(3);
  expect(batchOf(rows(10, 100), { items: 10, bytes: 300 }, 200)).toBe(3);
  expect(batchOf(rows(10, 100), { items: 10, bytes: 299 }, 200)).toBe(2);
});

test('senders are the keys that paired hosts have now, and none that one of them gave up', () => {
  expect(acceptedSenders([])).toEqual([]);
  expect(acceptedSenders([peer('b', 300), peer('a', 0), peer('gone', 3, 5)])).toEqual(['a', 'b']);
});

function rows(count: number, wireBytes: number): { wireBytes: number }[] {
  return Array.from({ length: count }, () => ({ wireBytes }));
}

function peer(
  name: string,
  retired: number,
  unpairedAtMs: number | null = null,
): Parameters<typeof acceptedSenders>[0][0] {
  const former = Array.from({ length: retired }, (_none, at) => {
    return { publicKey: `${name}-${at}` as PublicKey, pinnedAtMs: 0, retiredAtMs: at + 1 };
  });
  return { unpairedAtMs, keys: [...former, { publicKey: name as PublicKey, pinnedAtMs: 0, retiredAtMs: null }] };
}
