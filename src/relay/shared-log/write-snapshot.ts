/**
 * A leader writes a snapshot into the log, and reads it back. What goes wrong with it ends the snapshot and nothing else:
 * one that is not valid is read by nobody.
 */
import { hash } from 'node:crypto';
import type { StopSignal } from '../../lib/periodic-task.ts';
import { TimeSlice } from '../engine/time-slice.ts';
import type { StoreImage } from '../store/log-image.ts';
import type { ViewMark } from '../store/view-mark.ts';
import {
  PartMissing,
  PartsTally,
  SnapshotDamaged,
  type SnapshotManifest,
  decodeManifest,
  decodePart,
  encodeManifest,
  encodedParts,
} from './snapshot-format.ts';
import type { LogSnapshots, SharedLog, Tenure } from './shared-log.ts';

interface WriteOptions {
  log: { snapshots: Pick<LogSnapshots, 'put' | 'part' | 'dropOthers'> };
  tenure: Tenure;
  image: StoreImage;
  /** The view at the moment of the image. */
  mark: Pick<ViewMark, 'no' | 'lastLsn' | 'effects'>;
  /** The record after which the rows were the same already; absent: the last one, and a later one will vouch for them. */
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
  const { log, tenure, image, mark, atMs, signal, checkpointLsn = mark.lastLsn } = options;
  while (await log.snapshots.dropOthers(tenure)) if (signal.aborted) return undefined;
  const { no: throughNo, lastLsn, effects } = mark;
  const slice = new TimeSlice(options.monotonicMs);
  const tally = new PartsTally();
  const hashes: Buffer[] = [];
  const put = async (part: number, body: Buffer): Promise<void> => {
    await log.snapshots.put(tenure, throughNo, part, body);
    hashes[part] = hash('sha256', body, 'buffer');
  };
  for await (const body of encodedParts(image, tally)) {
    if (signal.aborted) return undefined;
    if (body) await put(tally.parts, body);
    if (slice.isOver) await slice.pause();
  }
  const { schemaVersion: schema } = image.snapshot.relay;
  const manifest = { throughNo, lastLsn, effects, schema, checkpointLsn, ...tally.taken(), atMs };
  await put(0, encodeManifest(manifest));
  for (const [part, written] of hashes.entries()) {
    if (signal.aborted) return undefined;
    const stored = await log.snapshots.part(tenure.logId, throughNo, part);
    if (!stored) throw new PartMissing(part);
    if (!hash('sha256', stored, 'buffer').equals(written))
      throw new SnapshotDamaged(`its part ${part} does not come back as it was written`);
  }
  return manifest;
}

/**
 * Reads a snapshot to its end, and returns what it says of itself; `undefined` when `signal` aborted before. Throws
 * `SnapshotDamaged`, and `LogRefused` for one of a newer software.
 */
export async function checkSnapshot(
  log: SharedLog,
  logId: string,
  throughNo: number,
  signal: StopSignal,
): Promise<SnapshotManifest | undefined> {
  const read = async (part: number): Promise<Buffer> => {
    const body = await log.snapshots.part(logId, throughNo, part);
    if (!body) throw new PartMissing(part);
    return body;
  };
  const manifest = decodeManifest(await read(0));
  const tally = new PartsTally();
  for (let part = 1; part <= manifest.parts; part++) {
    if (signal.aborted) return undefined;
    const body = await read(part);
    await decodePart(part, body);
    tally.add(body);
  }
  if (!tally.taken().partsHash.equals(manifest.partsHash))
    throw new SnapshotDamaged('it does not hold what was written');
  return manifest;
}
