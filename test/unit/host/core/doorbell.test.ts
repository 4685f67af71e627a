import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  DOORBELL_LINES_MAX,
  type Doorbell,
  doorbellLines,
  DOORBELL_COOLDOWN_MS,
  DOORBELL_RETRY_MAX_MS,
  LET_LIE_MAX,
  type DoorbellEvent,
  type DoorbellStep,
  doorbellText,
  QUIET_DOORBELL,
  type AttemptOutcome,
  stepDoorbell,
  type WakingMail,
} from '../../../../src/host/core/doorbell.ts';

const NOW = 1_000_000;
const DRAINED: WakingMail = { isUnread: false, isNotified: false, newest: 0 };
const UNTOLD: WakingMail = { isUnread: true, isNotified: false, newest: 1 };
const TOLD: WakingMail = { isUnread: true, isNotified: true, newest: 1 };

/** Whatever happened so far, each a mailbox, a event and a time after the one before. */
type Past = [mail: WakingMail, event: DoorbellEvent, afterMs: number][];

function given(past: Past = []): { when: (...now: Past[number]) => DoorbellStep } {
  let doorbell: Doorbell = QUIET_DOORBELL;
  let nowMs = NOW;
  for (const [mail, event, afterMs] of past) {
    nowMs += afterMs;
    ({ doorbell } = stepDoorbell(doorbell, mail, event, nowMs));
  }
  return { when: (mail, event, afterMs) => stepDoorbell(doorbell, mail, event, nowMs + afterMs) };
}

const check = { type: 'check' } as const;
const notified = { type: 'notified', sessionId: 's1' } as const;
const turnEnded = (hasFailed: boolean, sessionId = 's1'): DoorbellEvent => ({
  type: 'turn-ended',
  sessionId,
  hasFailed,
});
const attempted = (outcome: AttemptOutcome): DoorbellEvent => ({ type: 'attempted', outcome });
const HEARD: Past = [
  [UNTOLD, check, 0],
  [TOLD, attempted('heard'), 100],
];

