/**
 * The parts of a snapshot in a shared log, to the byte. DO NOT CHANGE: add a format.
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the number of the part, u32, and what follows, u32
 *   5..    of part 0, a MessagePack array: the members of `SnapshotManifest` in their order, hashes as bytes
 *          of every other part, gzip of pairs (lib/pair-block.ts), which ascend over all parts (store/log-image.ts)
 *
 * Numbers are big-endian.
 */
import { type Hash, createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { crc32, gunzip, gzip } from 'node:zlib';
import { type Pair, PairBlock, unpackedPairs } from '../../lib/pair-block.ts';
import { type StoreImage, imagePairs } from '../store/log-image.ts';
import { type Layout, asIs, hash, pack, tuple, unpackArray } from '../store/packing.ts';
import { CanonicalPairs, RowsDigest, type TakenDigest } from '../store/row-checkpoints.ts';
import { LogRefused } from './shared-log.ts';

const SNAPSHOT_FORMAT = 1;
const HEADER_BYTES = 5;
/** Bytes of pairs in a part, about. */
const PART_BYTES = 1 << 20;
const PART_BYTES_MAX = 64 << 20;
const GZIP_LEVEL = 1;

/** What a snapshot is of, and what its other parts hold. */
export interface SnapshotManifest extends TakenDigest {
  /** The batch after which the view was like this, with its last record and its effects. */
  throughNo: number;
  lastLsn: number;
  effects: Buffer;
  schema: number;
  /** The rows are those after this record: the event `CheckpointTaken` that names it vouches for them in the log. */
  checkpointLsn: number;
  /** Besides this one. */
  parts: number;
  /** SHA-256 over those parts, one after another. */
  partsHash: Buffer;
  /** Of all parts but this one. */
  bytes: number;
  atMs: number;
}

const MANIFEST: Layout<SnapshotManifest> = {
  throughNo: asIs,
  lastLsn: asIs,
  effects: asIs,
  schema: asIs,
  checkpointLsn: asIs,
  rows: asIs,
  rowsHash: hash,
  dueHash: hash,
  parts: asIs,
  partsHash: asIs,
  bytes: asIs,
  atMs: asIs,
};
const manifestFields = tuple<SnapshotManifest>(MANIFEST);

/** Thrown for a snapshot that is not what was written. The message completes a sentence. */
export class SnapshotDamaged extends Error {}

/** Thrown when a part is not there: it may be of a snapshot that another took the place of. */
export class PartMissing extends SnapshotDamaged {
  constructor(part: number) {
    super(`its part ${part} is missing`);
  }
}

export function encodeManifest(manifest: SnapshotManifest): Buffer {
  return framed(0, pack(manifestFields.pack(manifest)));
}

/** Throws `SnapshotDamaged`, and `LogRefused` for a format that this software does not know. */
export function decodeManifest(body: Buffer): SnapshotManifest {
  return manifestFields.unpack(unpackArray(unframed(0, body)));
}

/** What the parts of a snapshot come to, while they are made or read. */
export class PartsTally {
  parts = 0;
  bytes = 0;
  readonly rows = new RowsDigest();
  readonly #hash: Hash = createHash('sha256');

  add(body: Buffer): void {
    this.parts++;
    this.bytes += body.length;
    this.#hash.update(body);
  }

  /** Of everything that was added; nothing can be added afterwards. */
  taken(): Pick<SnapshotManifest, 'parts' | 'bytes' | 'partsHash' | keyof TakenDigest> {
    const { parts, bytes } = this;
    return { parts, bytes, partsHash: this.#hash.digest(), ...this.rows.taken() };
  }
}

/** The parts from 1 on that hold `image`; `undefined` after work that fills none. Adds to `tally`. Throws `DamagedRow`. */
export async function* encodedParts(image: StoreImage, tally: PartsTally): AsyncGenerator<Buffer | undefined> {
  const canonical = new CanonicalPairs();
  const block = new PairBlock();
  const part = async (): Promise<Buffer> => {
    const packed = await promisify(gzip)(block.taken().block, { level: GZIP_LEVEL });
    const body = framed(tally.parts + 1, packed);
    tally.add(body);
    return body;
  };
  for await (const run of imagePairs(image)) {
    for (const pair of run) block.add(pair);
    for (const pair of canonical.of(run)) tally.rows.add(pair);
    yield block.bytes < PART_BYTES ? undefined : await part();
  }
  if (block.pairs > 0) yield await part();
}

/** The pairs of a part. Throws as `decodeManifest`. */
export async function decodePart(part: number, body: Buffer): Promise<Pair[]> {
  const packed = unframed(part, body);
  const block = await promisify(gunzip)(packed, { maxOutputLength: PART_BYTES_MAX }).catch(() => undefined);
  const pairs = block && unpackedPairs(block);
  if (!pairs) throw new SnapshotDamaged(`its part ${part} cannot be read`);
  return pairs;
}

function framed(part: number, bytes: Buffer): Buffer {
  const body = Buffer.allocUnsafe(HEADER_BYTES + bytes.length);
  body[0] = SNAPSHOT_FORMAT;
  body.writeUInt32BE(checksumOf(part, bytes), 1);
  bytes.copy(body, HEADER_BYTES);
  return body;
}

function unframed(part: number, body: Buffer): Buffer {
  const [format = 0] = body;
  if (format > SNAPSHOT_FORMAT)
    throw new LogRefused(
      `the snapshot in the log has the format ${format} and this software knows ${SNAPSHOT_FORMAT}: start the newer software`,
    );
  const bytes = body.subarray(HEADER_BYTES);
  if (format !== SNAPSHOT_FORMAT || bytes.length === 0 || body.readUInt32BE(1) !== checksumOf(part, bytes))
    throw new SnapshotDamaged(`its part ${part} does not match its checksum`);
  return bytes;
}

function checksumOf(part: number, bytes: Buffer): number {
  const number = Buffer.alloc(4);
  number.writeUInt32BE(part);
  return crc32(bytes, crc32(number));
}
