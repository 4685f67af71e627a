/**
 * The doubt of a shared log: why a new epoch must begin. Its text in the row of the lead is reasons, the first one
 * first, with `; ` between them; none of them holds that.
 *
 * A log that went back is found by each node that had seen more of it, one after the other, and one new epoch answers
 * them all. So a node says with its reason which epochs it knows. When the log goes on in an epoch that the node does
 * not know, and that came after one that it knows, then that epoch was begun where its history and that of the log
 * part: whatever the log lacks is of an earlier epoch, and there is nothing to begin.
 */
import type { LogTree } from '../store/log-tree.ts';

const BETWEEN = '; ';
/** The newest that a node knows. */
const EPOCHS_MAX = 8;
const KNOWN = / (\d+):([^ ;)]+)/g;

/** The newest epochs of a log, each behind the record with which it began. */
export function epochsOf(tree: LogTree): string {
  return tree
    .newest(EPOCHS_MAX)
    .map(({ firstLsn, epoch }) => ` ${firstLsn}:${epoch}`)
    .join('');
}

/** The reason of a node that had seen what the log lacks, and `epochsOf` its view then. */
export function lackingDoubt({ no, epochs }: { no: number; epochs: string }): string {
  return `a node had seen batch ${no}, which the log lacks (of the epochs${epochs})`;
}

/** The reason of a node that was shown a checkpoint which this relay signed, and which the log contradicts. */
export function contradictedDoubt(epochs: string): string {
  return `a host showed a checkpoint of this relay that the log contradicts (of the epochs${epochs})`;
}

/** The doubt with a reason that it may have already, as the statements of the log make it (pg-statements.ts). */
export function doubtWith(doubt: string | undefined, reason: string | undefined): string | undefined {
  if (reason === undefined || doubt?.includes(reason)) return doubt;
  return doubt === undefined ? reason : `${doubt}${BETWEEN}${reason}`;
}

/** True when the epoch of the log answers every reason of the doubt. */
export function isSettled(doubt: string, tree: LogTree): boolean {
  const [current] = tree.newest(1);
  return doubt.split(BETWEEN).every((reason) => {
    const known = [...reason.matchAll(KNOWN)].map(([, lsn, epoch]) => ({ lsn: Number(lsn), epoch }));
    const [first] = known;
    if (!first || !current || current.firstLsn <= first.lsn) return false;
    return known.every(({ epoch }) => epoch !== current.epoch);
  });
}