describe('a doorbell', () => {
  test('rings for mail that wakes and was not told', () => {
    expect(given().when(UNTOLD, check, 0)).toMatchObject({ startsAttempt: true, nextAtMs: null });
  });

  test('does not ring for a drained mailbox, nor for what was told', () => {
    expect(given().when(DRAINED, check, 0)).toMatchObject({ startsAttempt: false, nextAtMs: null });
    expect(given().when(TOLD, check, 0)).toMatchObject({ startsAttempt: false, nextAtMs: null });
  });

  test('does not ring while another one does', () => {
    expect(given([[UNTOLD, check, 0]]).when(UNTOLD, check, 5)).toMatchObject({ startsAttempt: false, nextAtMs: null });
  });

  test('that was heard rings again for more mail, a cooldown after it was over', () => {
    const early = given(HEARD).when(UNTOLD, check, DOORBELL_COOLDOWN_MS - 1);
    expect(early).toMatchObject({ startsAttempt: false, nextAtMs: NOW + 100 + DOORBELL_COOLDOWN_MS });
    expect(given(HEARD).when(UNTOLD, check, DOORBELL_COOLDOWN_MS)).toMatchObject({ startsAttempt: true });
  });

  test('rings at once for mail that came after a drain', () => {
    expect(given([...HEARD, [DRAINED, check, 10]]).when(UNTOLD, check, 10)).toMatchObject({ startsAttempt: true });
  });

  test('that was waiting for the cooldown is cancelled by a drain', () => {
    const waiting: Past = [...HEARD, [UNTOLD, check, 10]];
    expect(given(waiting).when(DRAINED, check, 10)).toMatchObject({ startsAttempt: false, nextAtMs: null });
  });

  test('that was drained while it rang leaves no cooldown behind', () => {
    const drainedDuringAttempt: Past = [
      [UNTOLD, check, 0],
      [DRAINED, check, 10],
      [UNTOLD, check, 10],
    ];
    expect(given(drainedDuringAttempt).when(UNTOLD, attempted('heard'), 10)).toMatchObject({ startsAttempt: true });
  });

  test('that nothing proved is tried again after longer and longer pauses', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, attempted('unheard'), 0],
    ];
    expect(given(past).when(UNTOLD, check, 0).nextAtMs).toBe(NOW + 2 * DOORBELL_COOLDOWN_MS);
    for (let times = 0; times < 20; times++) {
      past.push([UNTOLD, check, DOORBELL_RETRY_MAX_MS], [UNTOLD, attempted('unheard'), 0]);
    }
    const at = NOW + 20 * DOORBELL_RETRY_MAX_MS;
    expect(given(past).when(UNTOLD, check, 0).nextAtMs).toBe(at + DOORBELL_RETRY_MAX_MS);
  });

  test('that a program took without proof rings again only long after, or for newer mail or a new session', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, attempted('given'), 0],
    ];
    expect(given(past).when(UNTOLD, check, 0).nextAtMs).toBe(NOW + DOORBELL_RETRY_MAX_MS);
    expect(given(past).when(UNTOLD, { type: 'session-wakeable' }, 0).nextAtMs).toBe(NOW + DOORBELL_RETRY_MAX_MS);
    expect(given(past).when({ ...UNTOLD, newest: 2 }, check, 0).nextAtMs).toBe(NOW + DOORBELL_COOLDOWN_MS);
    expect(given(past).when(UNTOLD, { type: 'session-registered' }, 0).nextAtMs).toBe(NOW + DOORBELL_COOLDOWN_MS);
  });

  test('that nobody was there for waits for somebody, and rings for them without a cooldown', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, attempted('nobody'), 0],
    ];
    expect(given(past).when(UNTOLD, check, DOORBELL_RETRY_MAX_MS)).toMatchObject({
      startsAttempt: false,
      nextAtMs: null,
    });
    expect(given(past).when(UNTOLD, { type: 'session-wakeable' }, 1)).toMatchObject({ startsAttempt: true });
    expect(given(past).when(UNTOLD, { type: 'session-registered' }, 1)).toMatchObject({ startsAttempt: true });
  });

  test('rings at once when the clock of the process has just begun', () => {
    expect(stepDoorbell(QUIET_DOORBELL, UNTOLD, check, 0)).toEqual({
      doorbell: { ...QUIET_DOORBELL, attempt: { isOutdated: false, hasNewListener: false, newest: 1 } },
      startsAttempt: true,
      nextAtMs: null,
    });
  });

  test('that nobody was there for keeps when the last one was over, and how many were not heard', () => {
    const before: Doorbell = { ...QUIET_DOORBELL, lastAtMs: 7, unheard: 2, hasNewSession: true };
    const attempt = { isOutdated: false, hasNewListener: false, newest: 1 };
    const step = stepDoorbell({ ...before, attempt }, UNTOLD, attempted('nobody'), NOW);
    expect(step.doorbell).toEqual({ ...before, isStranded: true });
  });

  test('that was heard does not ring again for what it told', () => {
    expect(given(HEARD).when(TOLD, check, DOORBELL_COOLDOWN_MS)).toMatchObject({
      startsAttempt: false,
      nextAtMs: null,
    });
  });

  test('rings again for the session that came while it found nobody', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, { type: 'session-wakeable' }, 0],
    ];
    expect(given(past).when(UNTOLD, attempted('nobody'), 1)).toMatchObject({ startsAttempt: true });
  });

  test('rings for a new session although another one was told, and not for a new listener', () => {
    expect(given().when(TOLD, { type: 'session-registered' }, 0)).toMatchObject({ startsAttempt: true });
    expect(given().when(TOLD, { type: 'session-wakeable' }, 0)).toMatchObject({ startsAttempt: false });
    expect(given([[TOLD, { type: 'session-registered' }, 0]]).when(TOLD, attempted('heard'), 1)).toMatchObject({
      startsAttempt: false,
    });
  });

  test('of a new session is not needed when it was told in another way', () => {
    const past: Past = [...HEARD, [TOLD, { type: 'session-registered' }, 10]];
    expect(given(past).when(TOLD, check, 0).nextAtMs).toBe(NOW + 100 + DOORBELL_COOLDOWN_MS);
    expect(given(past).when(TOLD, notified, 0).nextAtMs).toBeNull();
  });

  test('that found nobody does not make a program take again the line that it holds', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, attempted('given'), 0],
      [UNTOLD, { type: 'session-registered' }, DOORBELL_COOLDOWN_MS],
      [UNTOLD, notified, 0],
      [UNTOLD, { type: 'session-wakeable' }, 0],
    ];
    expect(given(past).when(UNTOLD, attempted('nobody'), 1)).toMatchObject({
      startsAttempt: false,
      nextAtMs: NOW + DOORBELL_RETRY_MAX_MS,
    });
  });

  test('that was heard in a turn that failed rings again, after ever longer pauses, until a mail tool is used', () => {
    const past: Past = [...HEARD, [TOLD, notified, 0]];
    for (const pauseMs of [2, 4, 8].map((times) => times * DOORBELL_COOLDOWN_MS)) {
      past.push([TOLD, turnEnded(true), 10]);
      expect(given(past).when(TOLD, check, pauseMs - 1)).toMatchObject({ startsAttempt: false });
      expect(given(past).when(TOLD, check, pauseMs)).toMatchObject({ startsAttempt: true });
      expect(given(past).when(TOLD, { type: 'used-tool' }, pauseMs)).toMatchObject({ startsAttempt: false });
      expect(given(past).when(TOLD, notified, pauseMs)).toMatchObject({ startsAttempt: false });
      expect(given(past).when(DRAINED, check, pauseMs)).toMatchObject({ startsAttempt: false });
      past.push([TOLD, check, pauseMs], [TOLD, notified, 0], [TOLD, attempted('heard'), 0]);
    }
    for (let times = 0; times < 10; times++) {
      past.push([TOLD, turnEnded(true), 10]);
      past.push([TOLD, check, DOORBELL_RETRY_MAX_MS], [TOLD, notified, 0], [TOLD, attempted('heard'), 0]);
    }
    const { doorbell } = given([...past, [TOLD, { type: 'used-tool' }, 0]]).when(TOLD, turnEnded(true), 0);
    expect(doorbell).toMatchObject({ isLost: false, lost: 0 });
  });

  test('that was lost before its attempt was over rings again', () => {
    const past: Past = [
      [UNTOLD, check, 0],
      [UNTOLD, notified, 0],
      [UNTOLD, turnEnded(true), 0],
      [TOLD, attempted('heard'), 0],
    ];
    expect(given(past).when(TOLD, check, 2 * DOORBELL_COOLDOWN_MS)).toMatchObject({ startsAttempt: true });
  });

  test('for mail of a lost turn that no program heard is tried again, and waits where there was no program', () => {
    const past: Past = [
      ...HEARD,
      [TOLD, notified, 0],
      [TOLD, turnEnded(true), 0],
      [TOLD, check, DOORBELL_RETRY_MAX_MS],
    ];
    expect(given(past).when(TOLD, attempted('unheard'), 0).nextAtMs).not.toBeNull();
    expect(given(past).when(TOLD, attempted('given'), 0).nextAtMs).not.toBeNull();
    past.push([TOLD, attempted('nobody'), 0]);
    expect(given(past).when(TOLD, check, DOORBELL_RETRY_MAX_MS)).toMatchObject({
      startsAttempt: false,
      nextAtMs: null,
    });
    expect(given(past).when(TOLD, { type: 'session-wakeable' }, DOORBELL_RETRY_MAX_MS).startsAttempt).toBe(true);
  });

  test('whose mail its agent let lie rings again a few times, and not for a prompt of its user', () => {
    const past: Past = [[TOLD, notified, 0]];
    expect(given(past).when(TOLD, turnEnded(false), 0)).toMatchObject({ startsAttempt: false, nextAtMs: null });
    past.push([UNTOLD, check, DOORBELL_RETRY_MAX_MS], [UNTOLD, notified, 0], [TOLD, attempted('heard'), 0]);
    for (let times = 0; times < LET_LIE_MAX; times++) {
      past.push([TOLD, turnEnded(false), 0]);
      expect(given(past).when(TOLD, check, 0).nextAtMs).not.toBeNull();
      past.push([TOLD, check, DOORBELL_RETRY_MAX_MS], [TOLD, notified, 0], [TOLD, attempted('heard'), 0]);
    }
    expect(given(past).when(TOLD, turnEnded(false), 0)).toMatchObject({ startsAttempt: false, nextAtMs: null });
  });

  test('is not lost by the turn of another session, nor once a mail tool was used', () => {
    const past: Past = [...HEARD, [TOLD, notified, 0]];
    expect(given(past).when(TOLD, turnEnded(true, 's2'), 0).nextAtMs).toBeNull();
    expect(given([...past, [TOLD, { type: 'used-tool' }, 0]]).when(TOLD, turnEnded(true), 0).nextAtMs).toBeNull();
  });

  test('that does not ring cannot be over', () => {
    expect(() => given().when(UNTOLD, attempted('heard'), 0)).toThrow('invariant');
  });
});

