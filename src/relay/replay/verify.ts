/**
 * Verifies that a store is what its log says: one walk, with a list of checks. Who verifies differs in how pairs are
 * walked over, in which checks are made, and in who paces them: each check yields its progress, and is not asked for
 * the next step before its time.
 *
 * At rest (`verify`): everything. Checksums and places of every record, hash trees and rows against a replay, the
 * charges against what waits, the wire bytes against their hashes, the due indexes, and what lies outside the database.
 * Each key is also looked up. Of a larger store another thread (helper.ts) makes the same checks of one half of the
 * rows. Where it finds anything, all is verified once more, here, so that findings and their order are the same.
 *
 * While the relay goes on (`verifyServed`): what a scrub cannot see, which is a row whose checksum is right and whose
 * contents are not, a row that is missing, and one that came back. The log before the newest checkpoint, hash trees and
 * wire bytes are left to the others. What makes this sound while the relay writes lives in:
 *   - store/level.ts (`atThisMoment`), used by `openServed`: every read is of one snapshot, the end of the log
 *     included;
 *   - replay.ts (`runs`) and verify-rows.ts: acked and purged rows count on neither side, whether they were collected
 *     or not;
 *   - start-jobs.ts: nothing is compacted meanwhile, and what is found is told row by row, and begins one epoch;
 *   - audit-worker.ts: the pace (lib/pace.ts), which is also that of the scrub.
 *
 * The daily scrub (jobs/scrub.ts) reads what waits in slices through the engine, so that what it finds lost is lost to
 * the engine too.
 *
 * Streaming: the replay is kept in a scratch, walks go past the cache, and findings are bounded; of the queue, rows
 * that a rotation moved are in memory. Nothing of the store is written.
 */
import type { Half } from '../core/reduce.ts';
import { systemRemedy } from '../../lib/file-fault.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { isSystemError } from '../store/refused.ts';
import { runsOf } from '../store/scan.ts';
import { MEMORY_BYTES, openScratch } from '../store/scratch.ts';
import { Findings, type Progress } from './finding.ts';
import type { HalfDone } from './audit-thread.ts';
import { Helper, type HelperOptions } from './helper.ts';
import type { OfflineStore } from './offline.ts';
import { type ReplayHalf, ReplayedRows, ReplayedTree } from './replay.ts';
import type {
  Check,
  ChecksBounds,
  ServedReport,
  StoredWalk,
  StorePlaces,
  Verification,
  VerifyReport,
} from './verification.ts';
import { verifyCharges } from './verify-charges.ts';
import { verifyCheckpoints, verifyNewestCheckpoint, verifyPrunedHashes } from './verify-checkpoints.ts';
import { verifyDue } from './verify-due.ts';
import { verifyLog } from './verify-log.ts';
import { verifyChecksums, verifyRows } from './verify-rows.ts';
import { verifyStore } from './verify-store.ts';
import { verifyTree, verifyTreeLookUps } from './verify-tree.ts';
import { verifyWires } from './verify-wires.ts';
import { lookUpEach } from './walks.ts';

export interface VerifyOptions extends ChecksBounds, HelperOptions {
  /** Absent for a backup. */
  places?: StorePlaces | undefined;
}

interface ListedCheck {
  check: Check;
  /** The thing that the database cannot read when the check breaks off. */
  reads: string;
  /** Says whether it is made, by what those before it found. */
  when?: (so: Verification) => boolean;
}

const isReplayed = (so: Verification): boolean => so.isReplayed;
const isAllKnown = (so: Verification): boolean => so.isReplayed && so.isTreeKnown;

const AT_REST: readonly ListedCheck[] = [
  { check: verifyCheckpoints, reads: 'the checkpoints' },
  { check: verifyPrunedHashes, reads: 'the hash trees' },
  { check: verifyLog, reads: 'the log' },
  { check: verifyTree, reads: 'the hash trees', when: isAllKnown },
  { check: verifyRows, reads: 'the rows', when: isReplayed },
  { check: verifyChecksums, reads: 'the rows', when: (so) => !so.isReplayed },
  { check: verifyCharges, reads: 'the charges', when: isReplayed },
  { check: verifyWires, reads: 'the wire bytes' },
  { check: verifyDue, reads: 'the due indexes', when: isReplayed },
  { check: verifyTreeLookUps, reads: 'the hash trees', when: (so) => !isAllKnown(so) },
  { check: verifyStore, reads: 'the keys' },
];

/** The checks of each half. Wire bytes are with the half that has less to do. */
const OF_HALF: Readonly<Record<Half, readonly Check[]>> = {
  known: [verifyCheckpoints, verifyLog, verifyRows, verifyCharges, verifyDue],
  others: AT_REST.map(({ check }) => check),
};

const SERVED: readonly ListedCheck[] = [
  { check: verifyNewestCheckpoint, reads: 'the checkpoints' },
  { check: verifyLog, reads: 'the log' },
  { check: verifyRows, reads: 'the rows', when: isReplayed },
  { check: verifyCharges, reads: 'the charges', when: isReplayed },
  { check: verifyDue, reads: 'the due indexes', when: isReplayed },
];

/** Some 40 MB. */
const PART_ROWS = 400_000;
/** The replay of a store that is served may hold this in memory, and some 10 MB. */
const SERVED_MEMORY_BYTES = 32 << 20;
const SERVED_PART_ROWS = 100_000;

