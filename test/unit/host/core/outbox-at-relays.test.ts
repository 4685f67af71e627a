/** Tests the states of an outbox row at several relays: each case is a story of events at hours since noon. */
import { describe, expect, test } from 'vitest';
import { type OutboxAlert, type OutboxEvent, RETRY_TIMING } from '../../../../src/host/core/outbox-event.ts';
import { RELAY_GRACE_MS, stepOutbox } from '../../../../src/host/core/outbox.ts';
import {
  GIVE_UP_MS,
  copiesOf,
  copyAt,
  isAcceptedIn,
  liveCopies,
  triedAt,
} from '../../../../src/host/core/outbox-row.ts';
import type { RelayCopy } from '../../../../src/host/core/relay-acceptance.ts';
import type { OutboxRow } from '../../../../src/host/core/rows.ts';
import { DAY_MS, HOUR_MS } from '../../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import { ANNA, RETENTION_MS, acceptance, outboxRow } from '../../../support/outbox-rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const R1 = relay.key;
const R2 = hostNamed('relay two').key;
const R3 = hostNamed('relay three').key;
const RETENTION_H = RETENTION_MS / HOUR_MS;
const EARLY_MS = 300_000;

/** True when the first relay may have had the item: only one that refused it and answered every push cannot. */
function mayHaveIt(row: OutboxRow): boolean {
  const tried = triedAt(row, R1);
  return tried !== undefined && !tried.isRefused;
}

/** An event and the hours since noon at which it happens; at noon by default. */
type Happening = OutboxEvent | [hours: number, event: OutboxEvent];

const pushing = (relayPubkey: PublicKey): OutboxEvent => ({ type: 'relay-pushing', relayPubkey, isOneOfMany: true });
const refused = (relayPubkey: PublicKey, code = 'quota:queue_items'): OutboxEvent => ({
  type: 'relay-refused',
  relayPubkey,
  code,
});
const failed = (relayPubkey: PublicKey): OutboxEvent => ({ type: 'relay-failed', relayPubkey, reason: 'no answer' });
const took = (relayPubkey: PublicKey, hours = 0, epoch = 1): OutboxEvent => ({
  type: 'relay-accepted',
  acceptance: acceptance(NOON_MS + hours * HOUR_MS, epochNumbered(epoch), relayPubkey),
  isVerified: true,
});
const expired = (relayPubkey: PublicKey, hours = RETENTION_H): OutboxEvent => ({
  type: 'expired',
  relayPubkey,
  expiredAtMs: NOON_MS + hours * HOUR_MS,
});
const newEpoch = (relayPubkey: PublicKey, epoch = 2): OutboxEvent => ({
  type: 'new-epoch',
  relayPubkey,
  epoch: epochNumbered(epoch),
});
const removed = (relayPubkey: PublicKey): OutboxEvent => ({ type: 'relay-removed', relayPubkey });
const ready = (relayPubkey: PublicKey, epoch = 1): OutboxEvent => ({
  type: 'relay-ready',
  relayPubkey,
  epoch: epochNumbered(epoch),
});
const receipt: OutboxEvent = { type: 'receipt', recipient: ANNA, state: 'delivered' };
const passed: OutboxEvent = { type: 'time-passed' };

/** Both relays take it at noon. */
const AT_BOTH = [pushing(R1), took(R1), pushing(R2), took(R2)];

interface Told {
  row: OutboxRow;
  alerts: OutboxAlert[];
}

/** Returns what becomes of a fresh row. The jitter is such that pauses are whole. */
function told(story: readonly Happening[], first: Partial<OutboxRow> = {}): Told {
  let row: OutboxRow | null = outboxRow(first);
  const alerts: OutboxAlert[] = [];
  for (const happening of story) {
    const [hours, event] = Array.isArray(happening) ? happening : [0, happening];
    if (!row) throw new Error('the row was dropped');
    const step = stepOutbox(row, event, {
      nowMs: NOON_MS + hours * HOUR_MS,
      momentMs: (atMs) => atMs,
      jitter: 1,
      retry: RETRY_TIMING,
      hasPeerConfirmed: true,
    });
    row = step.row;
    alerts.push(...step.effects.flatMap((effect) => (effect.type === 'Alert' ? [effect.alert] : [])));
  }
  if (!row) throw new Error('the row was dropped');
  return { row, alerts };
}