test('the text of a doorbell is constant but for the count', () => {
  expect(doorbellText(1)).toBe('You have 1 unread message in Poste. Read it with mail_inbox.');
  expect(doorbellText(3)).toBe('You have 3 unread messages in Poste. Read them with mail_inbox.');
});

test('the lines of doorbells in a prompt are found wherever they stand, each once', () => {
  const [one, twelve] = [doorbellText(1), doorbellText(12)];
  const wrapped = `<task-notification>feedback: ${one}</task-notification> ${twelve} ${one}`;
  expect(doorbellLines(wrapped)).toEqual([doorbellText(1), doorbellText(12)]);
  expect(doorbellLines('You have 1 unread message.')).toEqual([]);
  const many = Array.from({ length: 20 }, (_, count) => doorbellText(count + 1));
  expect(doorbellLines(many.join('\n'))).toEqual(many.slice(-DOORBELL_LINES_MAX));
});

/** A mailbox, its doorbell and the time, and the three promises held at every step. */
class Street {
  nowMs = 0;
  mail = DRAINED;
  doorbell = QUIET_DOORBELL;
  nextAtMs: number | null = null;
  /** The number of the unread set: a drain ends one. */
  set = 0;
  attempt: { set: number; hasMore: boolean; newest: number } | null = null;
  lastRung: { set: number; endMs: number; givenFor: number | null } | null = null;
  newest = 0;
  heard = 0;

