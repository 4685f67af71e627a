/** Verifies hash trees: those of a store against a replay of its records, those of an archive against its records. */
import { leafHash } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { PREFIX, TREE_PREFIXES, firstNumberOf, prefixRange, tileIndexOf, tileLevelOf } from '../store/keys.ts';
import { type TreeStart, storedLeafHashes, treeStarts } from '../store/log-tree.ts';
import { DamagedRecord } from '../store/record.ts';
import { type Finding, Findings, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { readEntries } from './records.ts';
import { type Judge, type Verification, compareWalks } from './verification.ts';

const TREE_ADVICE = 'poste relay log rebuild makes the tree anew from the log, whose records are whole';

/**
 * Compares every stored tile and first leaf with the trees that the replay made, byte for byte. The right edge of the
 * last tree is not stored: the report names its root, for comparison with a checkpoint.
 */
export async function* verifyTree(verification: Verification): AsyncGenerator<Progress, void> {
  const { scratch, findings } = verification;
  const judge: Judge = (key, stored, expected) => {
    if (stored && expected?.equals(stored)) return;
    const part = nameTreePart(key);
    const details = { key: key.toString('hex') };
    if (!stored) findings.add('TREE_MISSING', `${part} is not in the store. ${TREE_ADVICE}`, details);
    else if (expected) findings.add('TREE_DIFFERS', `${part} is not that of the records. ${TREE_ADVICE}`, details);
    else findings.add('TREE_UNEXPECTED', `${part} is in the store, and by the log it is not. ${TREE_ADVICE}`, details);
  };
  yield* compareWalks(verification, 'tree', TREE_PREFIXES, judge, (range) => scratch.runs(range));
}

/** Walks over trees that nothing can be held against: each of their keys is looked up. */
export async function* verifyTreeLookUps({ walk }: Verification): AsyncGenerator<Progress, void> {
  let done = 0;
  for (const prefix of TREE_PREFIXES)
    for await (const run of walk(prefixRange(prefix)))
      yield { stage: 'look-ups', done: (done += run.length), of: undefined };
}

function nameTreePart(key: Buffer): string {
  const tree = `of the hash tree that begins with record ${firstNumberOf(key)}`;
  if (key[0] === PREFIX.logLink) return `the first leaf ${tree}`;
  return `tile ${tileIndexOf(key)} of level ${tileLevelOf(key)} ${tree}`;
}

interface ArchiveReport {
  findings: readonly Finding[];
  found: number;
  firstLsn: number;
  lastLsn: number;
  /** Records whose hash in the tree the archive has. */
  hashed: number;
  relayPubkey: PublicKey | undefined;
}

/**
 * Verifies an archive of the log whose file was already checked as a whole: that every record can be read and, as far
 * as the archive holds tiles, that the record is the one in the hash tree.
 */
export async function* verifyArchive(offline: OfflineStore): AsyncGenerator<Progress, ArchiveReport> {
  const { firstLsn, lastLsn } = offline.store;
  const findings = new Findings();
  let hashed = 0;
  let starts: TreeStart[] = [];
  try {
    starts = await treeStarts(offline.level);
    const hashes = storedLeafHashes(offline.level, starts, firstLsn, lastLsn);
    for await (const run of readEntries(offline)) {
      for (const { lsn, record } of run) {
        const own = (await hashes.next()).value;
        if (!own) continue;
        hashed++;
        if (own.equals(leafHash(record))) continue;
        findings.add('TREE_DIFFERS', `log record ${lsn} is not the one that the hash tree holds`, { lsn });
      }
      yield { stage: 'archive', done: run.at(-1)?.lsn ?? 0, of: lastLsn };
    }
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add('RECORD_DAMAGED', error.message);
  }
  const { listed, total } = findings;
  return { findings: listed, found: total, firstLsn, lastLsn, hashed, relayPubkey: starts.at(-1)?.relayPubkey };
}
