import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { doorbellText } from '../../../src/host/core/doorbell-text.ts';
import {
  DOORBELL_COOLDOWN_MS,
  DOORBELL_RETRY_MAX_MS,
  type Doorbell,
  type DoorbellHappening,
  type DoorbellStep,
  QUIET_DOORBELL,
  type RingOutcome,
  type WakingMail,
  stepDoorbell,
} from '../../../src/host/core/doorbell.ts';

const NOW = 1_000_000;
const DRAINED: WakingMail = { isUnread: false, isTold: false };
const UNTOLD: WakingMail = { isUnread: true, isTold: false };
const TOLD: WakingMail = { isUnread: true, isTold: true };

/** Whatever happened so far, each a mailbox, a happening and a time after the one before. */
type Past = [mail: WakingMail, happening: DoorbellHappening, afterMs: number][];

function given(past: Past = []): { when: (...now: Past[number]) => DoorbellStep } {
  let doorbell: Doorbell = QUIET_DOORBELL;
  let nowMs = NOW;
  for (const [mail, happening, afterMs] of past) {
    nowMs += afterMs;
    ({ doorbell } = stepDoorbell(doorbell, mail, happening, nowMs));
  }
  return { when: (mail, happening, afterMs) => stepDoorbell(doorbell, mail, happening, nowMs + afterMs) };
}

const look = { type: 'look' } as const;
const rung = (outcome: RingOutcome): DoorbellHappening => ({ type: 'rung', outcome });
const HEARD: Past = [
  [UNTOLD, look, 0],
  [TOLD, rung('heard'), 100],
];

describe('a doorbell', () => {
  test('rings for mail that wakes and was not told', () => {
    expect(given().when(UNTOLD, look, 0)).toMatchObject({ rings: true, nextAtMs: null });
  });

  test('does not ring for a drained mailbox, nor for what was told', () => {
    expect(given().when(DRAINED, look, 0)).toMatchObject({ rings: false, nextAtMs: null });
    expect(given().when(TOLD, look, 0)).toMatchObject({ rings: false, nextAtMs: null });
  });

  test('does not ring while another one does', () => {
    expect(given([[UNTOLD, look, 0]]).when(UNTOLD, look, 5)).toMatchObject({ rings: false, nextAtMs: null });
  });

  test('that was heard rings again for more mail, a cooldown after it was over', () => {
    const early = given(HEARD).when(UNTOLD, look, DOORBELL_COOLDOWN_MS - 1);
    expect(early).toMatchObject({ rings: false, nextAtMs: NOW + 100 + DOORBELL_COOLDOWN_MS });
    expect(given(HEARD).when(UNTOLD, look, DOORBELL_COOLDOWN_MS)).toMatchObject({ rings: true });
  });

  test('rings at once for mail that came after a drain', () => {
    expect(given([...HEARD, [DRAINED, look, 10]]).when(UNTOLD, look, 10)).toMatchObject({ rings: true });
  });

  test('that was waiting for the cooldown is cancelled by a drain', () => {
    const waiting: Past = [...HEARD, [UNTOLD, look, 10]];
    expect(given(waiting).when(DRAINED, look, 10)).toMatchObject({ rings: false, nextAtMs: null });
  });

  test('that was drained while it rang leaves no cooldown behind', () => {
    const drainedWhileRinging: Past = [
      [UNTOLD, look, 0],
      [DRAINED, look, 10],
      [UNTOLD, look, 10],
    ];
    expect(given(drainedWhileRinging).when(UNTOLD, rung('heard'), 10)).toMatchObject({ rings: true });
  });

  test('that nothing proved is tried again after longer and longer pauses', () => {
    const past: Past = [
      [UNTOLD, look, 0],
      [UNTOLD, rung('unheard'), 0],
    ];
    expect(given(past).when(UNTOLD, look, 0).nextAtMs).toBe(NOW + 2 * DOORBELL_COOLDOWN_MS);
    for (let times = 0; times < 20; times++) {
      past.push([UNTOLD, look, DOORBELL_RETRY_MAX_MS], [UNTOLD, rung('unheard'), 0]);
    }
    const at = NOW + 20 * DOORBELL_RETRY_MAX_MS;
    expect(given(past).when(UNTOLD, look, 0).nextAtMs).toBe(at + DOORBELL_RETRY_MAX_MS);
  });

  test('that nobody was there for waits for somebody, and rings for them without a cooldown', () => {
    const past: Past = [
      [UNTOLD, look, 0],
      [UNTOLD, rung('nobody'), 0],
    ];
    expect(given(past).when(UNTOLD, look, DOORBELL_RETRY_MAX_MS)).toMatchObject({ rings: false, nextAtMs: null });
    expect(given(past).when(UNTOLD, { type: 'listener-came' }, 1)).toMatchObject({ rings: true });
    expect(given(past).when(UNTOLD, { type: 'session-came' }, 1)).toMatchObject({ rings: true });
  });

  test('rings again for whoever came while it found nobody', () => {
    const past: Past = [
      [UNTOLD, look, 0],
      [UNTOLD, { type: 'listener-came' }, 0],
    ];
    expect(given(past).when(UNTOLD, rung('nobody'), 1)).toMatchObject({ rings: true });
  });

  test('rings for a new session although another one was told, and not for a new listener', () => {
    expect(given().when(TOLD, { type: 'session-came' }, 0)).toMatchObject({ rings: true });
    expect(given().when(TOLD, { type: 'listener-came' }, 0)).toMatchObject({ rings: false });
    expect(given([[TOLD, { type: 'session-came' }, 0]]).when(TOLD, rung('heard'), 1)).toMatchObject({ rings: false });
  });

  test('of a new session is not needed when it was told in another way', () => {
    const past: Past = [...HEARD, [TOLD, { type: 'session-came' }, 10]];
    expect(given(past).when(TOLD, look, 0).nextAtMs).toBe(NOW + 100 + DOORBELL_COOLDOWN_MS);
    expect(given(past).when(TOLD, { type: 'told' }, 0).nextAtMs).toBeNull();
  });

  test('that does not ring cannot be over', () => {
    expect(() => given().when(UNTOLD, rung('heard'), 0)).toThrow('invariant');
  });
});

