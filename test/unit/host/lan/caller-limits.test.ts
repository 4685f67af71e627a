import { expect, test } from 'vitest';
import {
  ADDRESS_BYTES_MAX,
  BODY_BYTES_MAX,
  CallerLimits,
  STRANGER_BYTES_MAX,
  STRANGER_REQUESTS_PER_MINUTE,
} from '../../../../src/host/lan/caller-limits.ts';

function limitsAt(clock = { nowMs: 0 }): CallerLimits {
  return new CallerLimits(() => clock.nowMs);
}

test('bodies of everybody, of strangers and of one address have their bounds, and room comes back', () => {
  const limits = limitsAt();
  const release = limits.hold('10.0.0.1', ADDRESS_BYTES_MAX, false);
  expect(release).toBeDefined();
  expect(limits.hold('10.0.0.1', 1, false)).toBeUndefined();
  expect(limits.hold('::ffff:10.0.0.1', 1, false)).toBeUndefined();
  expect(limits.hold('10.0.0.2', STRANGER_BYTES_MAX, true)).toBeDefined();
  expect(limits.hold('10.0.0.3', 1, true)).toBeUndefined();
  const others = BODY_BYTES_MAX / ADDRESS_BYTES_MAX - 2;
  for (let at = 0; at < others; at++) expect(limits.hold(`10.0.1.${at}`, ADDRESS_BYTES_MAX, false)).toBeDefined();
  expect(limits.hold('10.0.0.4', 1, false)).toBeUndefined();
  release?.();
  expect(limits.hold('10.0.0.4', 1, false)).toBeDefined();
});

test('strangers of one network share a rate, which begins anew after a minute', () => {
  const clock = { nowMs: 0 };
  const limits = limitsAt(clock);
  for (let at = 0; at < STRANGER_REQUESTS_PER_MINUTE; at++) {
    expect(limits.isStrangerTooOften(`fd00::${at.toString(16)}`)).toBe(false);
  }
  expect(limits.isStrangerTooOften('fd00::ffff')).toBe(true);
  expect(limits.isStrangerTooOften('fd00:0:0:1::1')).toBe(false);
  clock.nowMs = 60_000;
  expect(limits.isStrangerTooOften('fd00::1')).toBe(false);
});

test('a liar is one for a minute', () => {
  const clock = { nowMs: 0 };
  const limits = limitsAt(clock);
  expect(limits.isLiar('10.0.0.1')).toBe(false);
  limits.markLiar('10.0.0.1');
  expect([limits.isLiar('10.0.0.1'), limits.isLiar('10.0.0.2')]).toEqual([true, false]);
  clock.nowMs = 60_000;
  expect(limits.isLiar('10.0.0.1')).toBe(false);
});
