/**
 * Snapshots of what a view holds after one batch, in parts that are kept beside the shared log: how a leader takes one,
 * and how it is read. To the byte (DO NOT CHANGE: add a format):
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the number of the part, u32, and what follows, u32 (store/checksum.ts)
 *   5..    of part 0, a MessagePack array: the members of `SnapshotManifest` in their order, hashes as bytes
 *          of every other part, gzip of pairs (lib/pair-block.ts), which ascend over all parts (`imagePairs`)
 *
 * Numbers are big-endian. One that is not valid is read by nobody.
 */
import { createHash } from 'node:crypto';
import { type Pair, packedBlocks, unpackedBlock } from '../../lib/pair-block.ts';
import type { StopSignal } from '../../lib/periodic-task.ts';
import { inTurns } from '../../lib/clock.ts';
import { verifiedBytes, withChecksum } from '../store/checksum.ts';
import { rowPairs } from '../store/item-run.ts';
import { PREFIX, REPLAYED_TABLES, logKey, prefixRange } from '../store/keys.ts';
import { type Layout, asIs, hash, pack, tuple, unpackArray } from '../store/packing.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { CanonicalPairs, RowsDigest, type TakenDigest } from '../store/row-checkpoints.ts';
import { recordRuns } from '../store/record-run.ts';
import { runsOf } from '../store/scan.ts';
import { type StoreSnapshot, TURN } from '../store/store-reader.ts';
import { schemaMark, type ViewMark } from '../store/marks.ts';
import { LogRefused } from './shared-log.ts';

const SNAPSHOT_FORMAT = 1;
/** Bytes of pairs in a part, about. */
const PART_BYTES = 1 << 20;

/**
 * The image is what a database holds of the log at one moment, byte for byte: every row, what is due, how far queues
 * are collected, the hash trees, and the newest records, of which a tree needs those that no full tile holds. How each
 * node packs what it stores is its own concern: every record is alone in it, and the schema is that of the relay row.
 *
 * Left out are what is of one node alone (heartbeat, mark of the view, checkpoints, mark of pruning), the records
 * before, which the log has, and wire bytes.
 */
export interface StoreImage {
  snapshot: StoreSnapshot;
  /** The first record in it. */
  keptFromLsn: number;
}

const KINDS = ['schema', 'log', 'tile', 'logLink', ...REPLAYED_TABLES, 'expiry', 'collected', 'dedupUntil'] as const;
const PREFIXES = KINDS.map((kind) => PREFIX[kind]).toSorted((a, b) => a - b);

/** To be taken while no batch is in flight; the snapshot is to be closed. */
export function imageNow(store: RelayStore): StoreImage {
  // The last record shows how far the log has come.
  const goneLsn = Math.min(store.tree.prunableThrough, store.lastLsn - 1);
  return { snapshot: store.snapshot(), keptFromLsn: goneLsn + 1 };
}

/** Its pairs in the order of their keys, in runs of one turn of the event loop. */
async function* imagePairs({ snapshot, keptFromLsn }: StoreImage): AsyncGenerator<Pair[]> {
  const { level, handle, relay, lsn } = snapshot;
  const reading = { snapshot: handle, ...TURN };
  for (const prefix of PREFIXES) {
    if (prefix === PREFIX.schema) yield [schemaMark(relay.schemaVersion)];
    else if (prefix === PREFIX.log)
      for await (const run of recordRuns(level, keptFromLsn, lsn, reading))
        yield run.map(([at, record]): Pair => [logKey(at), record]);
    else
      for await (const run of runsOf(level, prefixRange(prefix), reading))
        yield prefix === PREFIX.queue ? run.flatMap(rowPairs) : run;
  }
}

/** The first part of a snapshot: what it is of, and what its other parts hold. */
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
  /** Bytes of all parts but this one. */
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

/** The place of the parts of a snapshot. */
export interface SnapshotParts {
  put: (part: number, body: Buffer) => Promise<void>;
  /** A part as it is stored; `undefined` when there is none: it may be of a snapshot that another took the place of. */
  get: (part: number) => Promise<Buffer | undefined>;
}

interface WriteOptions {
  parts: SnapshotParts;
  image: StoreImage;
  /** The view at the moment of the image. */
  mark: Pick<ViewMark, 'no' | 'lastLsn' | 'effects'>;
  /** The record after which the rows were the same; absent: the last one, and a later one will vouch for them. */
  checkpointLsn?: number;
  atMs: number;
  monotonicMs: () => number;
  signal: StopSignal;
}

/**
 * Writes the parts of a snapshot, and compares what is stored with what was written; `undefined` when `signal` aborted
 * before. Throws `SnapshotDamaged`, `DamagedRow`, `Fenced`, and what keeps the log from being reached.
 */
