/**
 * Tells a client that its agent's unread mail is something else now: one long wait at the daemon after another, from the
 * first subscription on, until the client ends it or leaves.
 *
 * It tells what the client does not know: what it was shown is not told, and what changed while no daemon ran is told
 * when one runs again.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { INBOX_WAIT_MS_MAX } from '../documents/inbox-watch.ts';
import { type DaemonLink, RETRY_MS } from './daemon-link.ts';

/** How much longer than asked an answer may take. */
const WAIT_SLACK_MS = 15_000;

interface Watching {
  ending: AbortController;
  done: Promise<void>;
}

export class InboxWatch {
  readonly #link: Pick<DaemonLink, 'callRunning'>;
  readonly #changed: () => void;
  readonly #retryMs: number;
  /** What the client knows; absent: nothing, which is also what it knows of a mailbox without unread mail. */
  #mark: string | undefined;
  #watching: Watching | undefined;

  /** `changed` must not throw, and is not waited for. */
  constructor(link: Pick<DaemonLink, 'callRunning'>, changed: () => void, retryMs = RETRY_MS) {
    this.#link = link;
    this.#changed = changed;
    this.#retryMs = retryMs;
  }

  /** The client is shown what is unread. */
  shown(mark: string): void {
    this.#mark = mark;
  }

  /** Watches from now on; a watch that is under way goes on. */
  begin(): void {
    if (this.#watching) return;
    const ending = new AbortController();
    this.#watching = { ending, done: this.#watch(ending.signal) };
  }

  /** Tells nothing more. Never throws. */
  async end(): Promise<void> {
    const watching = this.#watching;
    this.#watching = undefined;
    watching?.ending.abort();
    await watching?.done;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#look(signal);
      } catch {
        // No daemon, or no such agent yet: the session of this process says so.
        await elapsed(this.#retryMs, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const asked = { wait_ms: INBOX_WAIT_MS_MAX, ...(this.#mark !== undefined && { mark: this.#mark }) };
    const options = { signal, silenceMs: INBOX_WAIT_MS_MAX + WAIT_SLACK_MS };
    const { mark, unread } = await this.#link.callRunning('watch-inbox', asked, options);
    const isKnown = this.#mark === undefined ? unread === 0 : mark === this.#mark;
    this.#mark = mark;
    if (!isKnown && !signal.aborted) this.#changed();
  }
}
