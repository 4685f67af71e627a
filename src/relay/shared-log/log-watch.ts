/**
 * A node learns of its shared log from what the log itself answers: who leads, how far the view is behind, what
 * failed. It asks the log nothing of its own, so its readers wait for nothing.
 */
import type { Clock } from '../../lib/clock.ts';
import { Fenced, type LogState, LogUnreachable, type SharedLog, type Tenure } from './shared-log.ts';

export interface LogObserver {
  /** A batch was stored. */
  appended: (durationMs: number) => void;
  /** A sign of life was confirmed, or was not. */
  renewed: (isConfirmed: boolean) => void;
  /** The log refused this node, because another leads. */
  fenced: () => void;
}

export interface LogStatus {
  /** `undefined` while nobody leads, or before the log was reached. */
  leader: string | undefined;
  /** When this node first saw it lead, by the wall clock. */
  sinceMs: number | undefined;
  /** 0 before the log was reached. */
  term: number;
  /** Batches of the log that the view does not hold. */
  behind: number;
  /** The time since this node first saw the oldest of them, by the monotonic clock; 0 when there is none. */
  behindMs: number;
  /** Says why the leader must begin a new epoch. */
  doubt: string | undefined;
  /** True when the log answered when it was asked last. */
  isReached: boolean;
  /** Says why a batch would have no second copy now, as a sentence. */
  copyFault: string | undefined;
  /** The number of times that the log refused this node, because another leads. */
  fences: number;
  /** When it last did, by the wall clock. */
  fencedAtMs: number | undefined;
  /** The settings that the node that leads decides by. */
  settings: Buffer;
}

/** Looks at the end of the log that are kept: of a view that is further behind, the age stays right. */
const LOOKS_MAX = 1000;

interface Leader {
  name: string;
  tenure: string | undefined;
  sinceMs: number;
}

export class LogWatch {
  readonly #clock: Clock;
  readonly #observer: LogObserver | undefined;
  /** The last batch that the view holds; `undefined` while there is no view. */
  #viewNo: () => number | undefined = () => undefined;
  #leader: Leader | undefined;
  #term = 0;
  #doubt: string | undefined;
  #settings: Buffer = Buffer.alloc(0);
  #lastNo = 0;
  #isReached = false;
  #copyFault: string | undefined;
  #fences = 0;
  #fencedAtMs: number | undefined;
  /** Ends of the log that the view has not reached, the oldest first, and when each was first seen. */
  #ends: { no: number; seenMs: number }[] = [];

  constructor(clock: Clock, observer?: LogObserver) {
    this.#clock = clock;
    this.#observer = observer;
  }

  /** The same log; what it answers is noted. */
  watched(log: SharedLog): SharedLog {
    const noted: Partial<SharedLog> = {
      open: async () => {
        const opened = await this.#reaching(log.open());
        this.#copyFault = opened.copyFault;
        if (opened.state) this.#noteState(opened.state);
        return opened;
      },
      batches: async (...asked) => {
        const batches = await this.#reaching(log.batches(...asked));
        const last = batches.at(-1);
        if (last) this.#noteEnd(last.no);
        return batches;
      },
      lead: async (seen, candidate) => {
        const tenure = await log.lead(seen, candidate);
        if (tenure !== 'held') {
          this.#noteLeader(candidate.holder, tenure);
          this.#settings = candidate.settings;
        }
        return tenure;
      },
      renew: async (tenure, acked) => {
        const renewal = await this.#reaching(this.#fencedBy(log.renew(tenure, acked))).catch((error: unknown) => {
          this.#observer?.renewed(false);
          throw error;
        });
        this.#observer?.renewed(true);
        this.#doubt = renewal.doubt;
        this.#copyFault = renewal.copyFault;
        return renewal;
      },
      append: async (tenure, batch, ackedNo) => {
        const sentMs = this.#clock.monotonicMs();
        const appended = await this.#fencedBy(log.append(tenure, batch, ackedNo));
        this.#observer?.appended(this.#clock.monotonicMs() - sentMs);
        this.#lastNo = batch.no;
        return appended;
      },
      settle: async (...asked) => {
        const settled = await this.#fencedBy(log.settle(...asked));
        if (settled === 'stored') this.#lastNo = asked[1].no;
        return settled;
      },
      clearDoubt: async (tenure, doubt) => {
        await this.#fencedBy(log.clearDoubt(tenure, doubt));
        this.#doubt = undefined;
      },
    };
    return new Proxy(log, {
      get: (target, name: keyof SharedLog): unknown => {
        const own: unknown = noted[name] ?? target[name];
        return typeof own === 'function' && !noted[name] ? own.bind(target) : own;
      },
    });
  }

  /** From now on the lag is that of this view. */
  views(no: () => number): void {
    this.#viewNo = no;
  }

  get copyFault(): string | undefined {
    return this.#copyFault;
  }

  get status(): LogStatus {
    const viewNo = this.#viewNo() ?? 0;
    this.#forgetReached(viewNo);
    const [oldest] = this.#ends;
    const behind = Math.max(0, this.#lastNo - viewNo);
    return {
      leader: this.#leader?.name,
      sinceMs: this.#leader?.sinceMs,
      term: this.#term,
      behind,
      behindMs: behind > 0 && oldest ? this.#clock.monotonicMs() - oldest.seenMs : 0,
      doubt: this.#doubt,
      isReached: this.#isReached,
      copyFault: this.#copyFault,
      fences: this.#fences,
      fencedAtMs: this.#fencedAtMs,
      settings: this.#settings,
    };
  }

  #noteState({ isFree, holder, term, tenure, doubt, settings, lastNo }: LogState): void {
    this.#term = term;
    this.#doubt = doubt;
    this.#settings = settings;
    if (isFree) this.#leader = undefined;
    else if (!this.#leader || this.#leader.tenure !== tenure)
      this.#leader = { name: holder, tenure, sinceMs: this.#clock.nowMs() };
    // A log that went back ends before what was seen.
    this.#ends = this.#ends.filter(({ no }) => no <= lastNo);
    this.#lastNo = 0;
    this.#noteEnd(lastNo);
  }

  #noteEnd(no: number): void {
    const viewNo = this.#viewNo() ?? 0;
    this.#forgetReached(viewNo);
    this.#lastNo = Math.max(this.#lastNo, no);
    if (no > (this.#ends.at(-1)?.no ?? viewNo) && this.#ends.length < LOOKS_MAX)
      this.#ends.push({ no, seenMs: this.#clock.monotonicMs() });
  }

  #noteLeader(name: string, { term, tenure }: Tenure): void {
    this.#term = term;
    this.#leader = { name, tenure, sinceMs: this.#clock.nowMs() };
  }

  #forgetReached(viewNo: number): void {
    while ((this.#ends[0]?.no ?? Infinity) <= viewNo) this.#ends.shift();
  }

  async #reaching<T>(work: Promise<T>): Promise<T> {
    try {
      const result = await work;
      this.#isReached = true;
      return result;
    } catch (error) {
      if (error instanceof LogUnreachable) this.#isReached = false;
      throw error;
    }
  }

  async #fencedBy<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof Fenced) {
        this.#fences++;
        this.#fencedAtMs = this.#clock.nowMs();
        this.#observer?.fenced();
      }
      throw error;
    }
  }
}
