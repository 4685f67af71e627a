/**
 * The files of a LevelDB database, read without opening it.
 *
 * CURRENT names the MANIFEST, a log (leveldb/doc/log_format.md) of version edits (leveldb/db/version_edit.cc), each of
 * which adds tables and takes some away. Other tables lie beside them after a crash or an error: half written, or
 * replaced and not deleted yet. LevelDB deletes those when it opens the database.
 *
 * Tables are compared with their own checksums, which LevelDB itself does not look at when it reads: a flipped bit
 * comes back as another value, and some end the process in an assertion. So this is read before LevelDB reads them.
 *
 * A table (leveldb/doc/table_format.md): data blocks, filter block, metaindex, index, footer. A block is followed by
 * its compression, u8, and the masked CRC-32C of both, u32. Numbers are little-endian.
 */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { existsSync } from 'node:fs';
import { replaceFile } from '../../lib/files.ts';

const FOOTER_BYTES = 48;
const MAGIC = 0xdb4775248b80fb57n;
const TRAILER_BYTES = 5;
/** A table holds 8 MiB, or one value that is larger. */
const BLOCK_BYTES_MAX = 64 << 20;

export interface TableDamage {
  file: string;
  /** In words that complete "the table file ...". */
  what: string;
  offset: number;
}