test('the text of a doorbell is constant but for the count', () => {
  expect(doorbellText(1)).toBe('You have 1 unread message in Poste. Read it with mail_inbox.');
  expect(doorbellText(3)).toBe('You have 3 unread messages in Poste. Read them with mail_inbox.');
});

/** A mailbox, its doorbell and the time, and the three promises held at every step. */
class Street {
  nowMs = 0;
  mail = DRAINED;
  doorbell = QUIET_DOORBELL;
  nextAtMs: number | null = null;
  /** Which unread set it is: a drain ends one. */
  set = 0;
  ringing: { set: number; hasMore: boolean } | null = null;
  lastRung: { set: number; endMs: number } | null = null;
  heard = 0;

  happen(happening: DoorbellHappening): void {
    const isNews = happening.type === 'session-came';
    const step = stepDoorbell(this.doorbell, this.mail, happening, this.nowMs);
    const knewOfNewSession = this.doorbell.hasNewSession || isNews;
    this.doorbell = step.doorbell;
    this.nextAtMs = step.nextAtMs;
    if (!step.rings) return;
    assert.equal(this.ringing, null);
    assert(this.mail.isUnread);
    assert(!this.mail.isTold || knewOfNewSession);
    if (this.lastRung?.set === this.set) {
      assert(this.nowMs - this.lastRung.endMs >= DOORBELL_COOLDOWN_MS);
    }
    this.ringing = { set: this.set, hasMore: false };
  }

  arrive(): void {
    this.mail = UNTOLD;
    if (this.ringing) this.ringing.hasMore = true;
    this.happen(look);
  }

  drain(): void {
    this.mail = DRAINED;
    this.set++;
    this.happen(look);
  }

  end(outcome: RingOutcome): void {
    const { ringing } = this;
    if (!ringing) return;
    this.ringing = null;
    if (outcome !== 'nobody') this.lastRung = { set: ringing.set, endMs: this.nowMs };
    if (outcome === 'heard') this.heard++;
    if (outcome === 'heard' && this.mail.isUnread && !ringing.hasMore) this.mail = TOLD;
    this.happen(rung(outcome));
  }

  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    while (this.nextAtMs !== null && this.nextAtMs <= untilMs) {
      this.nowMs = Math.max(this.nowMs, this.nextAtMs);
      this.nextAtMs = null;
      this.happen(look);
    }
    this.nowMs = untilMs;
  }
}

const outcomes = fc.constantFrom<RingOutcome>('heard', 'unheard', 'nobody');
const steps = fc.array(
  fc.oneof(
    fc.constant((street: Street) => street.arrive()),
    fc.constant((street: Street) => street.drain()),
    fc.constant((street: Street) => street.happen({ type: 'session-came' })),
    fc.constant((street: Street) => street.happen({ type: 'listener-came' })),
    fc.constant((street: Street) => street.happen({ type: 'told' })),
    outcomes.map((outcome) => (street: Street) => street.end(outcome)),
    fc.nat(3 * DOORBELL_COOLDOWN_MS).map((ms) => (street: Street) => street.pass(ms)),
  ),
  { maxLength: 60 },
);

test('property: never two doorbells within the cooldown for the same unread set, none for a drained one, and new waking mail after a drain rings in the end', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const street = new Street();
      for (const step of all) step(street);
      street.end('nobody');
      street.drain();
      const heardBefore = street.heard;
      street.arrive();
      street.happen({ type: 'listener-came' });
      for (let times = 0; times < 3; times++) {
        street.end('heard');
        street.pass(DOORBELL_RETRY_MAX_MS);
      }
      expect(street.heard).toBeGreaterThan(heardBefore);
      expect(street.mail).toEqual(TOLD);
    }),
    { numRuns: 1000 },
  );
});
