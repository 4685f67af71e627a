/**
 * LevelDB's table files against their own checksums, which LevelDB itself does not look at when it reads: a flipped bit
 * comes back as another value, and some end the process in an assertion. So this is read before LevelDB reads them.
 *
 * A table (leveldb/doc/table_format.md): data blocks, filter block, metaindex, index, footer. A block is followed by
 * its compression, u8, and the masked CRC-32C of both, u32. Numbers are little-endian.
 */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Handle, LevelBytes, hasChecksum } from './level-bytes.ts';
import { liveTables } from './live-tables.ts';

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

/** What the block holds; `undefined` when it is not whole. */
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
