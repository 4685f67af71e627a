/** Relays with which nothing is wrong, as parts of what tests change. */
import { DAY_MS } from '../../src/protocol/limits.ts';
import type { SharedLogShown } from '../../src/protocol/operator-documents.ts';
import type { Condition } from '../../src/relay/operator/condition.ts';

/** The node `one` leads it. */
export const SOUND_LOG: SharedLogShown = {
  node: 'one',
  leader: 'one',
  leading_since: 1,
  term: 1,
  behind_batches: 0,
  behind_ms: 0,
  is_reached: true,
  is_stalled: false,
  copy_fault: null,
  fences: 0,
  fenced_at: null,
  snapshot_at: null,
  doubt: null,
  settings_differ: [],
};

export const CALM: Condition = {
  isReady: true,
  isDiskLow: false,
  brokenQueues: 0,
  damagedRows: 0,
  rowsFound: 0,
  lost: 0,
  oldestItemAgeMs: 0,
  retentionMs: 14 * DAY_MS,
  refusals: [],
  backups: undefined,
  sharedLog: undefined,
  nowMs: 0,
};