export async function* verify(
  offline: OfflineStore,
  { helpedFrom, helper: file, ...options }: VerifyOptions = {},
): AsyncGenerator<Progress, VerifyReport> {
  const { partRows, memoryBytes = MEMORY_BYTES } = options;
  const bounds = { partRows, memoryBytes: memoryBytes / 2 };
  const helper = Helper.start(offline, bounds, { helpedFrom, helper: file });
  if (!helper) return yield* verifyHalf(offline, undefined, options);
  const own = verifyHalf(offline, helper.half, { ...options, ...bounds });
  try {
    const report = yield* helper.beside(own);
    const other = report?.firstBadLsn === undefined && (yield* helper.answer());
    if (report && other) return sum(report, other);
  } finally {
    await helper.stop();
  }
  return yield* verifyHalf(offline, undefined, options);
}

function sum(report: VerifyReport, { rows, bytes }: HalfDone): VerifyReport {
  return { ...report, rows: report.rows + rows, bytes: report.bytes + bytes };
}

export async function* verifyHalf(
  offline: OfflineStore,
  half: ReplayHalf | undefined,
  { places, partRows = PART_ROWS, memoryBytes }: Omit<VerifyOptions, keyof HelperOptions>,
): AsyncGenerator<Progress, VerifyReport> {
  const findings = new Findings();
  const walk: StoredWalk = (range) =>
    lookUpEach(offline.level, runsOf(offline.level, range, { fillCache: true }), findings);
  const checks = half ? AT_REST.filter(({ check }) => OF_HALF[half.of].includes(check)) : AT_REST;
  const given = { offline, half, walk, findings, places, partRows, memoryBytes };
  return yield* runChecks(checks, { ...given, findsUnreadable: true });
}

/** Verifies a store that `openServed` opened. Throws when the database cannot be read. */
export async function* verifyServed(offline: OfflineStore): AsyncGenerator<Progress, ServedReport> {
  const { level } = offline;
  const walk: StoredWalk = (range) => runsOf(level, range);
  const held = { memoryBytes: SERVED_MEMORY_BYTES, partRows: SERVED_PART_ROWS };
  const findings = new Findings();
  const report = yield* runChecks(SERVED, { offline, walk, findings, skipsOldRecords: true, ...held });
  return { ...report, replayedFrom: report.replayedFrom ?? report.prunedThrough + 1 };
}

interface ChecksOptions extends Pick<Verification, 'offline' | 'walk' | 'findings' | 'partRows'> {
  half?: ReplayHalf | undefined;
  places?: StorePlaces | undefined;
  memoryBytes: number | undefined;
  skipsOldRecords?: boolean;
  /** Says whether it is a finding when the database cannot be read, and the next check goes on. */
  findsUnreadable?: boolean;
}

async function* runChecks(
  checks: readonly ListedCheck[],
  { half, walk, memoryBytes, places, skipsOldRecords = false, findsUnreadable = false, ...given }: ChecksOptions,
): AsyncGenerator<Progress, VerifyReport> {
  const scratch = await openScratch(memoryBytes);
  try {
    const counted = { records: 0, rows: 0, payloads: 0, bytes: 0 };
    const count = async function* (runs: AsyncIterable<Pair[]>): AsyncGenerator<Pair[]> {
      for await (const run of runs) {
        for (const [key, value] of run) counted.bytes += key.length + value.length;
        yield run;
      }
    };
    const { pairs } = scratch;
    const verification: Verification = {
      ...given,
      walk: (range) => count(walk(range)),
      places,
      skipsOldRecords,
      scratch: pairs,
      rows: new ReplayedRows(pairs, half),
      tree: new ReplayedTree(pairs),
      startLsn: undefined,
      checkpoints: new Map(),
      isTreeKnown: false,
      isReplayed: false,
      firstBadLsn: undefined,
      counted,
    };
    for (const { check, reads, when } of checks) {
      if (when && !when(verification)) continue;
      const steps = check(verification);
      yield* findsUnreadable ? addUnreadable(reads, given.findings, steps) : steps;
    }
    return makeReport(verification);
  } finally {
    await scratch.close();
  }
}

function makeReport(verification: Verification): VerifyReport {
  const { offline, findings, rows, tree, isReplayed, isTreeKnown, startLsn, checkpoints, counted } = verification;
  const { store } = offline;
  const relay = isReplayed ? rows.get('relay', '') : undefined;
  const isTreeMade = relay !== undefined && isTreeKnown;
  return {
    findings: findings.listed,
    untold: findings.unlisted,
    found: findings.total,
    firstBadLsn: verification.firstBadLsn,
    lsn: store.lastLsn,
    prunedThrough: store.pruned.throughLsn,
    replayedFrom: startLsn === undefined ? undefined : startLsn + 1,
    checkpoints: checkpoints.size,
    relayPubkey: relay?.relayPubkey,
    epoch: relay?.epoch,
    treeSize: isTreeMade ? tree.size : undefined,
    rootHash: isTreeMade ? tree.root.toString('base64') : undefined,
    ...counted,
  };
}

/** Where LevelDB cannot read one of its files, that is a finding, and the check ends. */
async function* addUnreadable(
  reads: string,
  findings: Findings,
  check: AsyncGenerator<Progress, void>,
): AsyncGenerator<Progress, void> {
  try {
    yield* check;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'LEVEL_CORRUPTION' && code !== 'LEVEL_IO_ERROR') throw error;
    const advice = isSystemError(message)
      ? `the system could not read a file, whose bytes may all be right: ${systemRemedy(message)}, and verify again`
      : 'a table file is damaged; restore the newest backup that verifies';
    findings.add('DATABASE_DAMAGED', `the database cannot read ${reads} (${message}): ${advice}`);
  }
}
