/**
 * Whether a store is what its log says: checksums and places of every record, hash trees and rows against a replay, the
 * charges against what waits, the wire bytes against their hashes, the due indexes, and what lies outside the database.
 *
 * Streaming: the replay is kept in a scratch, walks go past the cache, and findings are bounded. Nothing of
 * the store is written.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { runsOf } from '../store/scan.ts';
import { openScratch } from '../store/scratch.ts';
import { systemRemedy } from '../../lib/file-fault.ts';
import { isSystemError } from '../store/refused.ts';
import type { OfflineStore } from './offline.ts';
import { DamagedRecord } from '../store/record.ts';
import { ReplayedRows, ReplayedTree } from './replay.ts';
import { type Finding, Findings, type FindingCode, type Progress } from './finding.ts';
import { Helper, type HelperOptions } from './helper.ts';
import { type RecordRange, type StoredWalk, lookedUp, verifyLookUps } from './walks.ts';
import { verifyDue } from './verify-due.ts';
import { verifyLog, verifyTree, verifyCheckpoints } from './verify-log.ts';
import { verifyChecksums, verifyRows, verifyCharges } from './verify-rows.ts';
import { type StorePlaces, verifyStore, verifyPayloads } from './verify-store.ts';

export interface VerifyOptions extends Omit<HelperOptions, 'verifiesWires'> {
  /** Absent for a backup. */
  places?: StorePlaces | undefined;
  /** Rows whose due times are held in memory together. */
  partRows?: number;
  /** What the replay may hold in memory. */
  memoryBytes?: number;
}

/** Some 40 MB. */
const PART_ROWS = 400_000;

export interface VerifyReport {
  findings: readonly Finding[];
  /** Found and not listed, because there are too many. */
  untold: readonly { code: FindingCode; count: number }[];
  found: number;
  firstBadLsn: number | undefined;
  lsn: number;
  /** The last record that is gone; 0 when none is. */
  prunedThrough: number;
  /** The first record that was replayed: behind a checkpoint, where those before were pruned. */
  replayedFrom: number | undefined;
  checkpoints: number;
  /** Of the replay; absent when the log does not begin. */
  relayPubkey: PublicKey | undefined;
  epoch: Epoch | undefined;
  /** Of the tree of that epoch, as a checkpoint says them. */
  treeSize: number | undefined;
  rootHash: string | undefined;
  records: number;
  rows: number;
  payloads: number;
  bytes: number;
}

