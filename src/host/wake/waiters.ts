/**
 * Programs that wait for a doorbell, each in a call to the daemon (`session-wait`): a hook, a script, a `poste mcp`.
 *
 * A doorbell answers the call. That the waiter got it says a second call (`session-heard`) within a moment; that its
 * agent got it, only the proof (rings.ts). A session has one waiter: a new wait ends the one before it, which a hook of
 * an earlier turn left behind.
 */
import { type Timers, afterOrAborted } from '../../lib/clock.ts';
import { isSameProcess } from '../agents/sessions.ts';
import type { SessionWaitResult } from '../contract/agents.ts';
import type { AgentId } from '../core/rows.ts';
import type { SessionRow } from '../core/session-rows.ts';
import type { TryWake, TryWakeOutcome } from './wake-methods.ts';

/** The time between the answer to a wait and the call that confirms it. */
export const HEARD_MS = 1000;
const RING_BYTES = 16;

const NOTHING: SessionWaitResult = { event: 'nothing', ring: null, text: null };
const RELEASED: SessionWaitResult = { event: 'released', ring: null, text: null };

/** A doorbell that a waiter got. */
interface HandedDoorbell {
  /** The id of the doorbell. */
  ring: string;
  over: (outcome: TryWakeOutcome) => void;
}

interface WaiterParts {
  timers: Timers;
  randomBytes: (count: number) => Buffer;
}

export class Waiters {
  readonly #parts: WaiterParts;
  readonly #waiting = new Map<string, (answer: SessionWaitResult) => void>();
  readonly #handed = new Map<string, HandedDoorbell>();

  constructor(parts: WaiterParts) {
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
        if (this.#waiting.get(key) === answer) this.#waiting.delete(key);
        resolve(result);
      };
      const cancel = afterOrAborted(this.#parts.timers, waitMs, signal, () => answer(NOTHING));
      this.#waiting.set(key, answer);
    });
  }

  /** The waiter confirms the doorbell `ring`, or that it cannot give it. Returns whether the doorbell still waited. */
  heard(agentId: AgentId, sessionId: string, ring: string, outcome: 'given' | 'unheard'): boolean {
    const handed = this.#handed.get(keyOf(agentId, sessionId));
    if (handed?.ring !== ring) return false;
    handed.over(outcome);
    return true;
  }

  /** The session is over: its waiter stops waiting. */
  release(agentId: AgentId, sessionId: string): void {
    this.#waiting.get(keyOf(agentId, sessionId))?.(RELEASED);
  }

  /** Gives the text to the session's waiter: `given` when it confirms that, `unavailable` when nobody waits. */
  ring({ agentId, sessionId }: SessionRow, text: string, signal: AbortSignal): Promise<TryWakeOutcome> {
    const key = keyOf(agentId, sessionId);
    const answer = this.#waiting.get(key);
    if (!answer) return Promise.resolve('unavailable');
    const ring = this.#parts.randomBytes(RING_BYTES).toString('hex');
    return new Promise<TryWakeOutcome>((resolve) => {
      const over = (outcome: TryWakeOutcome): void => {
        cancel();
        this.#handed.delete(key);
        resolve(outcome);
      };
      const cancel = afterOrAborted(this.#parts.timers, HEARD_MS, signal, () => over('unheard'));
      this.#handed.set(key, { ring, over });
      answer({ event: 'doorbell', ring, text });
    });
  }
}

/** Neither part holds a space. */
function keyOf(agentId: AgentId, sessionId: string): string {
  return `${agentId} ${sessionId}`;
}

type Seat = Pick<SessionRow, 'agentId' | 'sessionId' | 'process'>;

/**
 * Wakes a Claude Code session by its inbox socket. Its own child posts there, the session's `poste mcp`: Claude Code
 * holds what comes from anybody else in some permission modes. The token of that socket never leaves that process.
 *
 * The socket never answers. An owner may have set Claude Code to hold what comes in, and each message is a notice then;
 * so after one try without proof, a session's socket is left alone until its agent shows that it reads.
 */
export class ClaudeSockets {
  readonly #waiters: Pick<Waiters, 'ring'>;
  /** The sessions of `poste mcp` that posted, and whose agent showed nothing since. */
  readonly #unproven = new Map<string, Seat>();

  constructor(waiters: Pick<Waiters, 'ring'>) {
    this.#waiters = waiters;
  }

  readonly tryWake: TryWake<'claude-socket'> = async (session, _method, text, signal) => {
    const { agentId, sessionId, process } = session;
    const key = `${agentId} ${sessionId}`;
    if (this.#unproven.has(key)) return 'unavailable';
    const outcome = await this.#waiters.ring(session, text, signal);
    if (outcome === 'given') this.#unproven.set(key, { agentId, sessionId, process });
    return outcome;
  };

  /** The agent read a doorbell or used a mail tool, or its program began a session: its socket may be tried again. */
  trust({ agentId, sessionId, process }: Seat): void {
    for (const [key, seat] of this.#unproven) {
      const isItsOwn = seat.sessionId === sessionId || isSameProcess(seat.process, process);
      if (seat.agentId === agentId && isItsOwn) this.#unproven.delete(key);
    }
  }

  /** The `poste mcp` has ended. */
  forget({ agentId, sessionId }: Pick<Seat, 'agentId' | 'sessionId'>): void {
    this.#unproven.delete(`${agentId} ${sessionId}`);
  }
}
