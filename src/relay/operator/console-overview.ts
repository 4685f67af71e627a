/** The first thing that the console shows: how the relay is, what it did in the last minutes, and where it stands. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ConsoleOverview, SharedLogShown } from '../../protocol/operator-documents.ts';
import type { Activity } from './activity.ts';
import { type Condition, faultsOf } from './condition.ts';
import { type HostViewOptions, biggestQueues } from './host-views.ts';
import type { EpochHistory } from './log-search.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import { rowsCheckShown } from './online-check.ts';
import { type RelayFacts, relayShown } from './relay-shown.ts';
import { SAMPLE_EVERY_MS, type Sampler } from './sampler.ts';

const EPOCHS_SHOWN_MAX = 100;
const DAMAGED_ROWS_SHOWN_MAX = 10;

/** Writes a copy of the store. Rejects when it cannot. */
export type TakeBackup = () => Promise<{ name: string; bytes: number }>;

export interface OverviewParts extends HostViewOptions {
  activity: Activity;
  sampler: Sampler;
  epochs: EpochHistory;
  /** How the relay is now, but for what is looked up here. */
  relay: () => Omit<RelayFacts, 'relayPubkey' | 'nowMs'>;
  condition: () => Omit<Condition, 'refusals' | 'nowMs' | 'sharedLog'>;
  admission: { authority: ConsoleOverview['authority']; addresses: () => readonly string[] };
  /** Absent: the console does not offer it. */
  takeBackup: TakeBackup | undefined;
  /** `undefined` while the relay starts, and where it cannot be done. */
  rowsCheck: () => RowsCheck | undefined;
  /** Of a log that several relays share. */
  sharedLog: () => SharedLogShown | undefined;
}

export async function overview(options: OverviewParts): Promise<ConsoleOverview> {
  const { engine, activity, sampler, epochs, clock, takeBackup, admission } = options;
  const relayPubkey = ownKey(options);
  const read = epochs.found();
  const known = new Set(read.map(({ lsn }) => lsn));
  const begun = [...activity.epochs().filter(({ lsn }) => !known.has(lsn)), ...read];
  const nowMs = clock.nowMs();
  const sharedLog = options.sharedLog();
  const rowsCheck = options.rowsCheck();
  const refusals = activity.refusals();
  return {
    role: sharedLog ? 'leading' : 'alone',
    ...relayShown({ ...options.relay(), relayPubkey, nowMs }),
    faults: faultsOf({ ...options.condition(), refusals, nowMs, sharedLog }),
    admission: engine.settings.admission,
    authority: admission.authority,
    addresses: [...admission.addresses()],
    host_keys: engine.directory.count,
    can_take_backup: takeBackup !== undefined,
    rows_check: rowsCheck ? rowsCheckShown(rowsCheck) : null,
    shared_log: sharedLog ?? null,
    sample_every_ms: SAMPLE_EVERY_MS,
    samples: [...sampler.history.recent],
    biggest_queues: await biggestQueues(options),
    broken_queues: engine.brokenQueues.map(({ targetPubkey, reason }) => ({
      host_pubkey: targetPubkey,
      host: engine.directory.get(targetPubkey)?.hostName ?? null,
      reason,
    })),
    damaged_rows: engine.damagedRows.slice(0, DAMAGED_ROWS_SHOWN_MAX).map(({ name }) => name),
    damaged_rows_found: engine.damagedRows.length,
    refusals,
    epochs: begun.toSorted((a, b) => b.lsn - a.lsn).slice(0, EPOCHS_SHOWN_MAX),
    epochs_read: epochs.state,
  };
}

function ownKey({ rows }: OverviewParts): PublicKey {
  const { relayPubkey } = rows.get('relay', '') ?? {};
  if (relayPubkey === undefined) throw new Error('invariant: an open store has a relay row');
  return relayPubkey;
}
