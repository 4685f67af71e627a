/**
 * The epochs that the log tells of. Read back from its end, once, when the first operator looks: a long log takes a
 * while, in stretches that hold nobody up, and what was found until then is shown.
 */
import type { EpochBegun, EpochsRead } from '../../../protocol/operator-documents.ts';
import type { LogEntry } from '../../core/event.ts';
import { Stretch } from '../../engine/stretch.ts';
import type { LogBack } from './log-search.ts';

export interface EpochHistoryOptions {
  log: LogBack;
  monotonicMs: () => number;
  /** Told when the log cannot be read. */
  unexpected: (error: unknown) => void;
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

  /** How far the log was read: all of it, or all that is kept. A failure stays: what cannot be read now cannot be read a second later. */
  get state(): EpochsRead {
    return this.#state;
  }

  /** What was found of the log as it was when it was first asked for, the newest first. Begins to read. */
  found(): readonly EpochBegun[] {
    this.#reading ??= this.#read().catch((error: unknown) => {
      this.#state = 'failed';
      this.#options.unexpected(error);
    });
    return this.#found;
  }

  /** Resolves when nothing is read any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reading;
  }

  async #read(): Promise<void> {
    const stretch = new Stretch(this.#options.monotonicMs);
    const { log } = this.#options;
    for await (const run of log.readBack(Number.POSITIVE_INFINITY)) {
      for (const entry of run) {
        const epoch = epochBegunOf(entry);
        if (epoch) this.#found.push(epoch);
      }
      if (this.#isClosed) return;
      if (stretch.isOver) await stretch.pause();
    }
    this.#state = log.firstLsn > 1 ? 'pruned' : 'whole';
  }
}

export function epochBegunOf({ lsn, event }: LogEntry): EpochBegun | undefined {
  if (event.type === 'EpochRotated') return { lsn, at: event.atMs, epoch: event.epoch, reason: event.reason };
  if (event.type === 'RelayInitialised') return { lsn, at: event.atMs, epoch: event.epoch, reason: 'initialised' };
  return undefined;
}
