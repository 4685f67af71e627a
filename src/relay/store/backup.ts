/**
 * A backup file, to the byte:
 *
 *   "poste-backup 1\n"
 *   header     u32 length, JSON: `BackupHeader`
 *   block      u32 length, gzip of pairs: u32 key length, u32 value length, key, value
 *   …
 *   end        u32 0
 *   trailer    u32 length, JSON: `BackupTrailer`; its hash covers every byte before it, and what it says of damage
 *
 * Numbers are big-endian. The pairs are those of the store at one moment, in the order of their keys. A file that ends
 * early, holds a byte more, or differs in one from what was written is refused. The relay's private key is not in it.
 */
import { type Hash, createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, EpochText, HashText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { WireCheck, type WireDamage } from './wire-check.ts';

const MAGIC = Buffer.from('poste-backup 1\n');
const LENGTH = 4;
/** Bytes of pairs that are compressed together. */
const BLOCK_BYTES = 1 << 20;
/** More than any block or trailer of ours, and little enough to hold. */
const BLOCK_BYTES_MAX = 64 << 20;
const PAIRS_AT_ONCE = 512;
/** Compressing is to keep up with the disk. */
const GZIP_LEVEL = 1;
/** Blocks that are being compressed while others are written. */
const GZIPS_AHEAD = 3;

const BackupHeader = Type.Object({
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  schema_version: Count,
  /** The last log record in it. */
  lsn: Count,
  created_at: Time,
  /** The software that wrote it. */
  version: Type.String(),
});
export type BackupHeader = Static<typeof BackupHeader>;

const BackupTrailer = Type.Object({
  pairs: Count,
  /** Of all keys and values, before they were compressed. */
  bytes: Count,
  /** Of everything before the trailer, and of `damageText`. */
  sha256: HashText,
  /** Waiting items whose wire bytes were missing or altered already when it was written; absent in older files. */
  damaged_items: Type.Optional(Count),
  /** Rows of queues that could not be read; absent in older files. */
  unreadable_rows: Type.Optional(Count),
});
export type BackupTrailer = Static<typeof BackupTrailer>;

const parseHeader = parserOf(BackupHeader);
const parseTrailer = parserOf(BackupTrailer);

/** Thrown for a file that is no backup, or not whole, or not as it was written. The message completes a sentence. */
export class BackupDamaged extends Error {}

/**
 * Everything that is in `level`, or in the snapshot of it, as it is: wire bytes that are missing or altered too, which a
 * restore drops. The trailer counts those, and comes when `checked` was told of them and is done.
 */
export async function* writeBackup(
  level: Level,
  header: BackupHeader,
  snapshot?: LevelSnapshot,
  checked: (damage: WireDamage) => Promise<void> = () => Promise.resolve(),
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  const covered = (part: Buffer): Buffer => {
    hash.update(part);
    return part;
  };
  yield covered(Buffer.concat([MAGIC, prefixed(Buffer.from(JSON.stringify(header)))]));
  const totals = { pairs: 0, bytes: 0 };
  const check = new WireCheck(level, snapshot);
  let damage: WireDamage;
  try {
    for await (const block of blocksOf(level, snapshot, totals, check)) yield covered(prefixed(block));
    damage = await check.end();
  } finally {
    await check.close();
  }
  await checked(damage);
  yield covered(Buffer.alloc(LENGTH));
  const said = { damaged_items: damage.items, unreadable_rows: damage.unreadable };
  hash.update(damageText(said));
  const trailer: BackupTrailer = { ...totals, sha256: hash.digest('hex'), ...said };
  yield prefixed(Buffer.from(JSON.stringify(trailer)));
}

async function* blocksOf(
  level: Level,
  snapshot: LevelSnapshot | undefined,
  totals: { pairs: number; bytes: number },
  check: WireCheck,
): AsyncGenerator<Buffer> {
  const iterator = level.iterator({ fillCache: false, highWaterMarkBytes: BLOCK_BYTES, ...(snapshot && { snapshot }) });
  const compressing: Promise<Buffer>[] = [];
  try {
    let parts: Buffer[] = [];
    let bytes = 0;
    for (;;) {
      const run = await iterator.nextv(PAIRS_AT_ONCE);
      for (const [key, value] of run) {
        const lengths = Buffer.allocUnsafe(2 * LENGTH);
        lengths.writeUInt32BE(key.length, 0);
        lengths.writeUInt32BE(value.length, LENGTH);
        parts.push(lengths, key, value);
        bytes += key.length + value.length;
        totals.pairs++;
      }
      await check.pass(run);
      if (bytes >= BLOCK_BYTES || (run.length === 0 && bytes > 0)) {
        totals.bytes += bytes;
        const block = promisify(gzip)(Buffer.concat(parts), { level: GZIP_LEVEL });
        // One that fails when its reader has gone must not end the process.
        block.catch(() => undefined);
        compressing.push(block);
        parts = [];
        bytes = 0;
      }
      const aheadMax = run.length === 0 ? 0 : GZIPS_AHEAD;
      for (; compressing.length > aheadMax; compressing.shift()) {
        const [oldest] = compressing;
        if (oldest) yield await oldest;
      }
      if (run.length === 0) return;
    }
  } finally {
    await iterator.close();
  }
}

export type Pair = [key: Buffer, value: Buffer];

/** A backup as it is read; nothing of it may be believed before `pairs` has ended without throwing. */
export interface ReadBackup {
  header: BackupHeader;
  /** Runs of pairs, ascending. Throws `BackupDamaged`. */
  pairs: AsyncGenerator<Pair[], BackupTrailer>;
}

/** Reads the beginning of a backup. Throws `BackupDamaged`. */
export async function readBackup(source: AsyncIterable<Buffer>): Promise<ReadBackup> {
  const bytes = new ByteReader(source);
  const magic = await bytes.take(MAGIC.length);
  if (!magic?.equals(MAGIC)) throw new BackupDamaged('it is no backup of a relay, or of a newer kind');
  const header = parsed(await block(bytes), parseHeader);
  return { header, pairs: pairsOf(bytes) };
}

async function* pairsOf(bytes: ByteReader): AsyncGenerator<Pair[], BackupTrailer> {
  const totals = { pairs: 0, bytes: 0 };
  for (let packed = await block(bytes); packed.length > 0; packed = await block(bytes)) {
    const run = unpacked(await promisify(gunzip)(packed, { maxOutputLength: BLOCK_BYTES_MAX }).catch(() => undefined));
    totals.pairs += run.length;
    for (const [key, value] of run) totals.bytes += key.length + value.length;
    yield run;
  }
  const covered = bytes.hash();
  const trailer = parsed(await block(bytes), parseTrailer);
  if ((await bytes.take(1)) !== undefined) throw new BackupDamaged('something follows its end');
  if (trailer.sha256 !== covered.update(damageText(trailer)).digest('hex'))
    throw new BackupDamaged('its SHA-256 does not match');
  if (trailer.pairs !== totals.pairs || trailer.bytes !== totals.bytes) {
    throw new BackupDamaged('its counts do not match');
  }
  return trailer;
}

/** What a trailer says of damage, as its hash covers it: nothing in older files. */
function damageText({ damaged_items, unreadable_rows }: Partial<BackupTrailer>): string {
  if (damaged_items === undefined && unreadable_rows === undefined) return '';
  return JSON.stringify({ damaged_items, unreadable_rows });
}

function unpacked(text: Buffer | undefined): Pair[] {
  if (!text) throw new BackupDamaged('a block of it is altered');
  const run: Pair[] = [];
  let at = 0;
  while (at < text.length) {
    if (at + 2 * LENGTH > text.length) break;
    const keyAt = at + 2 * LENGTH;
    const valueAt = keyAt + text.readUInt32BE(at);
    const end = valueAt + text.readUInt32BE(at + LENGTH);
    if (end > text.length) break;
    run.push([text.subarray(keyAt, valueAt), text.subarray(valueAt, end)]);
    at = end;
  }
  if (at < text.length) throw new BackupDamaged('a block of it is altered');
  return run;
}

function parsed<T>(text: Buffer, parse: (value: unknown) => T | undefined): T {
  let value: unknown;
  try {
    value = JSON.parse(text.toString());
  } catch {
    // Said below.
  }
  const document = parse(value);
  if (!document) throw new BackupDamaged('its header or trailer is altered');
  return document;
}

async function block(bytes: ByteReader): Promise<Buffer> {
  const length = await bytes.take(LENGTH);
  if (!length) throw new BackupDamaged('it ends before its end');
  const size = length.readUInt32BE(0);
  if (size > BLOCK_BYTES_MAX) throw new BackupDamaged('a block of it is altered');
  const content = await bytes.take(size);
  if (!content) throw new BackupDamaged('it ends before its end');
  return content;
}

function prefixed(content: Buffer): Buffer {
  const length = Buffer.allocUnsafe(LENGTH);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}

/** Takes exact numbers of bytes off a stream of chunks, and hashes what was taken. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #hash = createHash('sha256');
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** The next bytes; `undefined` when the stream ends before them. */
  async take(count: number): Promise<Buffer | undefined> {
    const parts = [this.#rest];
    let held = this.#rest.length;
    while (held < count) {
      const next = await this.#chunks.next();
      if (next.done) return undefined;
      parts.push(next.value);
      held += next.value.length;
    }
    const all = Buffer.concat(parts);
    const taken = all.subarray(0, count);
    this.#rest = all.subarray(count);
    this.#hash.update(taken);
    return taken;
  }

  /** SHA-256 of everything that was taken so far. */
  hash(): Hash {
    return this.#hash.copy();
  }
}
