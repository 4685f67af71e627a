/** The budget of bytes held at once: what it refuses, what it cuts, and what it leaves alone. */
import { expect, test } from 'vitest';
import { Budget, type BudgetOptions, type Claim, type Holder, SLOW_AFTER_MS } from '../../../src/http/budget.ts';

const MINUTE_MS = 60_000;

/** A budget over a clock that stands still, whose claims say by name that they were cut. */
function budgetWith(options: Omit<BudgetOptions, 'monotonicMs'>) {
  const clock = { nowMs: 0 };
  const cut: string[] = [];
  const budget = new Budget({ ...options, monotonicMs: () => clock.nowMs });
  const claim = (
    name: string,
    { bytes = 0, expectedBytes = bytes, holders = [] }: { bytes?: number; expectedBytes?: number; holders?: Holder[] },
  ): Claim | undefined =>
    budget.claim({ bytes, expectedBytes, holders, deadlineMs: MINUTE_MS, cut: () => void cut.push(name) });
  return { clock, cut, claim };
}

const account = (name: string): Holder => ({ kind: 'account', name });
const address = (name: string): Holder => ({ kind: 'address', name });
const key = (name: string, bytesMax?: number): Holder => ({ kind: 'key', name, ...(bytesMax && { bytesMax }) });

test('while nothing is slow the newcomer is refused, and nothing is cut', () => {
  const { claim, cut } = budgetWith({ bytesMax: 10 });
  expect(claim('a', { bytes: 6 })).toBeDefined();
  expect(claim('b', { bytes: 4 })).toBeDefined();
  expect(claim('c', { bytes: 1 })).toBeUndefined();
  expect(cut).toEqual([]);
});

test('the claim that moved least goes first, and only as many go as are needed', () => {
  const { claim, cut, clock } = budgetWith({ bytesMax: 100_000 });
  const [a, b, c] = ['a', 'b', 'c'].map((name) => claim(name, { bytes: 33_000 }));
  clock.nowMs += SLOW_AFTER_MS;
  a?.moved(9_000);
  b?.moved(1_000);
  c?.moved(100_000);
  clock.nowMs += 1_000;
  expect(claim('d', { bytes: 30_000 })).toBeDefined();
  expect(cut).toEqual(['b']);
  expect(claim('e', { bytes: 30_000 })).toBeDefined();
  expect(cut).toEqual(['b', 'a']);
  expect(claim('f', { bytes: 30_000 })).toBeUndefined();
  expect(cut).toEqual(['b', 'a']);
});

test('a claim is slow only when it was for some seconds, and is again when it stalls after it was fast', () => {
  const { claim, clock } = budgetWith({ bytesMax: 10 });
  const one = claim('one', {});
  clock.nowMs += SLOW_AFTER_MS - 1;
  expect(one?.isSlow).toBe(false);
  clock.nowMs += 1;
  expect(one?.isSlow).toBe(true);
  one?.moved(1_000_000);
  expect(one?.isSlow).toBe(false);
  clock.nowMs += SLOW_AFTER_MS - 1_001;
  expect(one?.isSlow).toBe(false);
  // What it took before does not count for ever: sockets swallow megabytes at once.
  clock.nowMs += 1_001;
  expect(one?.isSlow).toBe(true);
  one?.moved(20_000);
  clock.nowMs += 1_000;
  one?.moved(480);
  expect(one?.isSlow).toBe(false);
});

test('one that could not be done in time at its speed is slow, however fast a small one would be', () => {
  const { claim, clock } = budgetWith({ bytesMax: 10 });
  const large = claim('large', { expectedBytes: 8 << 20 });
  const small = claim('small', { expectedBytes: 100_000 });
  clock.nowMs += SLOW_AFTER_MS;
  // 20 KB a second; 8 MiB in a minute are 140.
  large?.moved(100_000);
  small?.moved(100_000);
  expect([large?.isSlow, small?.isSlow]).toEqual([true, false]);
});

test('one whose peer is done is not cut, however long we take', () => {
  const { claim, cut, clock } = budgetWith({ bytesMax: 10 });
  claim('done', { bytes: 10, holders: [address('a')] })?.peerDone();
  clock.nowMs += MINUTE_MS;
  expect(claim('next', { bytes: 1, holders: [address('b')] })).toBeUndefined();
  expect(cut).toEqual([]);
});

test('many keys at one address win nothing: the address with most gives way, also when none of it is slow', () => {
  const { claim, cut } = budgetWith({ bytesMax: 100 });
  for (let n = 1; n <= 5; n++) claim(`many ${n}`, { bytes: 20, holders: [key(`k${n}`), address('many')] })?.moved(n);
  expect(claim('own', { bytes: 10, holders: [key('k6'), address('many')] })).toBeUndefined();
  expect(claim('other', { bytes: 20, holders: [key('k7'), address('other')] })).toBeDefined();
  expect(cut).toEqual(['many 1']);
});