const nameOf = (key: PublicKey): string => (key === R1 ? 'R1' : key === R2 ? 'R2' : 'R3');

/** The states of a row's copies, by relay. */
function statesOf(row: OutboxRow): Partial<Record<'R1' | 'R2' | 'R3', RelayCopy['state']>> {
  return Object.fromEntries(copiesOf(row).map(({ acceptance, state }) => [nameOf(acceptance.relayPubkey), state]));
}

describe('a copy at one of several relays', () => {
  test.each<[string, Happening[], ReturnType<typeof statesOf>]>([
    ['none: pushed without an answer', [pushing(R1)], {}],
    ['none: refused', [pushing(R1), refused(R1)], {}],
    ['live: accepted', [pushing(R1), took(R1)], { R1: 'live' }],
    ['live at each that accepted', AT_BOTH, { R1: 'live', R2: 'live' }],
    ['again: that relay began a new epoch', [...AT_BOTH, newEpoch(R1)], { R1: 'again', R2: 'live' }],
    ['live: the epoch is the one that it was accepted in', [...AT_BOTH, newEpoch(R1, 1)], { R1: 'live', R2: 'live' }],
    [
      'again: that relay went back',
      [...AT_BOTH, { type: 'relay-rewound', relayPubkey: R2 }],
      { R1: 'live', R2: 'again' },
    ],
    [
      'again: that relay does not show it',
      [
        ...AT_BOTH,
        { type: 'relay-denied', relayPubkey: R1, epoch: epochNumbered(1), denied: { times: 1, atMs: NOON_MS } },
      ],
      { R1: 'again', R2: 'live' },
    ],
    [
      'live again: accepted in the new epoch',
      [...AT_BOTH, newEpoch(R1), pushing(R1), took(R1, 0, 2)],
      { R1: 'live', R2: 'live' },
    ],
    [
      'again still: refused in the new epoch',
      [...AT_BOTH, newEpoch(R1), pushing(R1), refused(R1)],
      { R1: 'again', R2: 'live' },
    ],
    ['expired: a notice in its time', [...AT_BOTH, [RETENTION_H, expired(R1)]], { R1: 'expired', R2: 'live' }],
    [
      'expired for good in that epoch: another notice, a late answer, a rewind',
      [
        ...AT_BOTH,
        [RETENTION_H, expired(R1)],
        [RETENTION_H, expired(R1)],
        [RETENTION_H, took(R1)],
        [RETENTION_H, { type: 'relay-rewound', relayPubkey: R1 }],
        [RETENTION_H, newEpoch(R1)],
        [RETENTION_H, ready(R1, 2)],
      ],
      { R1: 'expired', R2: 'live' },
    ],
    [
      'live: a notice of before the acceptance says nothing',
      [...AT_BOTH, [RETENTION_H, expired(R1, -1)]],
      { R1: 'live', R2: 'live' },
    ],
    ['gone: its owner removed the relay', [...AT_BOTH, removed(R1)], { R1: 'gone', R2: 'live' }],
    ['gone still: the answer of a push before that', [...AT_BOTH, removed(R1), took(R1)], { R1: 'gone', R2: 'live' }],
    ['again: added again, in the same epoch', [...AT_BOTH, removed(R1), newEpoch(R1, 1)], { R1: 'again', R2: 'live' }],
    [
      'again: a relay that is ready in the same epoch',
      [...AT_BOTH, removed(R1), ready(R1)],
      { R1: 'again', R2: 'live' },
    ],
    [
      'expired still, where the relay is removed',
      [...AT_BOTH, [RETENTION_H, expired(R1)], removed(R1)],
      {
        R1: 'expired',
        R2: 'live',
      },
    ],
  ])('%s', (_case, story, states) => {
    const { row, alerts } = told(story);
    expect(statesOf(row)).toEqual(states);
    expect(row.state).toBe(Object.keys(states).length === 0 ? 'pending' : 'relay-accepted');
    expect(alerts).toEqual([]);
  });

  test('a receipt that does not verify makes none', () => {
    const { row } = told([pushing(R1), { ...took(R1), isVerified: false } as OutboxEvent]);
    expect(statesOf(row)).toEqual({});
    expect(triedAt(row, R1)).toMatchObject({ isUnanswered: true, failures: { count: 1 } });
  });
});