export async function* verify(
  offline: OfflineStore,
  { places, partRows = PART_ROWS, memoryBytes, ...helped }: VerifyOptions = {},
): AsyncGenerator<Progress, VerifyReport> {
  const { level, store } = offline;
  const findings = new Findings();
  const records = store.lastLsn - store.pruned.throughLsn;
  const helper = Helper.start(level, records, { ...helped, verifiesWires: true });
  const ownRuns: StoredWalk = (range) => runsOf(level, range, { fillCache: true });
  const ownWalk: StoredWalk = (range) => lookedUp(level, ownRuns(range), findings);
  const walk: StoredWalk = helper ? (range) => lookedUp(level, helper.rows(range), findings) : ownWalk;
  const scratch = await openScratch(memoryBytes).catch(async (error: unknown) => {
    await helper?.close();
    throw error;
  });
  const { pairs } = scratch;
  try {
    const kept = yield* readable('the checkpoints', findings, verifyCheckpoints(offline, ownWalk, pairs, findings));
    const replayed = new ReplayedRows(pairs);
    const tree = new ReplayedTree(pairs);
    const isTreeKnown = yield* readable('the hash trees', findings, takePrunedHashes(tree, offline, findings));
    const parts = {
      rows: replayed,
      tree: isTreeKnown ? tree : undefined,
      scratch: pairs,
      startLsn: kept?.startLsn,
      checkpoints: kept?.whole ?? new Map(),
      records: helper && ((range: RecordRange) => helper.records(range, store.firstLsn)),
    };
    const log = yield* readable('the log', findings, verifyLog(offline, parts, findings));
    const isReplayed = log !== undefined && log.firstBadLsn === undefined;
    const trees =
      isReplayed && isTreeKnown
        ? yield* readable('the hash trees', findings, verifyTree(walk, pairs, findings))
        : undefined;
    const rows = isReplayed
      ? yield* readable('the rows', findings, verifyRows(offline, walk, replayed, findings))
      : yield* readable('the rows', findings, verifyChecksums(walk, findings));
    if (isReplayed) yield* readable('the charges', findings, verifyCharges(replayed, findings));
    const answer = helper && (yield* helper.answer());
    // Whatever is wrong there is looked for again, here, where it is named.
    const payloads =
      answer?.type === 'sound'
        ? answer
        : yield* readable('the wire bytes', findings, verifyPayloads(level, pairs, findings));
    const due = isReplayed
      ? yield* readable('the due indexes', findings, verifyDue(level, walk, replayed, partRows, findings))
      : undefined;
    if (!isReplayed || !isTreeKnown) yield* readable('the hash trees', findings, verifyLookUps(walk));
    const relay = isReplayed ? replayed.get('relay', '') : undefined;
    yield* readable('the keys', findings, only(verifyStore(offline, relay, places, findings)));
    return {
      findings: findings.listed,
      untold: findings.unlisted,
      found: findings.total,
      firstBadLsn: log?.firstBadLsn,
      lsn: store.lastLsn,
      prunedThrough: store.pruned.throughLsn,
      replayedFrom: kept?.startLsn === undefined ? undefined : kept.startLsn + 1,
      checkpoints: kept?.whole.size ?? 0,
      relayPubkey: relay?.relayPubkey,
      epoch: relay?.epoch,
      treeSize: relay && isTreeKnown ? tree.size : undefined,
      rootHash: relay && isTreeKnown ? tree.root.toString('base64') : undefined,
      records: log?.records ?? 0,
      rows: rows?.rows ?? 0,
      payloads: payloads?.payloads ?? 0,
      bytes: [kept?.bytes, log?.bytes, trees, rows?.bytes, payloads?.bytes, due].reduce(
        (sum: number, bytes) => sum + (bytes ?? 0),
        0,
      ),
    };
  } finally {
    await helper?.close();
    await scratch.close();
  }
}

/** Whether the hashes of pruned records are where the trees begin. */
async function* takePrunedHashes(
  tree: ReplayedTree,
  { level, store }: OfflineStore,
  findings: Findings,
): AsyncGenerator<Progress, boolean> {
  yield { stage: 'tree', done: 0, of: undefined };
  try {
    await tree.takePrunedHashes(level, store.pruned.throughLsn);
    return true;
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    const message = `${error.message}, and the records that it was made of were pruned: restore the newest backup that verifies`;
    findings.add('TREE_MISSING', message);
    return false;
  }
}

/** Where LevelDB cannot read one of its files, that is a finding, and the next part goes on. */
async function* readable<T>(
  what: string,
  findings: Findings,
  part: AsyncGenerator<Progress, T>,
): AsyncGenerator<Progress, T | undefined> {
  try {
    return yield* part;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'LEVEL_CORRUPTION' && code !== 'LEVEL_IO_ERROR') throw error;
    const advice = isSystemError(message)
      ? `the system could not read a file, whose bytes may all be right: ${systemRemedy(message)}, and verify again`
      : 'a table file is damaged; restore the newest backup that verifies';
    findings.add('DATABASE_DAMAGED', `the database cannot read ${what} (${message}): ${advice}`);
    return undefined;
  }
}

async function* only<T>(part: Promise<T>): AsyncGenerator<Progress, T> {
  yield { stage: 'store', done: 0, of: undefined };
  return part;
}
