/**
 * One verification: what its checks share, and the walk that they make. A check is a
 * function of a `Verification`: it reads, adds findings, and notes what the checks behind it need to know.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { KEY_BYTES, prefixRange } from '../store/keys.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import type { KeyRange } from '../store/scan.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import type { Finding, FindingCode, Findings, Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import type { ReplayedRows, ReplayedTree } from './replay.ts';
import { joinWalks } from './walks.ts';

export type StoredWalk = (range: KeyRange) => AsyncIterable<Pair[]>;

/** The places in which a store folder keeps what is not in its database. */
export interface StorePlaces {
  folder: string;
  /** The one that a flag or the config names. */
  positionFile: string | undefined;
}

export interface ChecksBounds {
  /** Rows whose due times are held in memory together. */
  partRows?: number | undefined;
  /** The bytes that the replay may hold in memory. */
  memoryBytes?: number | undefined;
}

export interface Verification {
  readonly offline: OfflineStore;
  /** The pairs of a range, ascending by key; a store at rest is also asked for each of their keys. */
  readonly walk: StoredWalk;
  readonly findings: Findings;
  /** Absent for a backup, and for a store that is served. */
  readonly places: StorePlaces | undefined;
  /** Rows whose due times are held in memory together. */
  readonly partRows: number;
  /** The pairs that the replay keeps: its rows and trees. */
  readonly scratch: ScratchPairs;
  readonly rows: ReplayedRows;
  readonly tree: ReplayedTree;
  /** Says whether the records are left out that the rows of `startLsn` stand for. */
  readonly skipsOldRecords: boolean;
  /** The scratch has the rows after this record before the replay; `undefined`: nothing stands for what was pruned. */
  startLsn: number | undefined;
  /** Checkpoints that are whole, by their LSN: the replay has to come by the same rows. */
  checkpoints: ReadonlyMap<number, RowCheckpoint>;
  /** Says whether the trees can be made anew. */
  isTreeKnown: boolean;
  isReplayed: boolean;
  /** The first record that is missing, altered, or contradicts those before it. */
  firstBadLsn: number | undefined;
  /** The bytes are those of every pair that was walked over, and of the wires. */
  readonly counted: { records: number; rows: number; payloads: number; bytes: number };
}

export type Check = (verification: Verification) => AsyncGenerator<Progress, void>;

export interface VerifyReport {
  findings: readonly Finding[];
  /** The findings that are not listed, because there are too many. */
  untold: readonly { code: FindingCode; count: number }[];
  found: number;
  firstBadLsn: number | undefined;
  lsn: number;
  /** The last record that is gone; 0 when none is. */
  prunedThrough: number;
  /** The first record that was replayed: behind a checkpoint, where those before were pruned. */
  replayedFrom: number | undefined;
  checkpoints: number;
  /** The key that the replay found; absent when the log does not begin. */
  relayPubkey: PublicKey | undefined;
  epoch: Epoch | undefined;
  /** The size of the tree of that epoch, as a checkpoint says it. */
  treeSize: number | undefined;
  rootHash: string | undefined;
  records: number;
  rows: number;
  payloads: number;
  bytes: number;
}

export interface ServedReport extends VerifyReport {
  /** The first record that was replayed, or was to be. */
  replayedFrom: number;
}

/** Judges one key of a store: what is stored under it, and what is to be there. */
export type Judge = (key: Buffer, stored: Buffer | undefined, expected: Buffer | undefined) => void;

/** Walks over each prefix, in step with what is to be there if that is known. Answers how many keys. */
export async function* compareWalks(
  { walk, findings }: Verification,
  stage: string,
  prefixes: readonly number[],
  judge: Judge,
  expected: (range: { gte: Buffer; lt: Buffer }) => AsyncIterable<readonly Pair[]> = nothing,
): AsyncGenerator<Progress, number> {
  let done = 0;
  for (const prefix of prefixes) {
    const range = prefixRange(prefix);
    for await (const run of joinWalks(walk(range), expected(range))) {
      for (const { key, left, right } of run) if (isOfStore(key, findings)) judge(key, left, right);
      yield { stage, done: (done += run.length), of: undefined };
    }
  }
  return done;
}

async function* nothing(): AsyncGenerator<readonly Pair[]> {
  // No pair.
}

/** Says whether software of ours wrote the key. Where a bit of a key fell over, the value of another one lies there. */
export function isOfStore(key: Buffer, findings: Findings | undefined): boolean {
  if (KEY_BYTES[key[0] ?? 0] === key.length) return true;
  const name = key.toString('hex');
  const message = `the key ${name} is none of a store: what belongs under another key may lie there`;
  findings?.add('KEY_UNEXPECTED', message, { key: name });
  return false;
}
