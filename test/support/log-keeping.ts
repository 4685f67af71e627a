/** The job that keeps the log of an engine bounded, run by hand. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readEntries } from '../../src/relay/replay/records.ts';
import type { LogEntry } from '../../src/relay/core/event.ts';
import { openArchive } from '../../src/relay/replay/offline.ts';
import { LogArchives } from '../../src/relay/jobs/log-archives.ts';
import { RetentionJob, type RetentionJobOptions } from '../../src/relay/jobs/retention-job.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { relay as relayHost } from './hosts.ts';
import { ManualTimers } from './manual-time.ts';
import type { TestRelay } from './test-relay.ts';

/** What a run told the operator. */
export interface ToldOfLog {
  checkpoints: string[];
  /** How far, run by run. */
  pruned: number[];
  archives: string[];
  failures: unknown[];
}

export interface KeptLogOptions extends Partial<Pick<RetentionJobOptions, 'hasRoom' | 'isClockTrusted' | 'timers'>> {
  days?: number;
  archiveFolder?: string;
}

export function logPlanOf(
  { engine, store, clock }: TestRelay,
  { days = 1, archiveFolder, ...options }: KeptLogOptions = {},
): { plan: RetentionJob; told: ToldOfLog } {
  const told: ToldOfLog = { checkpoints: [], pruned: [], archives: [], failures: [] };
  const ambient = { nowMs: () => clock.nowMs, monotonicMs: () => performance.now() };
  const archives =
    archiveFolder === undefined
      ? undefined
      : new LogArchives({
          folder: archiveFolder,
          relayPubkey: relayHost.key,
          store,
          clock: ambient,
          version: '0.0.0-test',
        });
  const plan = new RetentionJob({
    keepMs: days * DAY_MS,
    archives,
    retention: engine.logRetention,
    store,
    clock: ambient,
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
