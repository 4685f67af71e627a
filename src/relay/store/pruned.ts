/**
 * How far the log was pruned: checked (checksum.ts), the LSN of the last record that is gone, u64, and when it was
 * written, u64. DO NOT CHANGE. Written in the batch that deletes the records, so that what is left has no gap.
 */
import { decodeChecked, encodeChecked } from './checksum.ts';
import { PRUNED_KEY } from './keys.ts';
import type { Level } from './level.ts';
import type { Pair } from '../../lib/pair-block.ts';

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
  bytes.writeBigUInt64BE(BigInt(throughLsn), 0);
  bytes.writeBigUInt64BE(BigInt(atMs), NUMBER);
  return [PRUNED_KEY, encodeChecked(PRUNED_KEY, bytes)];
}

/** Throws `DamagedRecord`. */
export async function readPruned(level: Level): Promise<Pruned> {
  const value = await level.get(PRUNED_KEY);
  if (!value) return NOT_PRUNED;
  const bytes = decodeChecked(PRUNED_KEY, value, 'the mark that says how far the log was pruned');
  return { throughLsn: Number(bytes.readBigUInt64BE(0)), atMs: Number(bytes.readBigUInt64BE(NUMBER)) };
}
