/** Whether a store can be current when it is opened: when nothing outside it proves that, a new epoch must begin. */
import { hash } from 'node:crypto';
import { HEARTBEAT_STALE_MS } from '../../protocol/limits.ts';
import type { EpochReason } from '../core/event.ts';
import { rowKey } from '../core/rows.ts';
import { DamagedRow } from './checksum.ts';
import { logKey } from './keys.ts';
import type { Level } from './level.ts';
import type { Position } from './position.ts';
import type { Pruned } from './pruned.ts';
import type { RelayStore } from './relay-store.ts';

/** A heartbeat may be this far ahead: small clock steps are common. */
const HEARTBEAT_AHEAD_MS = 60_000;

/** Why the store may not be current, so that a new epoch must begin. */
export interface EpochReset {
  reason: EpochReason;
  sentence: string;
}

export async function positionCheck(
  level: Level,
  position: Position | undefined,
  pruned: Pruned,
): Promise<EpochReset | undefined> {
  if (!position) {
    return {
      reason: 'position-missing',
      sentence: 'The position file is missing or unreadable, so nothing outside the store says how far it had come.',
    };
  }
  if (position.lsn <= pruned.throughLsn) {
    return {
      reason: 'position-differs',
      sentence: `The position file is of log record ${position.lsn}, and the log was pruned through ${pruned.throughLsn} since: it is an older copy, and cannot tell whether this is its history.`,
    };
  }
  const record = await level.get(logKey(position.lsn));
  if (!record) {
    return {
      reason: 'position-ahead',
      sentence: `The store ends before log record ${position.lsn}, which it had committed: it is an older copy, or it lost its end.`,
    };
  }
  if (!hash('sha256', record, 'buffer').equals(position.recordHash)) {
    return {
      reason: 'position-differs',
      sentence: `Log record ${position.lsn} is not the one that was committed: this is another history of the store.`,
    };
  }
  return undefined;
}

export function heartbeatCheck(store: RelayStore, nowMs: number): EpochReset | undefined {
  const atMs = heartbeatOf(store);
  if (atMs === undefined) {
    return {
      reason: 'stale-heartbeat',
      sentence: 'The heartbeat in the store is missing or unreadable, so nothing says how old this copy of it is.',
    };
  }
  const ageMs = nowMs - atMs;
  if (ageMs > HEARTBEAT_STALE_MS) {
    const minutes = Math.floor(ageMs / 60_000);
    return {
      reason: 'stale-heartbeat',
      sentence: `The last heartbeat in the store is ${minutes} minutes old: it may be an older copy.`,
    };
  }
  if (ageMs < -HEARTBEAT_AHEAD_MS) {
    return {
      reason: 'future-heartbeat',
      sentence: 'The last heartbeat in the store lies in the future: this clock, or the one before it, is wrong.',
    };
  }
  return undefined;
}

/** Every store has one from its first record on. */
function heartbeatOf(store: RelayStore): number | undefined {
  try {
    const atMs = store.get('heartbeat', rowKey.heartbeat)?.atMs;
    return Number.isSafeInteger(atMs) ? atMs : undefined;
  } catch (error) {
    if (error instanceof DamagedRow) return undefined;
    throw error;
  }
}