describe('the relays that the bytes left for', () => {
  test.each<[string, Happening[], boolean]>([
    ['before the bytes leave', [pushing(R1)], true],
    ['no answer', [pushing(R1), failed(R1)], true],
    ['refused at once', [pushing(R1), refused(R1)], false],
    ['refused after a push without an answer', [pushing(R1), failed(R1), pushing(R1), refused(R1)], true],
    ['refused after a push that a crash cut short', [pushing(R1), pushing(R1), refused(R1)], true],
    ['refused, and pushed again', [pushing(R1), refused(R1), pushing(R1)], true],
    ['refused twice', [pushing(R1), refused(R1), pushing(R1), refused(R1)], false],
    ['refused in another epoch than it was accepted in', [...AT_BOTH, newEpoch(R1), pushing(R1), refused(R1)], true],
    [
      'known to be too large, so that nothing left',
      [{ type: 'relay-refused', relayPubkey: R1, code: 'too large', unsent: { isOneOfMany: true } }],
      false,
    ],
    [
      'known to be too large after a crash cut a push short',
      [pushing(R1), { type: 'relay-refused', relayPubkey: R1, code: 'too large', unsent: { isOneOfMany: true } }],
      true,
    ],
    ['another relay', [pushing(R2), took(R2)], false],
  ])('%s: the relay may have it: %s', (_case, story, mayHave) => {
    const { row } = told(story);
    expect(mayHaveIt(row)).toBe(mayHave);
  });

  test('each keeps the time of its own first push, and one that refused begins anew', () => {
    const { row } = told([pushing(R1), [2, pushing(R2)], [3, refused(R2)], [4, pushing(R1)], [5, pushing(R2)]]);
    expect(triedAt(row, R1)?.firstAtMs).toBe(NOON_MS);
    expect(triedAt(row, R2)?.firstAtMs).toBe(NOON_MS + 5 * HOUR_MS);
    expect(row.firstPushAtMs).toBe(NOON_MS);
  });

  test('what was there before this host had several relays is named too', () => {
    const one = told([{ type: 'relay-pushing', relayPubkey: R1, isOneOfMany: false }, took(R1)]).row;
    expect(one).not.toHaveProperty('tried');
    const several = told(
      [
        [1, pushing(R2)],
        [1, took(R2, 1)],
      ],
      one,
    ).row;
    expect(statesOf(several)).toEqual({ R1: 'live', R2: 'live' });
    expect(triedAt(several, R1)).toEqual({ relayPubkey: R1, firstAtMs: NOON_MS });
    // Nobody knows what became of a push without an answer: it was to the relay that was here first.
    const unanswered = told([[1, { ...pushing(R2), oldestRelay: R1 } as OutboxEvent]], { firstPushAtMs: NOON_MS }).row;
    expect(triedAt(unanswered, R1)).toEqual({ relayPubkey: R1, firstAtMs: NOON_MS, isUnanswered: true });
    expect(mayHaveIt(told([removed(R1)], { firstPushAtMs: NOON_MS }).row)).toBe(true);
  });

  test('a host with one relay has neither copies nor names of relays in its rows', () => {
    const alone = { type: 'relay-pushing', relayPubkey: R1, isOneOfMany: false } as const;
    const { row } = told([
      alone,
      failed(R1),
      refused(R1),
      { type: 'relay-refused', relayPubkey: R1, code: 'too large', unsent: { isOneOfMany: false } },
      alone,
      took(R1),
      newEpoch(R1),
      took(R1, 0, 2),
      { type: 'relay-rewound', relayPubkey: R1 },
    ]);
    expect(row).toMatchObject({ state: 'relay-accepted', acceptance: { epoch: epochNumbered(2), mayBeLost: true } });
    for (const name of ['copies', 'tried']) expect(row).not.toHaveProperty(name);
    expect(statesOf(row)).toEqual({ R1: 'again' });
  });
});

