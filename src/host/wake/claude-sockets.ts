/**
 * Wakes a Claude Code session by its inbox socket. Its own child posts there, the session's `poste mcp`: Claude Code
 * holds what comes from anybody else in some permission modes. The token of that socket never leaves that process.
 *
 * The socket never answers. An owner may have set Claude Code to hold what comes in, and each message is a notice then;
 * so after one try without proof, a session's socket is left alone until its agent shows that it reads.
 */
import { isSameProcess } from '../agents/sessions.ts';
import type { SessionRow } from '../core/session-rows.ts';
import type { Waiters } from './waiters.ts';
import type { TryWake } from './wake-methods.ts';

type Seat = Pick<SessionRow, 'agentId' | 'sessionId' | 'process'>;

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
