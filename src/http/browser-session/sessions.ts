/**
 * The sessions of a page, and the one-time tokens that open them.
 *
 * A session has two secrets. Browsers send the cookie to every port of a host, so to servers of other users too; the
 * CSRF token is kept by the page alone, where only its own origin, port included, can read it. Neither works alone.
 *
 * Invariants:
 *   - a token works once, within a minute;
 *   - secrets are compared as hashes, so that the time of a look-up reveals nothing of them;
 *   - a session ends when it was not used for twelve hours, and only a few exist at a time.
 */
import { hash } from 'node:crypto';

export const TOKEN_LIFETIME_MS = 60_000;
export const SESSION_IDLE_MS = 12 * 3_600_000;
/** When there are this many, a new one replaces the oldest. */
const TOKENS_MAX = 4;
const SESSIONS_MAX = 4;
const SECRET_BYTES = 32;

export interface Session {
  /** Every request sends this besides the cookie. Only the answer that opens the session has it. */
  readonly csrf: string;
  lastUsedMs: number;
}

export class Sessions {
  readonly #monotonicMs: () => number;
  readonly #randomBytes: (count: number) => Buffer;
  /** The end of each token's lifetime, by the token's hash; the oldest first. */
  readonly #tokens = new Map<string, number>();
  readonly #sessions = new Map<string, Session>();

  /** `randomBytes` must be cryptographically secure. */
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

  /** The new session and the value of its cookie; `undefined` when the token is unknown, used or too old. */
  exchange(token: string): { cookie: string; session: Session } | undefined {
    const tokenHash = hashOf(token);
    const endsMs = this.#tokens.get(tokenHash);
    this.#tokens.delete(tokenHash);
    if (endsMs === undefined || this.#monotonicMs() >= endsMs) return undefined;
    const cookie = this.#secret();
    const session = { csrf: this.#secret(), lastUsedMs: this.#monotonicMs() };
    makeRoom(this.#sessions, SESSIONS_MAX);
    this.#sessions.set(hashOf(cookie), session);
    return { cookie, session };
  }

  /** The session of both secrets. This counts as a use. */
  use(cookie: string, csrf: string): Session | undefined {
    const cookieHash = hashOf(cookie);
    const session = this.#sessions.get(cookieHash);
    if (!session || hashOf(csrf) !== hashOf(session.csrf) || !this.isOpen(session)) return undefined;
    session.lastUsedMs = this.#monotonicMs();
    // Moves it to the end: `makeRoom` removes the session whose last use is longest ago.
    this.#sessions.delete(cookieHash);
    this.#sessions.set(cookieHash, session);
    return session;
  }

  /** Says whether the session may still be served. */
  isOpen(session: Session): boolean {
    for (const [cookieHash, one] of this.#sessions) {
      if (one !== session) continue;
      if (this.#monotonicMs() < session.lastUsedMs + SESSION_IDLE_MS) return true;
      this.#sessions.delete(cookieHash);
    }
    return false;
  }

  end(session: Session): void {
    for (const [cookieHash, one] of this.#sessions) if (one === session) this.#sessions.delete(cookieHash);
  }

  #secret(): string {
    return this.#randomBytes(SECRET_BYTES).toString('base64url');
  }
}

function hashOf(secret: string): string {
  return hash('sha256', secret);
}

function makeRoom(entries: Map<string, unknown>, max: number): void {
  for (const oldest of entries.keys()) {
    if (entries.size < max) return;
    entries.delete(oldest);
  }
}
