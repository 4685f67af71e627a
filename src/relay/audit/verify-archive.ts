/**
 * An archive of the log that was read to its end already, so that its bytes are what was written: whether its records can
 * be read, and whether they are those that the hash tree holds, as far as the archive has tiles of it.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { HASH_BYTES, leafHash } from '../../protocol/merkle.ts';
import { tileKey } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { type TreeStart, leafIndex, treeStarts } from '../store/log-tree.ts';
import type { OfflineStore } from '../store/offline.ts';
import { DamagedRecord } from '../store/record.ts';
import { TILE_HASHES, decodeTreePart } from '../store/tiles.ts';
import { type Finding, Findings, type Progress } from './finding.ts';
import { auditedRecords } from './records.ts';

export interface ArchiveReport {
  findings: readonly Finding[];
  found: number;
  firstLsn: number;
  lastLsn: number;
  /** Records whose hash in the tree the archive has. */
  hashed: number;
  relayPubkey: PublicKey | undefined;
}

export async function* verifyArchive(offline: OfflineStore): AsyncGenerator<Progress, ArchiveReport> {
  const { firstLsn, lastLsn } = offline.store;
  const findings = new Findings();
  let hashed = 0;
  let starts: TreeStart[] = [];
  try {
    starts = await treeStarts(offline.level);
    const hashes = new LeafHashes(offline.level, starts);
    for await (const run of auditedRecords(offline)) {
      for (const { lsn, record } of run) {
        const own = await hashes.of(lsn);
        if (!own) continue;
        hashed++;
        if (own.equals(leafHash(record))) continue;
        findings.add('TREE_DIFFERS', `log record ${lsn} is not the one that the hash tree holds`, { lsn });
      }
      yield { stage: 'archive', done: run.at(-1)?.lsn ?? 0, of: lastLsn };
    }
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add('RECORD_DAMAGED', error.message);
  }
  const { told, total } = findings;
  return { findings: told, found: total, firstLsn, lastLsn, hashed, relayPubkey: starts.at(-1)?.relayPubkey };
}

/** The hashes of records in the order of the log; `undefined` where the archive has no tile. */
class LeafHashes {
  readonly #level: Level;
  readonly #starts: readonly TreeStart[];
  #place = '';
  #tile: Buffer | undefined;

  constructor(level: Level, starts: readonly TreeStart[]) {
    this.#level = level;
    this.#starts = starts;
  }

  /** Throws `DamagedRecord`. */
  async of(lsn: number): Promise<Buffer | undefined> {
    const start = this.#starts.findLast(({ firstLsn }) => firstLsn <= lsn);
    if (!start) return undefined;
    const index = leafIndex(start, lsn);
    const key = tileKey(start.firstLsn, 0, Math.floor(index / TILE_HASHES));
    const place = key.toString('hex');
    if (place !== this.#place) {
      const value = await this.#level.get(key);
      this.#tile = value && decodeTreePart(key, value);
      this.#place = place;
    }
    const at = (index % TILE_HASHES) * HASH_BYTES;
    const hash = this.#tile?.subarray(at, at + HASH_BYTES);
    return hash?.length === HASH_BYTES ? hash : undefined;
  }
}