describe('the end of a row that several relays have', () => {
  const atR1 = [pushing(R1), took(R1)];
  const R1_EXPIRED: Happening = [RETENTION_H, expired(R1)];

  test.each<[string, Happening[], 'expired' | 'relay-accepted' | 'done']>([
    ['every relay that has it said so', [...AT_BOTH, R1_EXPIRED, [RETENTION_H, expired(R2)]], 'expired'],
    ['the only one that it left for said so', [...atR1, R1_EXPIRED], 'expired'],
    ['one has it', [...AT_BOTH, R1_EXPIRED], 'relay-accepted'],
    ['one refused it', [...atR1, pushing(R2), refused(R2), R1_EXPIRED], 'expired'],
    ['one never answered', [...atR1, pushing(R2), R1_EXPIRED], 'relay-accepted'],
    ['one failed', [...atR1, pushing(R2), failed(R2), R1_EXPIRED], 'relay-accepted'],
    [
      'one refused it after a push without an answer',
      [...atR1, pushing(R2), failed(R2), pushing(R2), refused(R2), R1_EXPIRED],
      'relay-accepted',
    ],
    ['one began a new epoch', [...AT_BOTH, newEpoch(R2), R1_EXPIRED], 'relay-accepted'],
    ['one was removed', [...AT_BOTH, removed(R2), R1_EXPIRED], 'relay-accepted'],
    [
      'a relay of before never answered',
      [{ ...pushing(R1), oldestRelay: R2 } as OutboxEvent, took(R1), R1_EXPIRED],
      'relay-accepted',
    ],
    ['the peer confirmed it before', [...AT_BOTH, receipt, R1_EXPIRED, [RETENTION_H, expired(R2)]], 'done'],
  ])('a notice came, and %s', (name, story, state) => {
    const first = name.startsWith('a relay of before') ? { firstPushAtMs: NOON_MS } : {};
    const { row, alerts } = told(story, first);
    expect(row.state).toBe(state);
    expect(alerts).toEqual(state === 'expired' ? ['expired'] : []);
  });

  test('a delivery receipt corrects what a notice said, and nothing changes after it', () => {
    const story = [
      ...AT_BOTH,
      R1_EXPIRED,
      [RETENTION_H, expired(R2)] as Happening,
      [RETENTION_H + 1, receipt] as Happening,
    ];
    const { row, alerts } = told(story);
    expect(row).toMatchObject({ state: 'done', nextAtMs: null });
    expect(alerts).toEqual(['expired', 'delivered-after-all']);
    const after = [expired(R1), newEpoch(R1), removed(R1), ready(R1), took(R1), failed(R2), refused(R2), passed];
    for (const event of after) expect(told([[RETENTION_H + 2, event]], row)).toEqual({ row, alerts: [] });
  });

  test.each<[string, Happening]>([
    ['by this host’s clock', [1, expired(R1)]],
    ['by its own date', [RETENTION_H, expired(R1, RETENTION_H - 25)]],
  ])('a notice before its time, %s, ends no row, and counts against the relay', (_case, notice) => {
    const { row, alerts } = told([...atR1, notice]);
    const [hours] = notice as [number, OutboxEvent];
    expect(row).toMatchObject({ state: 'relay-accepted', nextAtMs: NOON_MS + hours * HOUR_MS });
    expect(statesOf(row)).toEqual({ R1: 'expired' });
    const saidMs = NOON_MS + hours * HOUR_MS;
    expect(copyAt(row, R1)).toMatchObject({ expiredAtMs: saidMs, wrongAtMs: saidMs });
    expect(alerts).toEqual([]);
    // Another relay that takes it then has its whole time; when that is up, it was up at the first one as well.
    const later = told(
      [
        [hours, pushing(R2)],
        [hours, took(R2, hours)],
      ],
      row,
    ).row;
    expect(statesOf(later)).toEqual({ R1: 'expired', R2: 'live' });
    const end = told([[hours + RETENTION_H, expired(R2, hours + RETENTION_H)]], later);
    expect(end.row.state).toBe('expired');
    expect(end.alerts).toEqual(['expired']);
  });

  test('a notice after the receipt is kept for the trace, and changes nothing else', () => {
    const { row } = told([...AT_BOTH, [1, receipt]]);
    const after = told([R1_EXPIRED], row);
    expect(statesOf(after.row)).toEqual({ R1: 'expired', R2: 'live' });
    expect([after.row.state, after.row.nextAtMs, after.alerts]).toEqual(['done', null, []]);
    expect(copyAt(after.row, R1)).toMatchObject({ expiredAtMs: NOON_MS + RETENTION_MS });
  });

  test('a copy keeps why the row went there; the row of a host with one relay keeps nothing', () => {
    const why = { ...took(R2), why: 'second' } as OutboxEvent;
    expect(copyAt(told([pushing(R1), took(R1), pushing(R2), why]).row, R2)).toMatchObject({ why: 'second' });
    const only = { ...took(R1), why: 'first' } as OutboxEvent;
    const { row } = told([{ type: 'relay-pushing', relayPubkey: R1, isOneOfMany: false }, only]);
    expect(JSON.stringify(row)).not.toContain('"why"');
    expect(row.copies).toBeUndefined();
  });

  test('a notice in its time counts against nobody', () => {
    const nearly: Happening = [RETENTION_H, expired(R1, RETENTION_H - 24)];
    for (const notice of [R1_EXPIRED, nearly]) {
      const copy = copyAt(told([...AT_BOTH, notice]).row, R1);
      expect(copy).toMatchObject({ expiredAtMs: NOON_MS + RETENTION_MS });
      expect(copy).not.toHaveProperty('wrongAtMs');
    }
  });
});

