import { describe, expect, it } from 'vitest';
import * as limits from '../../../src/protocol/limits.ts';

describe('limits', () => {
  it('the twelve that `info` reports have the documented values, and there is no thirteenth', () => {
    const documented = {
      max_item_bytes: 512 * 1024,
      max_batch: 200,
      max_pull: 500,
      max_pull_bytes: 8 * 1024 * 1024,
      max_targets: 64,
      retention_days: 14,
      max_queue_items: 10_000,
      max_queue_bytes: 50 * 1024 * 1024,
      max_sender_items: 2_000,
      max_sender_bytes: 20 * 1024 * 1024,
      max_owner_items: 10_000,
      max_owner_bytes: 50 * 1024 * 1024,
    };
    expect(Object.keys(documented)).toHaveLength(12);
    expect(limits.DEFAULT_LIMITS).toStrictEqual(documented);
    expect(JSON.parse(JSON.stringify(limits.DEFAULT_LIMITS))).toStrictEqual(documented);
  });

  it('the fixed ones have the documented values', () => {
    const minuteMs = 60_000;
    expect(limits.SMALL_BODY_BYTES_MAX).toBe(8 * 1024);
    expect(limits.BODY_BYTES_MAX).toBe(8 * 1024 * 1024);
    expect(limits.WAIT_SECONDS_MAX).toBe(30);
    expect(limits.CROWDED_NAME_ENROLMENTS).toBe(16);
    expect(limits.CHALLENGE_LIFETIME_MS).toBe(5 * minuteMs);
    expect(limits.CHALLENGE_BYTES).toBe(32);
    expect(limits.OPEN_CHALLENGES_MAX).toBe(10_000);
    expect(limits.OPEN_CHALLENGES_PER_KEY_AND_ADDRESS).toBe(4);
    expect(limits.HEARTBEAT_EVERY_MS).toBe(30_000);
    expect(limits.HEARTBEAT_STALE_MS).toBe(10 * minuteMs);
    expect(limits.DAY_MS).toBe(24 * 60 * minuteMs);
  });

  it('the dedup horizon is retention + 7 days', () => {
    expect(limits.retentionMs(limits.DEFAULT_LIMITS)).toBe(14 * limits.DAY_MS);
    expect(limits.dedupHorizonMs(limits.DEFAULT_LIMITS)).toBe(21 * limits.DAY_MS);
  });

  it('a retention of a fraction of a day is a whole number of milliseconds', () => {
    const short = { ...limits.DEFAULT_LIMITS, retention_days: 1 / 7 };
    expect(limits.retentionMs(short)).toBe(12_342_857);
    expect(limits.dedupHorizonMs(short)).toBe(12_342_857 + 7 * limits.DAY_MS);
  });
});
