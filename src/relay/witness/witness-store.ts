/**
 * The memory of a witness: of each relay its epochs in the order in which they were opened, each with its newest note.
 * The last is the one that is cosigned; the others never are again.
 *
 * A row is synced before `put` resolves. After a row that the disk refused nothing is written any more, as LevelDB
 * would lose what stands behind a torn one: the witness ends, and its next start finds what was there before.
 */
import { join } from 'node:path';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import { type Level, levelAt, makeLevelFolder } from '../store/level.ts';
import { StoreRefused } from '../store/refused.ts';

/** An epoch as the witness saw it. DO NOT CHANGE: stored as JSON. */
export interface WitnessedEpoch {
  epoch: Epoch;
  /** The newest note that was taken, as the relay signed it. */
  note: string;
  /** The answer of `log/link` that opened it; `null` where a first checkpoint did. */
  link: unknown;
  openedAtMs: number;
  notedAtMs: number;
}

const NUMBER_DIGITS = 9;

export class WitnessStore {
  readonly #level: Level;
  readonly #epochs: Map<string, WitnessedEpoch[]>;
  #onFailed!: (error: unknown) => void;
  /** Resolves with the error of the disk that ended the writing. */
  readonly failed = new Promise<unknown>((resolve) => (this.#onFailed = resolve));
  #isFailed = false;

  private constructor(level: Level, epochs: Map<string, WitnessedEpoch[]>) {
    this.#level = level;
    this.#epochs = epochs;
  }

  /** Throws `StoreRefused` for a folder that another witness uses, or that cannot be read. */
  static async open(folder: string): Promise<WitnessStore> {
    const place = join(folder, 'notes');
    await makeLevelFolder(place);
    const level = levelAt(place);
    try {
      await level.open();
      const epochs = new Map<string, WitnessedEpoch[]>();
      for await (const [key, row] of level.iterator()) {
        const fingerprint = key.toString().slice(0, -NUMBER_DIGITS);
        epochs.set(fingerprint, [...(epochs.get(fingerprint) ?? []), JSON.parse(row.toString()) as WitnessedEpoch]);
      }
      return new WitnessStore(level, epochs);
    } catch (error) {
      await level.close().catch(() => undefined);
      const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      if (code === 'LEVEL_LOCKED')
        throw new StoreRefused('locked', `another witness is using ${folder}: stop it first`);
      const remedy = 'a witness that forgets cosigns two histories, so move it aside only to begin with another key';
      throw new StoreRefused('damaged', `the notes at ${place} cannot be read (${message}): ${remedy}`);
    }
  }

  /** The epochs of the relay with this fingerprint, in order. */
  epochs(fingerprint: Sha256Hex): readonly WitnessedEpoch[] {
    return this.#epochs.get(fingerprint) ?? [];
  }

  /** Puts an epoch in the place of the one with its name, or behind the others. Rejects with an error of the disk. */
  async put(fingerprint: Sha256Hex, row: WitnessedEpoch): Promise<void> {
    const epochs = this.epochs(fingerprint);
    const found = epochs.findIndex(({ epoch }) => epoch === row.epoch);
    const at = found === -1 ? epochs.length : found;
    const key = Buffer.from(`${fingerprint}${String(at).padStart(NUMBER_DIGITS, '0')}`);
    if (this.#isFailed) throw new Error('the disk refused a row before');
    try {
      await this.#level.put(key, Buffer.from(JSON.stringify(row)), { sync: true });
    } catch (error) {
      this.#isFailed = true;
      this.#onFailed(error);
      throw error;
    }
    this.#epochs.set(fingerprint, epochs.toSpliced(at, 1, row));
  }

  close(): Promise<void> {
    return this.#level.close();
  }
}