export async function writeSnapshot(options: WriteOptions): Promise<SnapshotManifest | undefined> {
  const { parts, image, mark, atMs, monotonicMs, signal, checkpointLsn = mark.lastLsn } = options;
  const { no: throughNo, lastLsn, effects } = mark;
  const canonical = new CanonicalPairs();
  const rows = new RowsDigest();
  const tally = new PartsTally();
  const put = async (part: number, content: Buffer): Promise<Buffer> => {
    const body = withChecksum(partKey(part), content);
    await parts.put(part, body);
    return body;
  };
  const runs = rows.passed(inTurns(imagePairs(image), monotonicMs), (run) => canonical.of(run));
  for await (const packed of packedBlocks(runs, PART_BYTES)) {
    if (signal.aborted) return undefined;
    tally.add(await put(tally.parts + 1, packed));
  }
  const { schemaVersion: schema } = image.snapshot.relay;
  const manifest = { throughNo, lastLsn, effects, schema, checkpointLsn, ...rows.taken(), ...tally.taken(), atMs };
  const written = await put(0, pack(manifestFields.pack(manifest)));
  if (!(await stored(parts, 0)).equals(written))
    throw new SnapshotDamaged('its part 0 does not come back as it was written');
  return readWhole(parts, signal);
}

/** A snapshot as it is read. Believe nothing of it before `pairs` has ended without throwing. */
export interface ReadSnapshot {
  manifest: SnapshotManifest;
  /** The pairs of each part. Throws as `readSnapshot`. */
  pairs: AsyncGenerator<Pair[]>;
}

/** Reads the beginning of a snapshot. Throws `SnapshotDamaged`, and `LogRefused` for one of a newer software. */
export async function readSnapshot(parts: Pick<SnapshotParts, 'get'>): Promise<ReadSnapshot> {
  const manifest = decodeManifest(await stored(parts, 0));
  return { manifest, pairs: pairsOf(parts, manifest) };
}

/** Reads a snapshot to its end; `undefined` when `signal` aborted before. Throws as `readSnapshot`. */
export async function readWhole(
  parts: Pick<SnapshotParts, 'get'>,
  signal: StopSignal,
): Promise<SnapshotManifest | undefined> {
  const { manifest, pairs } = await readSnapshot(parts);
  for await (const _pairs of pairs) if (signal.aborted) return undefined;
  return manifest;
}

async function* pairsOf(parts: Pick<SnapshotParts, 'get'>, manifest: SnapshotManifest): AsyncGenerator<Pair[]> {
  const tally = new PartsTally();
  while (tally.parts < manifest.parts) {
    const part = tally.parts + 1;
    const body = await stored(parts, part);
    tally.add(body);
    const pairs = await unpackedBlock(unframe(part, body));
    if (!pairs) throw new SnapshotDamaged(`its part ${part} cannot be read`);
    yield pairs;
  }
  if (!tally.taken().partsHash.equals(manifest.partsHash))
    throw new SnapshotDamaged('it does not hold what was written');
}

async function stored(parts: Pick<SnapshotParts, 'get'>, part: number): Promise<Buffer> {
  const body = await parts.get(part);
  if (!body) throw new SnapshotDamaged(`its part ${part} is missing`);
  return body;
}

/** Throws `SnapshotDamaged`, and `LogRefused` for a format that this software does not know. */
export function decodeManifest(body: Buffer): SnapshotManifest {
  return manifestFields.unpack(unpackArray(unframe(0, body)));
}

/** The sum of the parts of a snapshot, while they are made or read. */
class PartsTally {
  parts = 0;
  bytes = 0;
  readonly #hash = createHash('sha256');

  add(body: Buffer): void {
    this.parts++;
    this.bytes += body.length;
    this.#hash.update(body);
  }

  /** The sum of everything that was added; nothing can be added afterwards. */
  taken(): Pick<SnapshotManifest, 'parts' | 'bytes' | 'partsHash'> {
    const { parts, bytes } = this;
    return { parts, bytes, partsHash: this.#hash.digest() };
  }
}

function unframe(part: number, body: Buffer): Buffer {
  const [format = 0] = body;
  if (format > SNAPSHOT_FORMAT)
    throw new LogRefused(
      `the snapshot in the log has the format ${format} and this software knows ` +
        `${SNAPSHOT_FORMAT}: start the newer software`,
    );
  const bytes = verifiedBytes(partKey(part), body);
  if (!bytes) throw new SnapshotDamaged(`its part ${part} does not match its checksum`);
  return bytes;
}

/** The checksum of a part covers its number as that of a row covers its key. */
function partKey(part: number): Buffer {
  const key = Buffer.alloc(4);
  key.writeUInt32BE(part);
  return key;
}
