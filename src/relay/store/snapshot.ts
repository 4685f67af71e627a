/**
 * A store at one moment, to be written as a backup while it goes on.
 *
 * It holds on to what was stored then, however much is deleted meanwhile: it must be closed, whatever becomes of the
 * backup.
 */
import type { RelayRow } from '../core/rows.ts';
import { type BackupHeader, writeBackup } from './backup.ts';
import { canonicalRows } from './canonical-rows.ts';
import { REPLAYED_TABLES } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import type { Pair } from '../../system/pair-block.ts';
import type { WireDamage } from './wire-check.ts';

/** Above every key. */
const LAST_KEY = Buffer.of(0xff);

/** What is read while others wait: judging it holds the loop for about 2 ms. */
const TURN = { pairs: 250, bytes: 256 << 10 };

/** What a backup says of itself besides what is in the store. */
export type BackupStamp = Pick<BackupHeader, 'created_at' | 'version'>;

export class StoreSnapshot {
  readonly #level: Level;
  readonly #snapshot: LevelSnapshot;
  readonly #relay: RelayRow;
  readonly #lsn: number;

  /** `relay` and `lsn` are of the same moment. */
  constructor(level: Level, relay: RelayRow, lsn: number) {
    this.#level = level;
    this.#snapshot = level.snapshot();
    this.#relay = relay;
    this.#lsn = lsn;
  }

  /** Bytes on disk, about: what was written last is not in it. */
  bytesAbout(): Promise<number> {
    return this.#level.approximateSize(Buffer.alloc(0), LAST_KEY);
  }

  /** The last record of that moment. */
  get lsn(): number {
    return this.#lsn;
  }

  /** The rows, and what names the senders of dedup rows, in runs that are read in one turn of the loop. */
  rows(): AsyncGenerator<Pair[]> {
    return canonicalRows(this.#level, [...REPLAYED_TABLES, 'dedupUntil'], { snapshot: this.#snapshot, ...TURN });
  }

  /** The backup, piece by piece. `checked` is told of what waits and is damaged, before the last piece. */
  chunks(
    { created_at, version }: BackupStamp,
    checked?: (damage: WireDamage) => Promise<void>,
  ): AsyncGenerator<Buffer> {
    const { relayPubkey: relay_pubkey, epoch, schemaVersion: schema_version } = this.#relay;
    const header = { relay_pubkey, epoch, schema_version, lsn: this.#lsn, created_at, version };
    return writeBackup(this.#level, header, this.#snapshot, checked);
  }

  close(): Promise<void> {
    return this.#snapshot.close();
  }
}
