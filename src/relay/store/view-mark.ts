/**
 * The mark of a database that is a view of a shared log: which log, and how far it has come. It is written with each
 * batch, so that it says exactly what the database holds. A checked value (checksum.ts) of a MessagePack array: log id,
 * number of the last batch, its last LSN, its effects, the tenure that led last with this view or null, the boot of the
 * machine, whether the process closed the database, and where the log is. DO NOT CHANGE: add a member at the end. Marks
 * without the last one were written.
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
  /** Where the log is, as an operator names it, without a password; empty where that was not noted. */
  place: string;
}

export function viewMarkPair({ logId, no, lastLsn, effects, tenure, bootId, isClosed, place }: ViewMark): Pair {
  const fields = [logId, no, lastLsn, effects, tenure ?? null, bootId, isClosed, place];
  return [VIEW_KEY, encodeChecked(VIEW_KEY, pack(fields))];
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
    string?,
  ];
  const [logId, no, lastLsn, effects, tenure, bootId, isClosed, place = ''] = fields;
  return { logId, no, lastLsn, effects, tenure: tenure ?? undefined, bootId, isClosed, place };
}

/** Where the log of a view is, as the end of a sentence. */
export function logPlace({ place }: ViewMark): string {
  return place === '' ? 'elsewhere' : `at ${place}`;
}
