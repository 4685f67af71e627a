/**
 * Who may use a page: one-time tokens, and the sessions that they became.
 *
 * Invariants:
 *   - a token is good once, for a minute;
 *   - what opens a door is kept as its hash, so that a look-up tells nothing by its time;
 *   - a session that nobody used for twelve hours is over, and there are few at a time.
 */
import { hash } from 'node:crypto';

export const TOKEN_LIFETIME_MS = 60_000;
export const SESSION_IDLE_MS = 12 * 3_600_000;
/** One more ends the oldest. */
const TOKENS_MAX = 4;
const SESSIONS_MAX = 4;
const SECRET_BYTES = 32;

export interface Session {
  /** What every action must bring besides the cookie. */
  readonly csrf: string;
  lastUsedMs: number;
}

export class Sessions {
  readonly #monotonicMs: () => number;
  readonly #randomBytes: (count: number) => Buffer;
  /** When each token ends, by its hash; the oldest first. */
  readonly #tokens = new Map<string, number>();
  readonly #sessions = new Map<string, Session>();

  /** `randomBytes` is a cryptographic source. */
  constructor(monotonicMs: () => number, randomBytes: (count: number) => Buffer) {
    this.#monotonicMs = monotonicMs;
    this.#randomBytes = randomBytes;
  }

  issueToken(): string {
    const token = this.#secret();
    makeRoom(this.#tokens, TOKENS_MAX);
    this.#tokens.set(hashOf(token), this.#monotonicMs() + TOKEN_LIFETIME_MS);
    return token;
  }

  /** The new session and the value of its cookie; `undefined` when the token is not good, or no longer. */
  exchange(token: string): { cookie: string; session: Session } | undefined {
    const mark = hashOf(token);
    const endsMs = this.#tokens.get(mark);
    this.#tokens.delete(mark);
    if (endsMs === undefined || this.#monotonicMs() >= endsMs) return undefined;
    const cookie = this.#secret();
    const session = { csrf: this.#secret(), lastUsedMs: this.#monotonicMs() };
    makeRoom(this.#sessions, SESSIONS_MAX);
    this.#sessions.set(hashOf(cookie), session);
    return { cookie, session };
  }

  /** The session of a cookie, used now. */
  use(cookie: string): Session | undefined {
    const mark = hashOf(cookie);
    const session = this.#sessions.get(mark);
    if (!session || !this.isOpen(session)) return undefined;
    session.lastUsedMs = this.#monotonicMs();
    // The one that was used last is the last to make room.
    this.#sessions.delete(mark);
    this.#sessions.set(mark, session);
    return session;
  }

  /** Whether the session may still be served. */
  isOpen(session: Session): boolean {
    for (const [mark, one] of this.#sessions) {
      if (one !== session) continue;
      if (this.#monotonicMs() < session.lastUsedMs + SESSION_IDLE_MS) return true;
      this.#sessions.delete(mark);
    }
    return false;
  }

  end(session: Session): void {
    for (const [mark, one] of this.#sessions) if (one === session) this.#sessions.delete(mark);
  }

  #secret(): string {
    return this.#randomBytes(SECRET_BYTES).toString('base64url');
  }
}

function hashOf(secret: string): string {
  return hash('sha256', secret);
}

function makeRoom(kept: Map<string, unknown>, max: number): void {
  for (const mark of kept.keys()) {
    if (kept.size < max) return;
    kept.delete(mark);
  }
}
