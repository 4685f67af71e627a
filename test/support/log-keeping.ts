/** The job that keeps the log of an engine bounded, run by hand. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readEntries } from '../../src/relay/replay/records.ts';
import type { LogEntry } from '../../src/relay/core/event.ts';
import { openArchive } from '../../src/relay/replay/offline.ts';
import { LogArchives } from '../../src/relay/jobs/retention-job.ts';
import { RetentionJob, type RetentionJobOptions } from '../../src/relay/jobs/retention-job.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { relay as relayHost } from './hosts.ts';
import { ManualTimers } from './manual-time.ts';
import type { TestRelay } from './test-relay.ts';

/** A run told this to the operator. */
export interface ToldOfLog {
  checkpoints: string[];
  /** The log was pruned so far, run by run. */
  pruned: number[];
  archives: string[];
  failures: unknown[];
}

export interface KeptLogOptions extends Partial<Pick<RetentionJobOptions, 'hasRoom' | 'isClockTrusted' | 'timers'>> {
  days?: number;
  archiveFolder?: string;
}

export function archivesOf({ store, clock }: TestRelay, folder: string): LogArchives {
  const relayPubkey = relayHost.key;
  return new LogArchives({ folder, relayPubkey, store, clock: ambientOf(clock), version: '0.0.0-test' });
}

function ambientOf(clock: TestRelay['clock']): Clock {
  return { nowMs: () => clock.nowMs, monotonicMs: () => performance.now() };
}

export function logPlanOf(
  relay: TestRelay,
  { days = 1, archiveFolder, ...options }: KeptLogOptions = {},
): { plan: RetentionJob; told: ToldOfLog } {
  const told: ToldOfLog = { checkpoints: [], pruned: [], archives: [], failures: [] };
  const { engine, store, clock } = relay;
  const plan = new RetentionJob({
    keepMs: days * DAY_MS,
    archives: archiveFolder === undefined ? undefined : archivesOf(relay, archiveFolder),
    retention: engine.logRetention,
    store,
    clock: ambientOf(clock),
    timers: new ManualTimers(),
    isClockTrusted: () => true,
    hasRoom: () => true,
    onCheckpoint: ({ type }) => told.checkpoints.push(type),
    onPruned: (_records, throughLsn, archive) => {
      told.pruned.push(throughLsn);
      if (archive !== undefined) told.archives.push(archive);
    },
    onFailed: (error) => told.failures.push(error),
    ...options,
  });
  return { plan, told };
}

/** Does once what is due. */
export async function keepLog(relay: TestRelay, options: KeptLogOptions = {}): Promise<ToldOfLog> {
  const { plan, told } = logPlanOf(relay, options);
  await plan.run();
  await plan.stop();
  return told;
}

/** Every record of every archive in `folder`, in order, each once. */
export async function archived(folder: string): Promise<LogEntry[]> {
  const entries = new Map<number, LogEntry>();
  for (const name of (await readdir(folder)).toSorted()) {
    const offline = await openArchive(join(folder, name));
    for await (const run of readEntries(offline)) for (const { lsn, event } of run) entries.set(lsn, { lsn, event });
    await offline.close();
  }
  return [...entries.values()].toSorted((a, b) => a.lsn - b.lsn);
}