describe('the deadline of a row that several relays have', () => {
  const END_H = (RETENTION_MS + RELAY_GRACE_MS) / HOUR_MS;
  const D = 24;

  /** The hours since noon at which the sender is told. */
  function toldAfter(story: readonly Happening[], first: Partial<OutboxRow> = {}): number {
    const { row, alerts } = told(story, first);
    expect(alerts).toEqual([]);
    const atMs = row.nextAtMs ?? 0;
    expect(told([[(atMs - 1 - NOON_MS) / HOUR_MS, passed]], row).row.state).toBe('relay-accepted');
    const end = told([[(atMs - NOON_MS) / HOUR_MS, passed]], row);
    expect(end.row.state).toBe('unconfirmed');
    expect(end.alerts).toEqual(['unconfirmed']);
    return (atMs - NOON_MS) / HOUR_MS;
  }
  const second = (hours: number): Happening[] => [
    [hours, pushing(R2)],
    [hours, took(R2, hours)],
  ];
  const again = (hours: number, epoch: number): Happening[] => [
    [hours, newEpoch(R1, epoch)],
    [hours, pushing(R1)],
    [hours, took(R1, hours, epoch)],
  ];
  const atR1 = [pushing(R1), took(R1)];
  const weekly = Array.from({ length: 8 }, (_, week) => again((week + 1) * 7 * D, week + 2)).flat();

  test.each<[string, Happening[], number]>([
    ['one copy', atR1, END_H],
    ['a second one after an hour', [...atR1, ...second(1)], 1 + END_H],
    ['a second one after ten days', [...atR1, ...second(10 * D)], 10 * D + END_H],
    [
      'a second one after 50 days: no later than 60',
      [...atR1, ...again(14 * D, 2), ...again(28 * D, 3), ...again(40 * D, 4), ...second(50 * D)],
      60 * D,
    ],
    ['a new epoch each week: no later than 60 days', [...atR1, ...weekly], 60 * D],
    [
      'what the relay said to have taken in 1970, after the first push less 5 minutes',
      [pushing(R1), took(R1, -500_000)],
      END_H - EARLY_MS / HOUR_MS,
    ],
    ['what it says to take in a year, now', [pushing(R1), took(R1, 365 * D)], END_H],
  ])('%s', (_case, story, hours) => {
    expect(toldAfter(story)).toBe(hours);
  });

  test('first taken late: its whole retention, and nothing later', () => {
    const late = { createdAtMs: NOON_MS - 50 * DAY_MS, alertedAtMs: NOON_MS - DAY_MS };
    expect(toldAfter([...atR1, ...second(5 * D)], late)).toBe(END_H);
    expect(toldAfter(atR1, late)).toBe(END_H);
  });

  test('a receipt dated 1970 ends no row at once, with one relay or with several', () => {
    const dated = took(R1, -500_000);
    for (const isOneOfMany of [true, false]) {
      const { row, alerts } = told([{ type: 'relay-pushing', relayPubkey: R1, isOneOfMany }, dated]);
      expect(row.state).toBe('relay-accepted');
      expect(alerts).toEqual([]);
    }
  });
});

