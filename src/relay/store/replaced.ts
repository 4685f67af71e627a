/**
 * Reads of a store that is about to be replaced what a restore takes over.
 *
 * It may be damaged: that may be why it is replaced. A row that cannot be read is counted and passed over, so that
 * whoever restores can say whether to go on without it.
 */
import { leafHash } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ReplacedStore } from '../core/decide-restore.ts';
import type { RelayRow } from '../core/rows.ts';
import { PREFIX, logKey, lsnOf, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { storedLeafHashes, treeStarts } from './log-tree.ts';
import { DamagedRecord } from './record.ts';
import { type ListedRow, type ListedTable, tableRows } from './table-rows.ts';

export interface ReadReplaced {
  store: ReplacedStore;
  /** Rows that could not be read. */
  unreadable: number;
}

/** `lastOfBackup` is the backup's last record, as stored there. */
export async function readReplaced(
  level: Level,
  relay: RelayRow,
  lastOfBackup: { lsn: number; record: Buffer },
): Promise<ReadReplaced> {
  let unreadable = 0;
  const rowsOf = async <T extends ListedTable>(table: T): Promise<ListedRow<T>[]> => {
    const rows: ListedRow<T>[] = [];
    for await (const row of tableRows(level, table)) {
      if (row) rows.push(row);
      else unreadable++;
    }
    return rows;
  };
  const byHost = async <T extends ListedTable>(table: T): Promise<Map<PublicKey, ListedRow<T>[1]>> =>
    new Map((await rowsOf(table)) as [PublicKey, ListedRow<T>[1]][]);
  const [last] = await level.keys({ ...prefixRange(PREFIX.log), reverse: true, limit: 1 }).all();
  const heads = (await rowsOf('target')).map(([key, { headSeq }]) => [key as PublicKey, headSeq] as const);
  const store: ReplacedStore = {
    epoch: relay.epoch,
    lastLsn: last ? lsnOf(last) : 0,
    continuesBackup: await isOfItsHistory(level, lastOfBackup),
    enrolments: await byHost('enrolment'),
    senders: await byHost('senders'),
    encKeys: await byHost('encKey'),
    denied: (await rowsOf('deny')).map(([, row]) => row),
    openInvites: new Set((await rowsOf('invite')).map(([hash]) => hash)),
    heads: new Map(heads),
    restores: (await rowsOf('restore')).map(([, row]) => row),
  };
  return { store, unreadable };
}

/** Whether the store has, or had, this very record there: what was pruned is known by its hash. */
async function isOfItsHistory(level: Level, { lsn, record }: { lsn: number; record: Buffer }): Promise<boolean> {
  const own = await level.get(logKey(lsn));
  if (own) return own.equals(record);
  try {
    const tree = (await treeStarts(level)).findLast(({ firstLsn }) => firstLsn <= lsn);
    if (!tree) return false;
    for await (const hash of storedLeafHashes(level, tree, lsn, lsn)) return hash.equals(leafHash(record));
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
  }
  return false;
}
