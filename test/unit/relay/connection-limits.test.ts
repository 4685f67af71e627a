/** Tests how many connections a relay holds, by how many files its process may open. */
import { describe, expect, test } from 'vitest';
import {
  TooFewFiles,
  connectionLimits,
  hostConnections,
  openFilesMax,
} from '../../../src/relay/serve/connection-limits.ts';

test.each([
  // files, all connections, of one address
  [512, 114, 114],
  [1_024, 422, 256],
  [4_096, 2_265, 566],
  [20_000, 14_058, 1_024],
  [65_536, 32_768, 1_024],
  [Infinity, 32_768, 1_024],
])('of %i files, %i are for connections, and %i for those of one address', (files, max, perAddressMax) => {
  expect(connectionLimits({}, files).limits).toEqual({ max, perAddressMax });
});

test('files are left for the store and the operator, whatever is asked for', () => {
  expect(connectionLimits({ max: 64_280 }, 65_536).limits.max).toBe(64_280);
  expect(() => connectionLimits({ max: 64_281 }, 65_536)).toThrow(TooFewFiles);
  expect(() => connectionLimits({ max: 64_281 }, 65_536)).toThrow('--max-connections says 64281');
});

test('few are told of, and too few refused', () => {
  expect(connectionLimits({}, 65_536).notices).toEqual([]);
  expect(connectionLimits({ max: 20 }, 1_024).notices).toEqual([]);
  expect(connectionLimits({}, 1_024).notices.join()).toContain('At most 422 connections');
  expect(connectionLimits({}, 430).limits.max).toBe(66);
  expect(() => connectionLimits({}, 400)).toThrow(/may open 400 files, .*\(LimitNOFILE=/);
});

test('what is asked for counts', () => {
  expect(connectionLimits({ max: 100, perAddressMax: 10 }, 65_536).limits).toEqual({ max: 100, perAddressMax: 10 });
  expect(connectionLimits({ max: 100, perAddressMax: 1_000 }, 65_536).limits.perAddressMax).toBe(100);
});

test('the system says how many files may be open', () => {
  expect(openFilesMax()).toBeGreaterThan(100);
});

describe('a flood', () => {
  test('is told of once a minute', () => {
    let nowMs = 0;
    const told: object[] = [];
    const counted: string[] = [];
    const connections = hostConnections({
      limits: { max: 2, perAddressMax: 2 },
      trustProxy: 'none',
      monotonicMs: () => nowMs,
      displaced: (why) => void counted.push(why),
      flooded: (flood) => void told.push(flood),
    });
    for (let n = 0; n < 5; n++) connections.opened('10.0.0.1', () => undefined);
    expect(told).toEqual([{ why: 'all', open: 2, max: 2, perAddressMax: 2 }]);
    nowMs = 60_000;
    connections.opened('10.0.0.2', () => undefined);
    expect(told).toHaveLength(2);
    expect(counted).toHaveLength(4);
  });
});
