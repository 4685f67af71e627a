/**
 * The epochs in the log, for the console. The log is read backwards once, in time slices, when an operator first looks; a
 * long log takes a while, and the console shows what was found so far.
 */
import type { EpochBegun, EpochsRead } from '../../protocol/operator-documents.ts';
import type { LogEntry } from '../core/event.ts';
import { TimeSlice } from '../engine/time-slice.ts';
import type { LogBack } from './log-search.ts';

interface EpochHistoryOptions {
  log: LogBack;
  monotonicMs: () => number;
  onError: (error: unknown) => void;
}

export class EpochHistory {
  readonly #options: EpochHistoryOptions;
  readonly #found: EpochBegun[] = [];
  #reading: Promise<void> | undefined;
  #state: EpochsRead = 'under way';
  #isClosed = false;

  constructor(options: EpochHistoryOptions) {
    this.#options = options;
  }

  /** How far the log was read. A failure is final: a log that cannot be read now cannot be read a second later. */
  get state(): EpochsRead {
    return this.#state;
  }

  /** The epochs found so far, the newest first. The first call starts the reading. */
  found(): readonly EpochBegun[] {
    this.#reading ??= this.#read().catch((error: unknown) => {
      this.#state = 'failed';
      this.#options.onError(error);
    });
    return this.#found;
  }

  /** Resolves when the reading has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reading;
  }

  async #read(): Promise<void> {
    const slice = new TimeSlice(this.#options.monotonicMs);
    const { log } = this.#options;
    for await (const run of log.readBack(Number.POSITIVE_INFINITY)) {
      for (const entry of run) {
        const epoch = epochBegunOf(entry);
        if (epoch) this.#found.push(epoch);
      }
      if (this.#isClosed) return;
      if (slice.isOver) await slice.pause();
    }
    this.#state = log.firstLsn > 1 ? 'pruned' : 'whole';
  }
}

export function epochBegunOf({ lsn, event }: LogEntry): EpochBegun | undefined {
  if (event.type === 'EpochRotated') return { lsn, at: event.atMs, epoch: event.epoch, reason: event.reason };
  if (event.type === 'RelayInitialised') return { lsn, at: event.atMs, epoch: event.epoch, reason: 'initialised' };
  return undefined;
}
