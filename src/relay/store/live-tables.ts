/**
 * Which table files a LevelDB database consists of, read without opening it, and CURRENT made anew. Others lie beside
 * them after a crash or an error: half written, or replaced and not deleted yet. LevelDB deletes those when it opens
 * the database.
 *
 * CURRENT names the MANIFEST, a log (leveldb/doc/log_format.md) of version edits (leveldb/db/version_edit.cc), each of
 * which adds tables and takes some away.
 */
import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../../lib/files.ts';
import { LevelBytes, hasChecksum } from './level-bytes.ts';

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
/** Without one of these LevelDB reads no MANIFEST: number of its log, next number of a file, last sequence. */
const NEEDED = [2, 3, 4];
const DELETED = 6;
const ADDED = 7;

/** The numbers of its tables; `undefined` where CURRENT or the MANIFEST cannot be read to the end. */
export async function liveTables(folder: string): Promise<ReadonlySet<number> | undefined> {
  const manifest = await namedManifest(folder);
  return manifest === undefined ? undefined : tablesIn(join(folder, manifest));
}

/** The MANIFEST that CURRENT names; `undefined` where CURRENT is missing or torn, or names none that is there. */
async function namedManifest(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, 'CURRENT'), 'latin1').catch(() => '');
  const name = /^(?<name>MANIFEST-\d+)\n$/.exec(text)?.groups?.['name'];
  return name !== undefined && existsSync(join(folder, name)) ? name : undefined;
}

/** Whether the database has lost its CURRENT, or holds one that is torn: LevelDB does not open it. */
export async function isCurrentTorn(folder: string): Promise<boolean> {
  return (await namedManifest(folder)) === undefined;
}

/**
 * Makes a CURRENT that is missing or torn anew, and returns the MANIFEST that it names. LevelDB writes a MANIFEST to
 * its end before CURRENT names it, and then deletes the one before: so it is the newest, if that is whole and all its
 * tables are there; else nothing is changed, and it is `undefined`. The caller holds the lock of the database. What its
 * write-ahead log lacks is found as ever, by the numbers of the records and by the position.
 */
export async function mendCurrent(folder: string): Promise<string | undefined> {
  const names = await readdir(folder);
  const newest = names.toSorted((one, other) => manifestNumber(one) - manifestNumber(other)).at(-1);
  if (newest === undefined || manifestNumber(newest) < 0) return undefined;
  const tables = await tablesIn(join(folder, newest));
  const there = new Set(names.filter((name) => /\.(?:ldb|sst)$/.test(name)).map((name) => Number.parseInt(name, 10)));
  if (!tables || [...tables].some((number) => !there.has(number))) return undefined;
  await replaceFile(join(folder, 'CURRENT'), `${newest}\n`);
  return newest;
}

/** -1 for another file. */
function manifestNumber(name: string): number {
  return Number(/^MANIFEST-(?<number>\d+)$/.exec(name)?.groups?.['number'] ?? -1);
}

async function tablesIn(manifest: string): Promise<Set<number> | undefined> {
  const seen = new Set<number>();
  const bytes = await readFile(manifest).catch(() => undefined);
  if (!bytes) return undefined;
  const live = new Set<number>();
  for (const record of recordsOf(bytes)) if (!record || !applied(record, live, seen)) return undefined;
  return NEEDED.every((tag) => seen.has(tag)) ? live : undefined;
}

/** Ends with `undefined` at one that does not match its checksum. A last one cut short by a crash was never used. */
function* recordsOf(log: Buffer): Generator<Buffer | undefined> {
  let parts: Buffer[] = [];
  for (let at = 0; at + HEADER_BYTES <= log.length; ) {
    const left = BLOCK_BYTES - (at % BLOCK_BYTES);
    if (left < HEADER_BYTES) {
      at += left;
      continue;
    }
    const [length, kind] = [log.readUInt16LE(at + 4), log.readUInt8(at + 6)];
    const end = at + HEADER_BYTES + length;
    if (end > log.length) return;
    if (!hasChecksum(log.subarray(at + HEADER_BYTES - 1, end), log.readUInt32LE(at))) {
      yield undefined;
      return;
    }
    parts.push(log.subarray(at + HEADER_BYTES, end));
    at = end;
    if (kind !== FULL && kind !== LAST) continue;
    yield Buffer.concat(parts);
    parts = [];
  }
}

/** Whether the edit could be read. */
function applied(edit: Buffer, live: Set<number>, seen: Set<number>): boolean {
  const reader = new LevelBytes(edit);
  while (!reader.isAtEnd) {
    const tag = reader.varint() ?? 0;
    const fields = FIELDS[tag];
    if (fields === undefined) return false;
    seen.add(tag);
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
