import { describe, expect, it } from 'vitest';
import * as limits from '../../../src/protocol/limits.ts';

describe('limits', () => {
  // docs/protocol.md has the others, which protocol-document.test.ts compares.
  it('those that the protocol document does not have', () => {
    expect(Object.keys(limits.DEFAULT_LIMITS)).toHaveLength(12);
    expect([limits.CHALLENGE_BYTES, limits.DAY_MS]).toEqual([32, 86_400_000]);
    expect([limits.HEARTBEAT_EVERY_MS, limits.HEARTBEAT_STALE_MS]).toEqual([30_000, 600_000]);
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
