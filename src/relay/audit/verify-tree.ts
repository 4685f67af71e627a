/**
 * The hash trees over the log: every stored tile and first leaf, byte for byte as the replay makes them.
 *
 * The right edge of the last tree is stored nowhere: its root is told in the report, for whoever kept a checkpoint.
 */
import type { BulkDatabase } from '../store/bulk.ts';
import { PREFIX, TREE_PREFIXES, prefixRange, tileIndexOf, tileLevelOf, treeOf } from '../store/keys.ts';
import type { OfflineStore } from '../store/offline.ts';
import { joined, runsOf } from '../store/pairs.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, lookedUp } from './looked-up.ts';

const ADVICE = 'poste relay log rebuild makes the tree anew from the log, whose records are whole';

/** Answers how many bytes were read. */
export async function* verifyTree(
  { level }: OfflineStore,
  scratch: BulkDatabase,
  findings: Findings,
): AsyncGenerator<Progress, number> {
  let bytes = 0;
  for (const prefix of TREE_PREFIXES) {
    const range = prefixRange(prefix);
    const stored = lookedUp(level, range, findings);
    for await (const { key, left, right } of joined(stored, runsOf(scratch.level, range))) {
      bytes += key.length + (left?.length ?? 0);
      if (!isOfStore(key, findings) || (left && right?.equals(left))) continue;
      const part = partWords(key);
      const details = { key: key.toString('hex') };
      if (!left) findings.add('TREE_MISSING', `${part} is not in the store. ${ADVICE}`, details);
      else if (right) findings.add('TREE_DIFFERS', `${part} is not that of the records. ${ADVICE}`, details);
      else findings.add('TREE_UNEXPECTED', `${part} is in the store, and by the log it is not. ${ADVICE}`, details);
    }
    yield { stage: 'tree', done: bytes, of: undefined };
  }
  return bytes;
}

function partWords(key: Buffer): string {
  const tree = `of the hash tree that begins with record ${treeOf(key)}`;
  if (key[0] === PREFIX.logLink) return `the first leaf ${tree}`;
  return `tile ${tileIndexOf(key)} of level ${tileLevelOf(key)} ${tree}`;
}