test('neither do many addresses of one account', () => {
  const { claim, cut } = budgetWith({ bytesMax: 100 });
  for (let n = 1; n <= 5; n++) claim(`many ${n}`, { bytes: 20, holders: [account('x'), address(`a${n}`)] });
  expect(claim('other', { bytes: 20, holders: [account('y'), address('a6')] })).toBeDefined();
  expect(cut).toEqual(['many 1']);
});

test('holders with one claim each do not push each other out', () => {
  const { claim, cut } = budgetWith({ bytesMax: 100 });
  for (let n = 1; n <= 5; n++) claim(`one ${n}`, { bytes: 20, holders: [address(`a${n}`)] });
  const late = claim('late', { holders: [address('late')], expectedBytes: 20 });
  expect(late?.grow(1)).toBe(false);
  expect(cut).toEqual([]);
});

test('one host has a share that it never exceeds, also while there is room', () => {
  const { claim, cut } = budgetWith({ bytesMax: 100 });
  expect(claim('a', { bytes: 20, holders: [key('k', 30)] })).toBeDefined();
  expect(claim('b', { bytes: 20, holders: [key('k', 30)] })).toBeUndefined();
  expect(claim('c', { bytes: 20, holders: [key('other', 30)] })).toBeDefined();
  expect(cut).toEqual([]);
});

test('small claims have room of their own', () => {
  const { claim } = budgetWith({ bytesMax: 100, small: { bytesMax: 10, claimBytesMax: 5 } });
  expect(claim('large', { bytes: 100 })).toBeDefined();
  expect(claim('large too', { bytes: 6 })).toBeUndefined();
  expect(claim('small', { bytes: 5 })).toBeDefined();
  // By what it will be, not by what it is.
  const growing = claim('growing', { expectedBytes: 6 });
  expect(growing?.grow(1)).toBe(false);
  expect(claim('small too', { bytes: 5 })).toBeDefined();
  expect(claim('one small too many', { bytes: 1 })).toBeUndefined();
});

test('what is cut or released gives back everything once, and takes nothing afterwards', () => {
  const { claim, cut, clock } = budgetWith({ bytesMax: 10 });
  const first = claim('first', { bytes: 10 });
  clock.nowMs += SLOW_AFTER_MS;
  const second = claim('second', { bytes: 10 });
  expect(cut).toEqual(['first']);
  first?.release();
  expect(first?.grow(1)).toBe(false);
  expect(claim('third', { bytes: 1 })).toBeUndefined();
  second?.release();
  second?.release();
  expect(claim('fourth', { bytes: 10 })).toBeDefined();
});

test('more than all of it is refused without cutting anything for it', () => {
  const { claim, cut, clock } = budgetWith({ bytesMax: 10 });
  claim('there', { bytes: 5 });
  clock.nowMs += SLOW_AFTER_MS;
  expect(claim('too large', { bytes: 11 })).toBeUndefined();
  expect(cut).toEqual([]);
});

test('where thousands stall, making room looks at each of them about once, and cuts none that holds nothing', () => {
  let nowMs = 0;
  let looks = 0;
  const cut: number[] = [];
  const budget = new Budget({
    bytesMax: 4_000,
    monotonicMs: () => {
      looks++;
      return nowMs;
    },
  });
  const stalled = (bytes: number): Claim | undefined =>
    budget.claim({ bytes, expectedBytes: 1, holders: [], deadlineMs: MINUTE_MS, cut: () => void cut.push(bytes) });
  for (let number = 0; number < 2_000; number++) {
    stalled(0);
    stalled(2);
  }
  nowMs += SLOW_AFTER_MS;
  looks = 0;
  expect(stalled(1_000)).toBeDefined();
  expect(cut).toEqual(Array.from({ length: 500 }, () => 2));
  expect(looks).toBeLessThan(20 * 4_000);
});

test('a full share makes room too: a slow claim of its holder goes, and nobody else’s', () => {
  const { claim, cut, clock } = budgetWith({ bytesMax: 1_000_000 });
  claim('other', { bytes: 50_000, holders: [key('other', 60_000)] });
  const stalled = claim('stalled', { bytes: 50_000, holders: [key('own', 60_000)] });
  const goesOn = (name: string): Claim | undefined => claim(name, { bytes: 20_000, holders: [key('own', 60_000)] });
  expect(goesOn('too early')).toBeUndefined();
  clock.nowMs += SLOW_AFTER_MS;
  expect(goesOn('next')).toBeDefined();
  expect(cut).toEqual(['stalled']);
  expect(stalled?.grow(1)).toBe(false);
});
