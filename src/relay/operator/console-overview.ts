/** The first thing that the console shows: how the relay is, what it did in the last minutes, and where it stands. */
import type { ConsoleFollowing, ConsoleOverview, RowsCheckShown } from '../../protocol/operator-documents.ts';
import type { Activity } from './activity.ts';
import { type HostViewOptions, biggestQueues } from './host-views.ts';
import type { EpochHistory } from './log-search.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import type { RelayState, ServingRelay, TakeBackup } from './relay-state.ts';
import { SAMPLE_EVERY_MS, type Sampler } from './sampler.ts';

const EPOCHS_SHOWN_MAX = 100;
const DAMAGED_ROWS_SHOWN_MAX = 10;

export interface OverviewParts extends HostViewOptions, Pick<ServingRelay, 'authority' | 'addresses'> {
  activity: Activity;
  sampler: Sampler;
  epochs: EpochHistory;
  /** Absent: the console does not offer it. */
  takeBackup: TakeBackup | undefined;
  /** `undefined` while the relay starts, and where it cannot be done. */
  rowsCheck: () => RowsCheck | undefined;
}

/** Shows that of a standby where there are no `parts`. */
export async function overview(
  state: RelayState,
  parts: OverviewParts | undefined,
): Promise<ConsoleOverview | ConsoleFollowing> {
  if (parts) return servingOverview(state, parts);
  const sharedLog = state.subject.sharedLog?.shown;
  if (!sharedLog) throw new Error('invariant: a standby shares a log');
  return { role: 'following', ...(await state.shown()), shared_log: sharedLog };
}

async function servingOverview(state: RelayState, parts: OverviewParts): Promise<ConsoleOverview> {
  const { engine, activity, sampler, epochs, takeBackup, authority, addresses } = parts;
  const read = epochs.found();
  const known = new Set(read.map(({ lsn }) => lsn));
  const begun = [...activity.epochs().filter(({ lsn }) => !known.has(lsn)), ...read];
  const sharedLog = state.subject.sharedLog?.shown;
  const rowsCheck = parts.rowsCheck();
  return {
    role: sharedLog ? 'leading' : 'alone',
    ...(await state.shown()),
    admission: engine.settings.admission,
    authority,
    addresses: [...addresses()],
    host_keys: engine.directory.count,
    can_take_backup: takeBackup !== undefined,
    rows_check: rowsCheck ? rowsCheckShown(rowsCheck) : null,
    shared_log: sharedLog ?? null,
    sample_every_ms: SAMPLE_EVERY_MS,
    samples: [...sampler.history.recent],
    biggest_queues: await biggestQueues(parts),
    broken_queues: engine.brokenQueues.map(({ targetPubkey, reason }) => ({
      host_pubkey: targetPubkey,
      host: engine.directory.get(targetPubkey)?.hostName ?? null,
      reason,
    })),
    damaged_rows: engine.damagedRows.slice(0, DAMAGED_ROWS_SHOWN_MAX).map(({ name }) => name),
    damaged_rows_found: engine.damagedRows.length,
    refusals: activity.refusals(),
    epochs: begun.toSorted((a, b) => b.lsn - a.lsn).slice(0, EPOCHS_SHOWN_MAX),
    epochs_read: epochs.state,
  };
}

const FINDINGS_SHOWN_MAX = 10;

export function rowsCheckShown({ last, failedAtMs, run }: RowsCheck): RowsCheckShown {
  return {
    last: last
      ? {
          at: last.atMs,
          rows: last.checked.rows,
          found: last.checked.found,
          findings: last.checked.findings.slice(0, FINDINGS_SHOWN_MAX).map(({ message }) => message),
        }
      : null,
    failed_at: failedAtMs ?? null,
    under_way: run ? { stage: run.progress.stage, done: run.progress.done, of: run.progress.of ?? null } : null,
  };
}