describe('what fails at one relay', () => {
  const FIRST_MS = RETRY_TIMING.firstMs;

  test('delays a pending row there, until the first one that may be tried again', () => {
    const { row } = told([pushing(R1), failed(R1), pushing(R1), failed(R1), pushing(R2), refused(R2)]);
    expect(triedAt(row, R1)?.failures).toEqual({ count: 2, nextAtMs: NOON_MS + 2 * FIRST_MS, error: 'no answer' });
    expect(triedAt(row, R2)?.failures).toMatchObject({ count: 1, error: 'rejected:quota:queue_items' });
    expect(row).toMatchObject({ state: 'pending', relayAttempts: 3, nextAtMs: NOON_MS + FIRST_MS });
    const rests = told([[FIRST_MS / HOUR_MS, passed]], row).row;
    expect(rests.nextAtMs).toBe(NOON_MS + 2 * FIRST_MS);
    const long = told([[2 * (FIRST_MS / HOUR_MS), passed]], rests).row;
    expect(long.nextAtMs).toBe(NOON_MS + 2 * FIRST_MS + RETRY_TIMING.longestMs);
  });

  test('delays nothing of a row that another one has', () => {
    const { row } = told([pushing(R1), took(R1), pushing(R2), failed(R2), pushing(R2), refused(R2)]);
    expect(triedAt(row, R2)?.failures).toMatchObject({ count: 2, nextAtMs: NOON_MS + 2 * FIRST_MS });
    expect(row).toMatchObject({ relayAttempts: 0, lastError: null, nextAtMs: NOON_MS + RETENTION_MS + RELAY_GRACE_MS });
    expect(told([[1, passed]], { ...row, nextAtMs: NOON_MS }).row.nextAtMs).toBe(row.nextAtMs);
  });

  test('is over when that relay takes it, takes mail for the peer again, or the clock jumped', () => {
    const failing = told([pushing(R1), failed(R1), pushing(R2), failed(R2)]).row;
    const accepted = told([pushing(R2), took(R2)], failing).row;
    expect(triedAt(accepted, R2)).toEqual({ relayPubkey: R2, firstAtMs: NOON_MS });
    expect(triedAt(accepted, R1)?.failures).toBeDefined();
    const isReady = told([ready(R1)], failing).row;
    expect(triedAt(isReady, R1)).not.toHaveProperty('failures');
    expect(triedAt(isReady, R2)).toHaveProperty('failures');
    expect(isReady.nextAtMs).toBe(NOON_MS);
    const jumped = told([{ type: 'clock-jumped', byMs: 365 * DAY_MS }], failing).row;
    for (const key of [R1, R2]) expect(triedAt(jumped, key)).not.toHaveProperty('failures');
  });

  test('a relay that takes mail again makes due what it is to have, and what nobody has', () => {
    const both = told(AT_BOTH).row;
    for (const key of [R1, R3]) expect(told([ready(key)], both).row).toEqual(both);
    const again = told([newEpoch(R1)], both).row;
    expect(again.nextAtMs).toBe(NOON_MS);
    const nobody = told([removed(R1), removed(R2), [1, passed]], both).row;
    expect(nobody.nextAtMs).toBe(NOON_MS + HOUR_MS + RETRY_TIMING.longestMs);
    expect(told([[1, ready(R3)]], nobody).row.nextAtMs).toBe(NOON_MS + HOUR_MS);
  });

  test('too large at one alarms nobody; where every one said so, its sender is told once', () => {
    const tooLarge: OutboxEvent = { type: 'too-large' };
    const { row, alerts } = told([pushing(R1), refused(R1, 'too large'), pushing(R2), refused(R2, 'too large')]);
    expect(alerts).toEqual([]);
    expect(told([tooLarge, tooLarge], row)).toMatchObject({ alerts: ['too-large'], row: { state: 'pending' } });
    expect(told([...AT_BOTH, tooLarge]).alerts).toEqual([]);
  });
});