/** Looks at every table of the database at `folder`, whose lock the caller holds; answers the damaged ones. */
export async function damagedTables(folder: string): Promise<TableDamage[]> {
  const damages: TableDamage[] = [];
  const live = await liveTables(folder);
  const isLive = (number: string | undefined): boolean =>
    number !== undefined && (live === undefined || live.has(Number(number)));
  const names = (await readdir(folder)).filter((name) => isLive(/^(?<number>\d+)\.(?:ldb|sst)$/.exec(name)?.[1]));
  for (const file of names.toSorted()) {
    const table = await readFile(join(folder, file)).catch((error: NodeJS.ErrnoException) => {
      // A compaction dropped it meanwhile.
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    const damage = table && damageOf(table);
    if (damage) damages.push({ file, ...damage });
  }
  return damages;
}

/** The first thing that is wrong with the table. */
function damageOf(table: Buffer): Omit<TableDamage, 'file'> | undefined {
  const footerAt = table.length - FOOTER_BYTES;
  if (footerAt < 0 || table.readBigUInt64LE(table.length - 8) !== MAGIC) return { what: 'has no end', offset: 0 };
  const handles = new LevelBytes(table.subarray(footerAt));
  const meta = handles.handle();
  const index = handles.handle();
  if (!meta || !index) return { what: 'has an end that cannot be read', offset: footerAt };
  for (const [name, handle] of Object.entries({ metaindex: meta, index })) {
    const block = blockAt(table, handle);
    if (!block) return { what: `has a ${name} that does not match its checksum`, offset: handle.offset };
    for (const one of handlesIn(block)) {
      if (!one) return { what: `has a ${name} that cannot be read`, offset: handle.offset };
      if (!isWhole(table, one)) return { what: 'has a block that does not match its checksum', offset: one.offset };
    }
  }
  return undefined;
}

function isWhole(table: Buffer, { offset, size }: Handle): boolean {
  const end = offset + size + TRAILER_BYTES;
  if (size > BLOCK_BYTES_MAX || end > table.length - FOOTER_BYTES) return false;
  return hasChecksum(table.subarray(offset, end - 4), table.readUInt32LE(end - 4));
}

/** Returns what the block holds; `undefined` when it is not whole. */
function blockAt(table: Buffer, handle: Handle): Buffer | undefined {
  if (!isWhole(table, handle)) return undefined;
  const end = handle.offset + handle.size;
  const content = table.subarray(handle.offset, end);
  return table[end] === 0 ? content : decompressSnappy(content);
}

/** The handles that the entries of an index or metaindex name. */
function* handlesIn(block: Buffer): Generator<Handle | undefined> {
  const restarts = block.length < 4 ? -1 : block.length - 4 * (block.readUInt32LE(block.length - 4) + 1);
  if (restarts < 0) {
    yield undefined;
    return;
  }
  const entries = new LevelBytes(block.subarray(0, restarts));
  while (!entries.isAtEnd) {
    const [, unshared, valueBytes] = [entries.varint(), entries.varint(), entries.varint()];
    const value = unshared === undefined || valueBytes === undefined ? undefined : entries.skip(unshared, valueBytes);
    yield value && new LevelBytes(value).handle();
    if (!value) return;
  }
}

/** Snappy's raw format (google/snappy, format_description.txt); `undefined` when it is none. */
function decompressSnappy(packed: Buffer): Buffer | undefined {
  const reader = new LevelBytes(packed);
  const length = reader.varint();
  if (length === undefined || length > BLOCK_BYTES_MAX) return undefined;
  const out = Buffer.alloc(length);
  let end = 0;
  while (!reader.isAtEnd) {
    const tag = reader.skip(0, 1)?.[0] ?? 0;
    if (tag % 4 === 0) {
      const extra = Math.max(0, (tag >> 2) - 59);
      const bytes = reader.skip(0, extra);
      if (!bytes) return undefined;
      const literal = reader.skip(0, (extra === 0 ? tag >> 2 : bytes.readUIntLE(0, extra)) + 1);
      if (!literal || end + literal.length > length) return undefined;
      end += literal.copy(out, end);
      continue;
    }
    const rest = reader.skip(0, [0, 1, 2, 4][tag % 4] ?? 0);
    if (!rest) return undefined;
    const back = tag % 4 === 1 ? ((tag >> 5) << 8) + (rest[0] ?? 0) : rest.readUIntLE(0, rest.length);
    const count = tag % 4 === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    if (back === 0 || back > end || end + count > length) return undefined;
    for (let copied = 0; copied < count; copied++, end++) out[end] = out[end - back] ?? 0;
  }
  return end === length ? out : undefined;
}

const BLOCK_BYTES = 32 << 10;
const HEADER_BYTES = 7;
/** Kinds of a fragment of a record. */
const [FULL, LAST] = [1, 4];

/** The parts of a field of a version edit, by its tag: v a varint, b bytes with their length. */
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

/** Says whether the database has lost its CURRENT, or holds one that is torn: LevelDB does not open it. */
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
  for (const record of recordsOf(bytes)) if (!record || !applyEdit(record, live, seen)) return undefined;
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

/** Says whether the edit could be read. */
function applyEdit(edit: Buffer, live: Set<number>, seen: Set<number>): boolean {
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

/** The place of a block in a table. */
interface Handle {
  offset: number;
  size: number;
}

/** Bytes of LevelDB's files, read from their beginning: numbers of seven bits a byte, and what they say follows. */
class LevelBytes {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): number | undefined {
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 128) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) return undefined;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    return undefined;
  }

  handle(): Handle | undefined {
    const [offset, size] = [this.varint(), this.varint()];
    return offset === undefined || size === undefined ? undefined : { offset, size };
  }

  /** Passes over `unread` bytes and takes `count`; `undefined` when there are not so many. */
  skip(unread: number, count: number): Buffer | undefined {
    const from = this.#at + unread;
    this.#at = from + count;
    return this.#at > this.#bytes.length ? undefined : this.#bytes.subarray(from, this.#at);
  }
}

const MASK = 0xa282ead8;

/** Says whether the bytes have this checksum, which LevelDB masks. */
function hasChecksum(bytes: Buffer, masked: number): boolean {
  const rotated = (masked - MASK) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0 === crc32c(bytes);
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_none, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

/** CRC-32C (Castagnoli, RFC 3720), which zlib does not have. */
function crc32c(bytes: Buffer): number {
  let crc = 0xffff_ffff;
  // A loop over positions is three times as fast as one over the bytes.
  for (let at = 0; at < bytes.length; at++) {
    crc = (CRC_TABLE[(crc ^ (bytes[at] as number)) & 255] as number) ^ (crc >>> 8);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}
