import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { SESSION_IDLE_MS, Sessions, TOKEN_LIFETIME_MS } from '../../../../src/http/browser-session/sessions.ts';
import { found } from '../../../support/found.ts';

function started(): { sessions: Sessions; pass: (ms: number) => void } {
  let nowMs = 1_000_000;
  return { sessions: new Sessions(() => nowMs, randomBytes), pass: (ms) => (nowMs += ms) };
}

describe('one-time tokens', () => {
  test('one is good once', () => {
    const { sessions } = started();
    const token = sessions.issueToken();
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(sessions.exchange(token)).toBeDefined();
    expect(sessions.exchange(token)).toBeUndefined();
  });

  test('one is good for a minute, and not a moment longer', () => {
    const { sessions, pass } = started();
    const [early, late] = [sessions.issueToken(), sessions.issueToken()];
    pass(TOKEN_LIFETIME_MS - 1);
    expect(sessions.exchange(early)).toBeDefined();
    pass(1);
    expect(sessions.exchange(late)).toBeUndefined();
  });

  test('there are four at a time: one more ends the oldest; any other text is none', () => {
    const { sessions } = started();
    const tokens = Array.from({ length: 5 }, () => sessions.issueToken());
    expect(new Set(tokens).size).toBe(5);
    expect(tokens.map((token) => sessions.exchange(token) !== undefined)).toEqual([false, true, true, true, true]);
    for (const text of ['', 'x', `${tokens[1]}x`]) expect(sessions.exchange(text)).toBeUndefined();
  });
});

describe('sessions', () => {
  test('one is found by both of its secrets, and by neither alone', () => {
    const { sessions } = started();
    const [{ cookie, csrf }, other] = [enter(sessions), enter(sessions)];
    expect(sessions.use(cookie, csrf)).toMatchObject({ csrf });
    for (const bad of ['', csrf, cookie.slice(1), `${cookie}=`]) expect(sessions.use(bad, csrf)).toBeUndefined();
    for (const bad of ['', cookie, csrf.slice(1), `${csrf}=`, other.csrf]) {
      expect(sessions.use(cookie, bad)).toBeUndefined();
    }
  });

  test('one that is used goes on; one that was idle for twelve hours is over', () => {
    const { sessions, pass } = started();
    const { cookie, csrf } = enter(sessions);
    for (let day = 0; day < 3; day++) {
      pass(SESSION_IDLE_MS - 1);
      expect(sessions.use(cookie, csrf)).toBeDefined();
    }
    pass(SESSION_IDLE_MS);
    expect(sessions.use(cookie, csrf)).toBeUndefined();
    expect(sessions.use(cookie, csrf)).toBeUndefined();
  });

  test('asking whether one is open is no use of it', () => {
    const { sessions, pass } = started();
    const { cookie, csrf } = enter(sessions);
    const session = found(sessions.use(cookie, csrf), 'it was opened just now');
    pass(SESSION_IDLE_MS - 1);
    expect(sessions.isOpen(session)).toBe(true);
    pass(1);
    expect(sessions.isOpen(session)).toBe(false);
  });

  test('there are four at a time: one more ends the one that was used longest ago', () => {
    const { sessions } = started();
    const entered = Array.from({ length: 4 }, () => enter(sessions));
    const isIn = ({ cookie, csrf }: Entered): boolean => sessions.use(cookie, csrf) !== undefined;
    entered.slice(0, 1).forEach(isIn);
    enter(sessions);
    expect(entered.map(isIn)).toEqual([true, false, true, true]);
  });

  test('one that was left is over', () => {
    const { sessions } = started();
    const [{ cookie, csrf }, other] = [enter(sessions), enter(sessions)];
    const session = sessions.use(cookie, csrf);
    if (session) sessions.end(session);
    expect([sessions.use(cookie, csrf), sessions.use(other.cookie, other.csrf) !== undefined]).toEqual([
      undefined,
      true,
    ]);
  });
});

interface Entered {
  cookie: string;
  csrf: string;
}

/** Opens a session with a fresh token. */
function enter(sessions: Sessions): Entered {
  const entered = found(sessions.exchange(sessions.issueToken()), 'a fresh token is good');
  return { cookie: entered.cookie, csrf: entered.session.csrf };
}
