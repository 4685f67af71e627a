/**
 * How a relay does, as those see it who choose between several: whether it can be used, is down, or was not heard for
 * long. Told of every request and answer; clock and timers come from outside.
 *
 *     down     two failures in a row, a request without an answer for ten seconds, no session for ten seconds, or not
 *              to be used until the owner says so
 *     unheard  no good answer for five minutes, in which at least three tries failed: a machine that slept tried
 *              nothing. The start counts as an answer.
 */
import type { Cancel, Timers } from '../../lib/clock.ts';

const DOWN_FAILURES = 2;
/** A request has no answer when this has passed, besides the time that it asked the relay to wait. */
const ANSWER_MS = 10_000;
const SESSION_MS = 10_000;
const UNHEARD_FAILURES = 3;
export const UNHEARD_MS = 300_000;

interface LinkHealthOptions {
  monotonicMs: () => number;
  timers: Timers;
  /** The time for which nothing may be asked of the relay. */
  pauseMs: () => number;
  /** Says whether there is a session under the key that this host has now. */
  hasSession: () => boolean;
  /** Called when the relay became well, down, or unheard, or is so no more. */
  turned: () => void;
}

export class LinkHealth {
  readonly #options: LinkHealthOptions;
  /** When requests that are under way will be without an answer. */
  readonly #dueMs = new Set<{ atMs: number }>();
  /** Since the last good answer, or the start. */
  #failures = 0;
  #sinceMs: number;
  #heardAtMs: number | undefined;
  #lostMs: number;
  #isStopped = false;
  #isClosed = false;
  /** As it was told last: at the start it is not well, and neither down nor unheard. */
  #last = [false, false, false].join();
  #cancel: Cancel = () => undefined;

  constructor(options: LinkHealthOptions) {
    this.#options = options;
    this.#sinceMs = this.#lostMs = options.monotonicMs();
  }

  get isWell(): boolean {
    return this.#options.hasSession() && this.#options.pauseMs() <= 0;
  }

  /** The last try failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  get isDown(): boolean {
    const nowMs = this.#options.monotonicMs();
    const isLate = [...this.#dueMs].some(({ atMs }) => atMs <= nowMs);
    const isWithout = !this.#options.hasSession() && nowMs >= this.#lostMs + SESSION_MS;
    return this.#isStopped || this.#failures >= DOWN_FAILURES || isLate || isWithout;
  }

  /** The time since the last good answer, or since the start; 0 while too few tries failed in it. */
  get unheardMs(): number {
    const isUnheard = this.#isStopped || this.#failures >= UNHEARD_FAILURES;
    return isUnheard ? this.#options.monotonicMs() - this.#sinceMs : 0;
  }

  /** The time since the last good answer; undefined before the first. */
  get heardMs(): number | undefined {
    return this.#heardAtMs === undefined ? undefined : this.#options.monotonicMs() - this.#heardAtMs;
  }

  /** A request leaves that asks the relay to wait so long. Call what it returns when the request ended. */
  asking(waitMs: number): () => void {
    const due = { atMs: this.#options.monotonicMs() + waitMs + ANSWER_MS };
    this.#dueMs.add(due);
    this.note();
    return () => {
      if (this.#dueMs.delete(due)) this.note();
    };
  }

  /** A good answer came. */
  heard(): void {
    this.#failures = 0;
    this.#sinceMs = this.#heardAtMs = this.#options.monotonicMs();
    this.note();
  }

  /** A try failed. */
  failed(): void {
    this.#failures++;
    this.note();
  }

  /** The session ended. */
  lost(): void {
    this.#lostMs = this.#options.monotonicMs();
    this.note();
  }

  /** The relay is not to be used until its owner says so. */
  stopped(): void {
    this.#isStopped = true;
    this.note();
  }

  /** It is used anew, as at the start. */
  begin(): void {
    this.#isStopped = false;
    this.#failures = 0;
    this.#sinceMs = this.#lostMs = this.#options.monotonicMs();
    this.note();
  }

  /** Session or pause may be another now. Tells of what became of it, and looks again when time alone can change it. */
  note(): void {
    if (this.#isClosed) return;
    const { monotonicMs, timers, pauseMs, hasSession, turned } = this.#options;
    this.#cancel();
    const nowMs = monotonicMs();
    const moments = [...this.#dueMs].map(({ atMs }) => atMs);
    if (!hasSession()) moments.push(this.#lostMs + SESSION_MS);
    if (this.#isStopped || this.#failures >= UNHEARD_FAILURES) moments.push(this.#sinceMs + UNHEARD_MS);
    if (pauseMs() > 0) moments.push(nowMs + pauseMs());
    const next = Math.min(...moments.filter((atMs) => atMs > nowMs));
    this.#cancel = next === Infinity ? () => undefined : timers.after(next - nowMs, () => this.note());
    const { isWell, isDown } = this;
    const now = [isWell, isDown, this.unheardMs >= UNHEARD_MS].join();
    if (now === this.#last) return;
    this.#last = now;
    turned();
  }

  /** Nothing is told any more. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }
}
