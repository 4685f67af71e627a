/**
 * A node notes in the log that it lives, and which format it reads: what operators see of the nodes, and what a leader
 * goes by before it raises the format of the log. A node that starts later with older software is told so by the log
 * itself.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import type { NodeLogger } from './node-options.ts';
import { Fenced, LogRefused, type SharedLog, type Tenure, isPassing } from './shared-log.ts';

const NOTE_EVERY_MS = 5_000;

interface PresenceOptions {
  log: SharedLog;
  logId: string;
  name: string;
  version: string;
  clock: Clock;
  logger: NodeLogger;
}

export class Presence {
  readonly #options: PresenceOptions;
  #notedMs = -Infinity;
  #said = '';

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  /** Notes this node, unless it did a moment ago. A log that cannot be reached is told next time. */
  async note(): Promise<void> {
    const { log, logId, name, version, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#notedMs < NOTE_EVERY_MS) return;
    this.#notedMs = nowMs;
    try {
      await log.noteNode(logId, { name, version });
    } catch (error) {
      if (!isPassing(error) && !(error instanceof LogRefused)) throw error;
      if (error instanceof LogRefused) this.#say(error.message, 'this node cannot note itself in the log');
    }
  }

  /** Notes this node again and again while it leads, and raises the format of the log as soon as that is allowed. */
  keep(tenure: Tenure, led: { format: number }, timers: Timers): PeriodicTask {
    const { log, logger } = this.#options;
    return new PeriodicTask({
      timers,
      everyMs: NOTE_EVERY_MS,
      firstAfterMs: 0,
      work: async () => {
        this.#notedMs = -Infinity;
        await this.note();
        if (led.format < log.format) led.format = await this.#raised(tenure);
      },
      onError: (error) => {
        if (!isPassing(error) && !(error instanceof Fenced))
          logger.error({ err: error }, 'the format of the log could not be raised');
      },
    });
  }

  async #raised(tenure: Tenure): Promise<number> {
    const { log, logId, logger } = this.#options;
    const format = await log.raise(tenure);
    if (format >= log.format) {
      logger.info({ format }, 'the log has a newer format: a node that does not read it cannot follow any more');
      return format;
    }
    const older = (await log.nodes(logId)).filter((node) => node.format < log.format).map(({ name }) => name);
    this.#say(older.join(', '), 'the log keeps its format until these nodes have newer software');
    return format;
  }

  #say(why: string, what: string): void {
    if (this.#said !== why) this.#options.logger.warn({ why }, what);
    this.#said = why;
  }
}
