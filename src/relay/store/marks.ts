/**
 * The marks of a database: which schema it has, how far its log was pruned, and of which shared log it is a view.
 * DO NOT CHANGE the layouts: add a member at the end.
 *
 *   schema   u32
 *   pruned   checked (checksum.ts): the LSN of the last record that is gone, u64, and when that was written, u64.
 *            It is written in the batch that deletes the records
 *   view     checked, a MessagePack array of the members of `ViewMark`. It is written with each batch, so that it says
 *            exactly what the database holds. Marks without the last member were written
 */
import type { Pair } from '../../lib/pair-block.ts';
import { decodeChecked, encodeChecked } from './checksum.ts';
import { PRUNED_KEY, SCHEMA_KEY, VIEW_KEY, numberAt, writeNumber } from './keys.ts';
import type { Level } from './level.ts';
import { asIs, pack, tuple, unpackArray } from './packing.ts';

/** The schema that this software writes: what it holds of older ones, it reads as it is. */
export const SCHEMA_VERSION = 3;

export function schemaMark(version: number): Pair {
  const value = Buffer.alloc(4);
  value.writeUInt32BE(version);
  return [SCHEMA_KEY, value];
}

/** The schema that the store declares; 0 when the declaration cannot be read, `undefined` when there is none. */
export async function declaredSchema(level: Level): Promise<number | undefined> {
  return schemaIn(await level.get(SCHEMA_KEY));
}

/** As `declaredSchema`, of the stored value. */
export function schemaIn(value: Buffer | undefined): number | undefined {
  return value && (value.length === 4 ? value.readUInt32BE(0) : 0);
}

export interface Pruned {
  /** The last record that is gone; 0 when none is. */
  throughLsn: number;
  /** When it was written, by the relay's clock. */
  atMs: number;
}

export const NOT_PRUNED: Pruned = { throughLsn: 0, atMs: 0 };
const NUMBER = 8;

export function prunedMark({ throughLsn, atMs }: Pruned): Pair {
  const bytes = Buffer.alloc(2 * NUMBER);
  writeNumber(bytes, throughLsn, 0);
  writeNumber(bytes, atMs, NUMBER);
  return [PRUNED_KEY, encodeChecked(PRUNED_KEY, bytes)];
}

export async function readPruned(level: Level): Promise<Pruned> {
  const value = await level.get(PRUNED_KEY);
  if (!value) return NOT_PRUNED;
  const bytes = decodeChecked(PRUNED_KEY, value, 'the mark that says how far the log was pruned');
  return { throughLsn: numberAt(bytes, 0), atMs: numberAt(bytes, NUMBER) };
}

export interface ViewMark {
  logId: string;
  /** The number of the last batch; 0 before the first. */
  no: number;
  lastLsn: number;
  /** The effects of the last batch; empty before the first. */
  effects: Buffer;
  /** The tenure with which this node led, if no other node has appended a batch since; else `undefined`. */
  tenure: string | undefined;
  /** The boot of the machine: what is written without a sync survives the process, and not the machine. */
  bootId: string;
  /** True when the process closed the database. */
  isClosed: boolean;
  /** The place of the log, as an operator names it, without a password; empty where that was not noted. */
  place: string;
}

const VIEW = tuple<ViewMark>({
  logId: asIs,
  no: asIs,
  lastLsn: asIs,
  effects: asIs,
  tenure: { pack: (tenure) => tenure ?? null, unpack: (stored) => (stored as string | null) ?? undefined },
  bootId: asIs,
  isClosed: asIs,
  place: { pack: (place) => place, unpack: (stored = '') => stored as string },
});

export function viewMarkPair(mark: ViewMark): Pair {
  return [VIEW_KEY, encodeChecked(VIEW_KEY, pack(VIEW.pack(mark)))];
}

/** `undefined` for a database that is no view. Throws `DamagedRecord`. */
export async function readViewMark(level: Level): Promise<ViewMark | undefined> {
  const value = await level.get(VIEW_KEY);
  if (!value) return undefined;
  return VIEW.unpack(unpackArray(decodeChecked(VIEW_KEY, value, 'the mark of the view')));
}

/** Returns where the log of a view is, as the end of a sentence. */
export function logPlace({ place }: ViewMark): string {
  return place === '' ? 'elsewhere' : `at ${place}`;
}
