/**
 * Hooks that wait for a doorbell, each in a call to the daemon (`session-wait`).
 *
 * A doorbell answers the call. Proof that the hook got it is a second call (`session-heard`) within a moment. A session
 * has one waiter: a new wait ends the one before it, which a hook of an earlier turn left behind.
 */
import type { AgentId } from '../core/rows.ts';
import type { SessionWaitResult } from '../api/schemas/agents.ts';
import type { Timers } from '../../lib/clock.ts';
import type { TryWake, TryWakeOutcome } from './wake-methods.ts';

/** Between the answer to a wait and the call that confirms it. */
export const HEARD_MS = 1000;
const RING_BYTES = 16;

const NOTHING: SessionWaitResult = { event: 'nothing', ring: null, text: null };
const RELEASED: SessionWaitResult = { event: 'released', ring: null, text: null };

/** A doorbell that a hook got and has not confirmed yet. */
interface Unconfirmed {
  /** The id of the doorbell. */
  ring: string;
  heard: () => void;
}

export interface HookWaiterParts {
  timers: Timers;
  randomBytes: (count: number) => Buffer;
}

export class HookWaiters {
  readonly #parts: HookWaiterParts;
  readonly #waiting = new Map<string, (answer: SessionWaitResult) => void>();
  readonly #unconfirmed = new Map<string, Unconfirmed>();

  constructor(parts: HookWaiterParts) {
    this.#parts = parts;
  }

  /** Resolves with a doorbell, when the time is over, or when `signal` is aborted. Waits from the call on. */
  wait(agentId: AgentId, sessionId: string, waitMs: number, signal: AbortSignal): Promise<SessionWaitResult> {
    const key = keyOf(agentId, sessionId);
    this.#waiting.get(key)?.(RELEASED);
    if (signal.aborted) return Promise.resolve(NOTHING);
    return new Promise((resolve) => {
      const answer = (result: SessionWaitResult): void => {
        cancel();
        signal.removeEventListener('abort', give);
        if (this.#waiting.get(key) === answer) this.#waiting.delete(key);
        resolve(result);
      };
      const give = (): void => answer(NOTHING);
      const cancel = this.#parts.timers.after(waitMs, give);
      signal.addEventListener('abort', give);
      this.#waiting.set(key, answer);
    });
  }

  /** The hook confirms the doorbell `ring`. Returns whether the doorbell still waited for that. */
  heard(agentId: AgentId, sessionId: string, ring: string): boolean {
    const doorbell = this.#unconfirmed.get(keyOf(agentId, sessionId));
    if (doorbell?.ring !== ring) return false;
    doorbell.heard();
    return true;
  }

  /** The session's agent needs no doorbell: its hook stops waiting. */
  release(agentId: AgentId, sessionId: string): void {
    this.#waiting.get(keyOf(agentId, sessionId))?.(RELEASED);
  }

  readonly tryHook: TryWake<'hook'> = ({ agentId, sessionId }, _method, text, signal) => {
    const key = keyOf(agentId, sessionId);
    const answer = this.#waiting.get(key);
    if (!answer) return Promise.resolve('unavailable');
    const ring = this.#parts.randomBytes(RING_BYTES).toString('hex');
    return new Promise<TryWakeOutcome>((resolve) => {
      const over = (outcome: TryWakeOutcome): void => {
        cancel();
        signal.removeEventListener('abort', give);
        this.#unconfirmed.delete(key);
        resolve(outcome);
      };
      const give = (): void => over('unheard');
      const cancel = this.#parts.timers.after(HEARD_MS, give);
      signal.addEventListener('abort', give);
      this.#unconfirmed.set(key, { ring, heard: () => over('heard') });
      answer({ event: 'doorbell', ring, text });
    });
  };
}

/** Neither part holds a space. */
function keyOf(agentId: AgentId, sessionId: string): string {
  return `${agentId} ${sessionId}`;
}
