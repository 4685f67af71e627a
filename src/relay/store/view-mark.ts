/**
 * The mark of a database that is a view of a shared log: which log, and how far it has come. It is written with each batch,
 * so that it says exactly what the database holds. A checked value (checksum.ts) of a MessagePack array: log id, number of
 * the last batch, its last LSN, its effects, the tenure that led last with this view or null, the boot of the machine, and whether the process
 * closed the database. DO NOT CHANGE: add a member at the end.
 */
import { decodeChecked, encodeChecked } from './checksum.ts';
import { VIEW_KEY } from './keys.ts';
import type { Level } from './level.ts';
import { pack, unpackArray } from './packing.ts';
import type { Pair } from '../../lib/pair-block.ts';

export interface ViewMark {
  logId: string;
  /** 0 before the first batch. */
  no: number;
  lastLsn: number;
  /** Empty before the first batch. */
  effects: Buffer;
  /** The tenure with which this node led, if no other node has appended a batch since; else `undefined`. */
  tenure: string | undefined;
  /** What is written without a sync survives the process, and not the machine. */
  bootId: string;
  isClosed: boolean;
}

export function viewMarkPair({ logId, no, lastLsn, effects, tenure, bootId, isClosed }: ViewMark): Pair {
  return [VIEW_KEY, encodeChecked(VIEW_KEY, pack([logId, no, lastLsn, effects, tenure ?? null, bootId, isClosed]))];
}

/** `undefined` for a database that is no view. Throws `DamagedRecord`. */
export async function readViewMark(level: Level): Promise<ViewMark | undefined> {
  const value = await level.get(VIEW_KEY);
  if (!value) return undefined;
  const fields = unpackArray(decodeChecked(VIEW_KEY, value, 'the mark of the view')) as [
    string,
    number,
    number,
    Buffer,
    string | null,
    string,
    boolean,
  ];
  const [logId, no, lastLsn, effects, tenure, bootId, isClosed] = fields;
  return { logId, no, lastLsn, effects, tenure: tenure ?? undefined, bootId, isClosed };
}
