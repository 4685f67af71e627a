import { beforeEach, describe, expect, test } from 'vitest';
import { HOP_LIFE_MAX_MS, HopNonces, NONCES_PER_KEY_MAX, STRANGER_KEYS_MAX } from '../../../../src/host/lan/lan-hop.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';

const START_MS = 1_000_000;
/** The host that this one was paired with since it listens, and before. */
const NEW_MS = START_MS;
const OLD_MS = START_MS - 1;

const clocks = { now: START_MS, monotonic: 0, nowMs: () => clocks.now, monotonicMs: () => clocks.monotonic };
let nonces: HopNonces;
const passes = (ms: number): void => {
  clocks.now += ms;
  clocks.monotonic += ms;
};

beforeEach(() => {
  Object.assign(clocks, { now: START_MS, monotonic: 0 });
  nonces = new HopNonces(clocks);
});

const hop = (nonce: number | string, atMs = clocks.now, key = 'K') => ({
  key: key as PublicKey,
  nonce: `${nonce}`,
  atMs,
});

describe('a hop', () => {
  test('is taken once for each key and nonce', () => {
    expect(nonces.isUsed(hop('a'), NEW_MS)).toBe(false);
    expect(nonces.take(hop('a'), NEW_MS)).toBe(true);
    expect(nonces.isUsed(hop('a'), NEW_MS)).toBe(true);
    expect(nonces.take(hop('a', clocks.now + 1), NEW_MS)).toBe(false);
    expect(nonces.take(hop('b'), NEW_MS)).toBe(true);
    expect(nonces.take(hop('a', clocks.now, 'L'), NEW_MS)).toBe(true);
  });

  test('is remembered as long as any hop is good, whatever the wall clock does', () => {
    const ahead = hop('a', START_MS + 300_000);
    nonces.take(ahead, NEW_MS);
    passes(HOP_LIFE_MAX_MS - 1);
    nonces.take(hop('b'), NEW_MS);
    expect(nonces.take(ahead, NEW_MS)).toBe(false);
    clocks.now -= 3_600_000;
    expect(nonces.take(ahead, NEW_MS)).toBe(false);
  });

  test('is forgotten afterwards: its time does not pass any more', () => {
    const first = hop('a');
    nonces.take(first, NEW_MS);
    passes(HOP_LIFE_MAX_MS);
    nonces.take(hop('b'), NEW_MS);
    expect(nonces.isUsed(first, NEW_MS)).toBe(false);
  });
});

describe('a key that makes more hops than are remembered', () => {
  test('is refused what is as old as what was forgotten, and nothing newer', () => {
    const made = Array.from({ length: NONCES_PER_KEY_MAX + 10 }, (_, at) => hop(at, START_MS + at));
    for (const each of made) expect(nonces.take(each, NEW_MS)).toBe(true);
    for (const each of made) expect(nonces.take(each, NEW_MS)).toBe(false);
    expect(nonces.take(hop('late', START_MS + 9), NEW_MS)).toBe(false);
    expect(nonces.take(hop('new', START_MS + 10), NEW_MS)).toBe(true);
    // Another key is another matter.
    expect(nonces.take(hop('late', START_MS + 9, 'L'), NEW_MS)).toBe(true);
    // What its clock had dated ahead holds nothing up for ever.
    passes(HOP_LIFE_MAX_MS);
    expect(nonces.isUsed(hop('late', START_MS + 9), NEW_MS)).toBe(false);
  });
});

describe('what a host signed before this one began to listen', () => {
  test('is refused when they were paired before: a former run may have taken it', () => {
    expect(nonces.take(hop('a', START_MS), OLD_MS)).toBe(false);
    expect(nonces.isUsed(hop('a', START_MS - 60_000), OLD_MS)).toBe(true);
    expect(nonces.take(hop('a', START_MS + 1), OLD_MS)).toBe(true);
  });

  test('is taken of one that was paired since, and of a stranger', () => {
    expect(nonces.take(hop('a', START_MS - 60_000), NEW_MS)).toBe(true);
    expect(nonces.take(hop('a', START_MS - 60_000, 'L'), null)).toBe(true);
  });

  test('matters no longer than a hop is good, though the clock was wrong at the start', () => {
    clocks.now = START_MS - 3_600_000;
    expect(nonces.take(hop('a'), OLD_MS)).toBe(false);
    passes(HOP_LIFE_MAX_MS);
    expect(nonces.take(hop('a'), OLD_MS)).toBe(true);
  });
});

describe('strangers', () => {
  test('are remembered too, the most recent of them, and never in the place of a paired host', () => {
    nonces.take(hop('mine', clocks.now, 'paired'), NEW_MS);
    for (let at = 0; at <= STRANGER_KEYS_MAX; at++)
      expect(nonces.take(hop('a', clocks.now, `s${at}`), null)).toBe(true);
    expect(nonces.isUsed(hop('a', clocks.now, 's0'), null)).toBe(false);
    expect(nonces.isUsed(hop('a', clocks.now, 's1'), null)).toBe(true);
    expect(nonces.isUsed(hop('mine', clocks.now, 'paired'), NEW_MS)).toBe(true);
    // A stranger that is paired since is remembered for good, and by its former hops.
    expect(nonces.take(hop('b', clocks.now, 's1'), NEW_MS)).toBe(true);
    expect(nonces.take(hop('a', clocks.now, 's1'), NEW_MS)).toBe(false);
  });
});