describe('what older software finds in the row', () => {
  test('the newest live copy, with what was shown of it', () => {
    const proven = { epoch: epochNumbered(1), size: 9 };
    const shown = (relayPubkey: PublicKey): OutboxEvent => ({
      type: 'relay-proven',
      relayPubkey,
      epoch: epochNumbered(1),
      proven,
    });
    const { row } = told([pushing(R1), took(R1), shown(R1), [1, pushing(R2)], [1, took(R2, 1)]]);
    expect(row.acceptance?.relayPubkey).toBe(R2);
    expect(row).not.toHaveProperty('proven');
    expect(copyAt(row, R1)).toMatchObject({ proven });
    const back = told([[2, newEpoch(R2)]], row).row;
    expect(back).toMatchObject({ acceptance: { relayPubkey: R1 }, proven });
    expect(isAcceptedIn(back, R1, epochNumbered(1))).toBe(true);
    expect(isAcceptedIn(back, R2, epochNumbered(1))).toBe(false);
    expect(liveCopies(back).map(({ acceptance }) => acceptance.relayPubkey)).toEqual([R1]);
  });
});

describe('the row of a receipt at several relays', () => {
  const kind = { kind: 'receipt' } as const;

  test('is dropped when the retention of the last copy is over, and nobody is told', () => {
    const { row } = told([...AT_BOTH.slice(0, 2), [1, pushing(R2)], [1, took(R2, 1)]], kind);
    expect(row.nextAtMs).toBe(NOON_MS + HOUR_MS + RETENTION_MS);
    const facts = { momentMs: (atMs: number) => atMs, jitter: 1, retry: RETRY_TIMING, hasPeerConfirmed: true };
    const end = stepOutbox(row, passed, { ...facts, nowMs: NOON_MS + HOUR_MS + RETENTION_MS });
    expect(end).toEqual({ row: null, effects: [{ type: 'DropWire' }] });
  });

  test('is not kept by new epochs for longer than 60 days', () => {
    const weekly = Array.from({ length: 8 }, (_, week): Happening[] => [
      [(week + 1) * 168, newEpoch(R1, week + 2)],
      [(week + 1) * 168, pushing(R1)],
      [(week + 1) * 168, took(R1, (week + 1) * 168, week + 2)],
    ]).flat();
    expect(told([pushing(R1), took(R1), ...weekly], kind).row.nextAtMs).toBe(NOON_MS + GIVE_UP_MS);
  });
});
