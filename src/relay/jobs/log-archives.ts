/**
 * The archives of a running relay's log, in a folder that the operator names.
 *
 * Invariants:
 *   - the name of an archive is returned when it is complete, checked and on disk;
 *   - none is ever replaced or removed: where an archive of the same name holds other records, as after a restore, the
 *     new one gets another name.
 */
import { join } from 'node:path';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import { ImageUnwritten, writeImageFile } from '../../lib/image-file.ts';
import type { Clock } from '../../lib/clock.ts';
import type { StopSignal } from '../../lib/periodic-task.ts';
import { ARCHIVE_KIND, holdsRange, writeArchive } from '../image/archive.ts';
import type { RelayStore } from '../store/relay-store.ts';

interface LogArchivesOptions {
  folder: string;
  relayPubkey: PublicKey;
  store: RelayStore;
  clock: Clock;
  version: string;
}

/** Of the fingerprint of the relay's key: relays may share a folder. */
const MARK_CHARACTERS = 12;
/** Names sort like records. */
const LSN_DIGITS = 12;
/** Archives of one name that hold different records. */
const SAME_NAME_MAX = 100;

export class LogArchives {
  readonly #options: LogArchivesOptions;
  readonly #mark: string;

  constructor(options: LogArchivesOptions) {
    this.#options = options;
    this.#mark = hostFingerprint(options.relayPubkey).slice(0, MARK_CHARACTERS);
  }

  /**
   * Archives these records, unless there is an archive of exactly them. Returns the name of the file, or `undefined`
   * when `signal` aborted before it was complete. Throws `ImageUnwritten`.
   */
  async archive(firstLsn: number, lastLsn: number, signal: StopSignal): Promise<string | undefined> {
    const { folder, store, clock, relayPubkey, version } = this.#options;
    const { level } = store;
    const range = { firstLsn, lastLsn };
    const stamp = { relay_pubkey: relayPubkey, created_at: clock.nowMs(), version };
    const ownNames = new RegExp(`^poste-${this.#mark}-log-[0-9-]+\\.archive$`);
    for (let attempt = 1; attempt <= SAME_NAME_MAX; attempt++) {
      const name = this.#nameOf(firstLsn, lastLsn, attempt);
      const options = { path: join(folder, name), replaces: false, ownNames, signal };
      try {
        await writeImageFile(writeArchive(level, range, stamp), options, ARCHIVE_KIND);
        return name;
      } catch (error) {
        if (signal.aborted) return undefined;
        if (!(error instanceof ImageUnwritten && error.reason === 'exists')) throw error;
        // From a run that ended before it could prune.
        if (await holdsRange(options.path, level, range)) return name;
      }
    }
    throw new Error(`${folder} holds too many archives of the log records ${firstLsn} to ${lastLsn}`);
  }

  #nameOf(firstLsn: number, lastLsn: number, attempt: number): string {
    const [first, last] = [firstLsn, lastLsn].map((lsn) => String(lsn).padStart(LSN_DIGITS, '0'));
    return `poste-${this.#mark}-log-${first}-${last}${attempt === 1 ? '' : `-${attempt}`}.archive`;
  }
}
