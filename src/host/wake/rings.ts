/**
 * The proof that a doorbell woke an agent, one for all programs and methods.
 *
 * A ring is open from the first try to wake an agent until the attempt is over. It is proven when, meanwhile, the
 * prompt hook of a session that was tried reports a prompt with the line of the doorbell. Where no hook reports
 * prompts, a mail tool that is called at that session's `poste mcp` proves it. That a program took the line proves
 * nothing. A program without prompts says which messages it has; that proves a wake to their senders alone.
 */
import { isSameProcess } from '../agents/sessions.ts';
import type { SessionRow } from '../core/session-rows.ts';
import { type Timers, afterOrAborted } from '../../lib/clock.ts';

type Seat = Pick<SessionRow, 'agentId' | 'sessionId' | 'process'>;

export class Rings {
  readonly #timers: Timers;
  readonly #open = new Set<Ring>();

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** `sessions`: the live sessions of the agent. */
  open(text: string, sessions: readonly SessionRow[]): Ring {
    const ring: Ring = new Ring(this.#timers, text, sessions, () => this.#open.delete(ring));
    this.#open.add(ring);
    return ring;
  }

  /** A hook of this session reports a prompt in which these lines stand. */
  reported(session: Seat, lines: readonly string[]): void {
    for (const ring of this.#open) ring.reported(session, lines);
  }

  /** A mail tool was called at the `poste mcp` that is this session. */
  usedTool(session: Seat): void {
    for (const ring of this.#open) ring.usedTool(session);
  }

  /** The program of this session has messages of the mailbox. */
  hasTaken(session: Seat): void {
    for (const ring of this.#open) ring.hasTaken(session);
  }
}

/** One attempt to wake an agent. */
class Ring {
  readonly #timers: Timers;
  readonly #text: string;
  readonly #sessions: readonly SessionRow[];
  readonly #tried = new Set<SessionRow>();
  readonly #proof: Promise<void>;
  readonly close: () => void;
  #prove!: (what: 'all' | 'some') => void;
  #isProven = false;
  /** The proof is of some of the unread messages, and not of all. */
  isOfSome = false;

  constructor(timers: Timers, text: string, sessions: readonly SessionRow[], close: () => void) {
    this.#timers = timers;
    this.#text = text;
    this.#sessions = sessions;
    this.close = close;
    this.#proof = new Promise((resolve) => {
      this.#prove = (what) => {
        if (!this.#isProven) this.isOfSome = what === 'some';
        this.#isProven = true;
        resolve();
      };
    });
  }

  /** A method of this session is tried: from now on the session can prove the ring. */
  trying(session: SessionRow): void {
    this.#tried.add(session);
  }

  /** Says whether the proof comes within this time, or came already. */
  async isProven(withinMs: number, signal: AbortSignal): Promise<boolean> {
    if (this.#isProven || withinMs === 0 || signal.aborted) return this.#isProven;
    await new Promise<void>((resolve) => {
      const cancel = afterOrAborted(this.#timers, withinMs, signal, resolve);
      void this.#proof.then(() => {
        cancel();
        resolve();
      });
    });
    return this.#isProven;
  }

  /** The session whose hooks report what this one's agent gets, if there is one. */
  reporterOf(session: Seat): SessionRow | undefined {
    const reporters = this.#sessions.filter(({ reportsPrompts }) => reportsPrompts);
    return reporters.find((other) => isSame(other, session)) ?? reporters.find((other) => isBeside(other, session));
  }

  reported(session: Seat, lines: readonly string[]): void {
    if (!lines.includes(this.#text)) return;
    for (const tried of this.#tried) {
      // The prompts of one thread prove nothing of another one in the same process.
      const proves = tried.reportsPrompts ? isSame(tried, session) : isSame(tried, session) || isBeside(tried, session);
      if (proves) this.#prove('all');
    }
  }

  usedTool(session: Seat): void {
    for (const tried of this.#tried) {
      const isItsTool = isSame(tried, session) || isBeside(tried, session);
      if (isItsTool && !this.reporterOf(tried)) this.#prove('all');
    }
  }

  hasTaken(session: Seat): void {
    if ([...this.#tried].some((tried) => isSame(tried, session))) this.#prove('some');
  }
}

function isSame(a: Seat, b: Seat): boolean {
  return a.agentId === b.agentId && a.sessionId === b.sessionId;
}

/** Another session of the same agent in the same program: that of its hooks, and that of its `poste mcp`. */
function isBeside(a: Seat, b: Seat): boolean {
  return a.agentId === b.agentId && isSameProcess(a.process, b.process);
}
