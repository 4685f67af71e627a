/** Items as a closed store has them, each alone or in a run: for tests that damage one behind the relay's back. */
import type { Pair } from '../../src/lib/pair-block.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import {
  BOUND_BYTES,
  decodeRowRun,
  decodeWireRun,
  encodeRowRun,
  encodeWireRun,
  placedWires,
  rowPairs,
  wireEntry,
} from '../../src/relay/store/item-run.ts';
import { PREFIX, payloadKey, prefixRange, queueKey, seqOf } from '../../src/relay/store/keys.ts';
import type { Level } from '../../src/relay/store/level.ts';

/** The stored pair in which the wire bytes that were accepted at this place lie. Throws where there is none. */
export async function wirePairOf(level: Level, target: PublicKey, seq: number): Promise<Pair> {
  const pair = await firstOf(level, payloadKey(target, seq), payloadKey(target, Number.MAX_SAFE_INTEGER));
  return holding(pair, decodeWireRun(...pair), seq);
}

/** The stored pair in which the queue row lies. Throws where there is none. */
export async function rowPairOf(level: Level, target: PublicKey, seq: number): Promise<Pair> {
  const pair = await firstOf(level, queueKey(target, seq), queueKey(target, Number.MAX_SAFE_INTEGER));
  return holding(pair, decodeRowRun(...pair)?.rows, seq);
}

/** The wire bytes go. */
export async function loseWire(level: Level, target: PublicKey, seq: number): Promise<void> {
  const [key, value] = await wirePairOf(level, target, seq);
  const left = decodeWireRun(key, value)?.filter((entry) => entry.seq !== seq) ?? [];
  await (left.length > 0 ? level.put(key, encodeWireRun(key, left)) : level.del(key));
}

/** Other bytes come in place of the wire bytes, under the checksum of those, or under a right one. */
export async function alterWire(
  level: Level,
  target: PublicKey,
  seq: number,
  wire: Buffer,
  { isChecksumRight = false } = {},
): Promise<void> {
  const [key, value] = await wirePairOf(level, target, seq);
  const entries = decodeWireRun(key, value);
  for (const entry of entries ?? []) {
    if (entry.seq !== seq) continue;
    entry.wire = wire;
    if (isChecksumRight) entry.checksum = wireEntry(key, seq, wire).checksum;
  }
  await level.put(key, entries ? encodeWireRun(key, entries) : wire);
}

/** The row goes, and leaves its wire bytes. */
export async function loseRow(level: Level, target: PublicKey, seq: number): Promise<void> {
  const [key, value] = await rowPairOf(level, target, seq);
  const run = decodeRowRun(key, value);
  const left = run?.rows.filter((row) => row.seq !== seq) ?? [];
  await (left.length > 0
    ? level.put(key, encodeRowRun(key, left, run?.isMoved ? run.wireKey : undefined))
    : level.del(key));
}

/** The row cannot be read any more, nor can those beside it. */
export async function breakRow(level: Level, target: PublicKey, seq: number): Promise<void> {
  const [key] = await rowPairOf(level, target, seq);
  await level.put(key, Buffer.from('no row'));
}

/** A stored pair as schema 2 has it: rows and wire bytes of a run each alone. */
export function logicalPairs(pair: Pair): Pair[] {
  const [prefix] = pair[0];
  if (prefix === PREFIX.queue) return rowPairs(pair);
  if (prefix !== PREFIX.payload) return [pair];
  return placedWires(pair).map(([place, wire]) => [place.subarray(0, -BOUND_BYTES), wire]);
}

/** The keys under a prefix, those of items each alone. */
export async function itemKeys(level: Level, prefix: number): Promise<Buffer[]> {
  const pairs = await level.iterator(prefixRange(prefix)).all();
  return pairs.flatMap(logicalPairs).map(([key]) => key);
}

function holding(pair: Pair, members: readonly { seq: number }[] | undefined, seq: number): Pair {
  const seqs = members?.map((member) => member.seq) ?? [seqOf(pair[0])];
  if (!seqs.includes(seq)) throw new Error(`nothing is stored at seq ${seq}`);
  return pair;
}

async function firstOf(level: Level, gte: Buffer, lte: Buffer): Promise<Pair> {
  const [pair] = await level.iterator({ gte, lte, limit: 1 }).all();
  if (!pair) throw new Error(`nothing is stored at or behind ${gte.toString('hex')}`);
  return pair;
}
