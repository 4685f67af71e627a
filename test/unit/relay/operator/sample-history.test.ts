/** The measurements of a week: fine where they are near, merged where they are far. */
import { describe, expect, test } from 'vitest';
import type { ConsoleSample } from '../../../../src/protocol/operator-documents.ts';
import { SampleHistory } from '../../../../src/relay/operator/sampler.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const START_MS = 20_000 * DAY_MS;

function sampleAt(at: number, changes: Partial<ConsoleSample> = {}): ConsoleSample {
  return {
    at,
    accepted_per_s: 0,
    acked_per_s: 0,
    rejected_per_s: 0,
    requests_per_s: 0,
    commit_p50_ms: null,
    commit_p99_ms: null,
    queue_items: 0,
    queue_bytes: 0,
    oldest_item_age_ms: 0,
    disk_free_bytes: 1000,
    is_disk_low: false,
    hosts: 1,
    waiting_pulls: 0,
    log_position: at,
    epoch: 'e',
    rss_bytes: 1,
    ...changes,
  };
}

/** Lives for `ms` in steps of `everyMs`. */
function lived(ms: number, everyMs: number): { history: SampleHistory; endMs: number } {
  const history = new SampleHistory();
  for (let at = 0; at < ms; at += everyMs) history.add(sampleAt(START_MS + at));
  return { history, endMs: START_MS + ms };
}

describe('the measurements', () => {
  test('of the last quarter of an hour are all there, and no older ones', () => {
    const { history, endMs } = lived(HOUR_MS, 2000);
    expect(history.recent).toHaveLength(450);
    expect(history.recent[0]?.at).toBe(endMs - 15 * MINUTE_MS);
  });

  test('reach a week back, coarser and never too many', () => {
    const { history, endMs } = lived(9 * DAY_MS, 10_000);
    for (const [ms, least] of [
      [HOUR_MS, 230],
      [DAY_MS, 280],
      [7 * DAY_MS, 330],
    ] as const) {
      const found = history.between(endMs - ms, endMs);
      expect(found.length).toBeGreaterThanOrEqual(least);
      expect(found.length).toBeLessThanOrEqual(450);
      expect((found[0]?.at ?? 0) - (endMs - ms)).toBeLessThanOrEqual(HOUR_MS);
      expect(found.at(-1)?.at).toBe(endMs - 10_000);
      const times = found.map(({ at }) => at);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
    }
    expect(endMs - (history.firstMs ?? 0)).toBeGreaterThan(6.9 * DAY_MS);
  });

  test('of a relay that runs for minutes are fine for every range', () => {
    const { history, endMs } = lived(2 * MINUTE_MS, 2000);
    expect(history.between(endMs - 7 * DAY_MS, endMs)).toHaveLength(60);
    expect(history.firstMs).toBe(endMs - 2000);
  });

  test('are merged without hiding what was worst', () => {
    const { history, endMs } = lived(2 * HOUR_MS, 2000);
    history.add(
      sampleAt(endMs, {
        accepted_per_s: 10,
        commit_p99_ms: 900,
        queue_items: 7,
        disk_free_bytes: 5,
        is_disk_low: true,
      }),
    );
    history.add(sampleAt(endMs + 2000, { accepted_per_s: 20, commit_p99_ms: 3, queue_items: 2, hosts: 4 }));
    const worst = history.between(endMs - 2 * HOUR_MS, endMs + 2000).at(-1);
    expect(worst).toMatchObject({
      at: endMs + 2000,
      accepted_per_s: 15,
      commit_p99_ms: 900,
      commit_p50_ms: null,
      queue_items: 7,
      disk_free_bytes: 5,
      is_disk_low: true,
      hosts: 4,
    });
  });
});
