/**
 * Which table files a LevelDB database consists of, read without opening it. Others lie beside them after a crash or an
 * error: half written, or replaced and not deleted yet. LevelDB deletes those when it opens the database.
 *
 * CURRENT names the MANIFEST, a log (leveldb/doc/log_format.md) of version edits (leveldb/db/version_edit.cc), each of which
 * adds tables and takes some away.
 */
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { LevelBytes } from './level-bytes.ts';

const BLOCK_BYTES = 32 << 10;
const HEADER_BYTES = 7;
/** Kinds of a fragment of a record. */
const [FULL, LAST] = [1, 4];

/** What a field of a version edit consists of, by its tag: v a varint, b bytes with their length. */
const FIELDS: Readonly<Record<number, string>> = {
  1: 'b',
  2: 'v',
  3: 'v',
  4: 'v',
  5: 'vb',
  6: 'vv',
  7: 'vvvbb',
  9: 'v',
};
const DELETED = 6;
const ADDED = 7;

/** The numbers of its tables; `undefined` where CURRENT or the MANIFEST cannot be read to the end. */
export async function liveTables(folder: string): Promise<ReadonlySet<number> | undefined> {
  let manifest: Buffer;
  try {
    const name = (await readFile(join(folder, 'CURRENT'), 'latin1')).trimEnd();
    manifest = await readFile(join(folder, basename(name)));
  } catch {
    return undefined;
  }
  const live = new Set<number>();
  for (const record of recordsOf(manifest)) if (!applied(record, live)) return undefined;
  return live;
}

/** Without their checksums: what reads as another edit names tables that are not there, and LevelDB refuses that. */
function* recordsOf(log: Buffer): Generator<Buffer> {
  let parts: Buffer[] = [];
  for (let at = 0; at + HEADER_BYTES <= log.length; ) {
    const left = BLOCK_BYTES - (at % BLOCK_BYTES);
    if (left < HEADER_BYTES) {
      at += left;
      continue;
    }
    const [length, kind] = [log.readUInt16LE(at + 4), log.readUInt8(at + 6)];
    at += HEADER_BYTES;
    parts.push(log.subarray(at, at + length));
    at += length;
    if (kind !== FULL && kind !== LAST) continue;
    yield Buffer.concat(parts);
    parts = [];
  }
}

/** Whether the edit could be read. */
function applied(edit: Buffer, live: Set<number>): boolean {
  const reader = new LevelBytes(edit);
  while (!reader.isAtEnd) {
    const tag = reader.varint() ?? 0;
    const fields = FIELDS[tag];
    if (fields === undefined) return false;
    const numbers: number[] = [];
    for (const field of fields) {
      const number = reader.varint();
      if (number === undefined || (field === 'b' && !reader.skip(0, number))) return false;
      numbers.push(number);
    }
    // The level, and then the number of the file.
    if (tag === ADDED) live.add(numbers[1] ?? 0);
    if (tag === DELETED) live.delete(numbers[1] ?? 0);
  }
  return true;
}