  happen(event: DoorbellEvent): void {
    const isNews = event.type === 'session-registered';
    const step = stepDoorbell(this.doorbell, this.mail, event, this.nowMs);
    const knewOfNewSession = this.doorbell.hasNewSession || isNews;
    const wasLost = this.doorbell.isLost;
    this.doorbell = step.doorbell;
    this.nextAtMs = step.nextAtMs;
    if (!step.startsAttempt) return;
    assert.equal(this.attempt, null);
    assert(this.mail.isUnread);
    assert(!this.mail.isNotified || knewOfNewSession || wasLost);
    if (this.lastRung?.set === this.set) {
      assert(this.nowMs - this.lastRung.endMs >= DOORBELL_COOLDOWN_MS);
      if (this.lastRung.givenFor === this.mail.newest && !knewOfNewSession) {
        assert(this.nowMs - this.lastRung.endMs >= DOORBELL_RETRY_MAX_MS);
      }
    }
    this.attempt = { set: this.set, hasMore: false, newest: this.mail.newest };
  }

  arrive(): void {
    this.mail = { ...UNTOLD, newest: ++this.newest };
    if (this.attempt) this.attempt.hasMore = true;
    this.happen(check);
  }

  drain(): void {
    this.mail = DRAINED;
    this.set++;
    this.happen(check);
  }

  end(outcome: AttemptOutcome): void {
    const { attempt } = this;
    if (!attempt) return;
    this.attempt = null;
    if (outcome !== 'nobody')
      this.lastRung = { set: attempt.set, endMs: this.nowMs, givenFor: outcome === 'given' ? attempt.newest : null };
    if (outcome === 'heard') this.heard++;
    if (outcome === 'heard' && this.mail.isUnread && !attempt.hasMore) this.mail = { ...this.mail, isNotified: true };
    this.happen(attempted(outcome));
  }

  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    while (this.nextAtMs !== null && this.nextAtMs <= untilMs) {
      this.nowMs = Math.max(this.nowMs, this.nextAtMs);
      this.nextAtMs = null;
      this.happen(check);
    }
    this.nowMs = untilMs;
  }
}

const outcomes = fc.constantFrom<AttemptOutcome>('heard', 'given', 'unheard', 'nobody');
const steps = fc.array(
  fc.oneof(
    fc.constant((street: Street) => street.arrive()),
    fc.constant((street: Street) => street.drain()),
    fc.constant((street: Street) => street.happen({ type: 'session-registered' })),
    fc.constant((street: Street) => street.happen({ type: 'session-wakeable' })),
    fc.constant((street: Street) => street.happen(notified)),
    fc.constant((street: Street) => street.happen({ type: 'used-tool' })),
    fc.boolean().map((hasFailed) => (street: Street) => street.happen(turnEnded(hasFailed))),
    outcomes.map((outcome) => (street: Street) => street.end(outcome)),
    fc.nat(3 * DOORBELL_COOLDOWN_MS).map((ms) => (street: Street) => street.pass(ms)),
  ),
  { maxLength: 60 },
);

test('property: one doorbell for an unread set in its cooldown, none for a drained one, and newer mail rings', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const street = new Street();
      for (const step of all) step(street);
      street.end('nobody');
      street.drain();
      const heardBefore = street.heard;
      street.arrive();
      street.happen({ type: 'session-wakeable' });
      for (let times = 0; times < 3; times++) {
        street.end('heard');
        street.pass(DOORBELL_RETRY_MAX_MS);
      }
      expect(street.heard).toBeGreaterThan(heardBefore);
      expect(street.mail).toMatchObject({ isUnread: true, isNotified: true });
    }),
    { numRuns: 1000 },
  );
});
