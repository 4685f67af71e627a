/** Where mail for a host goes over several relays: the candidates, the lane, and which rows are owed where, and why. */
import { describe, expect, test } from 'vitest';
import type { RelayCopy, TriedRelay } from '../../../../src/host/core/relay-acceptance.ts';
import {
  candidatesOf,
  DOUBT_AFTER_MS,
  isElsewhere,
  LANE_RETURN_MS,
  laneAfter,
  owedFor,
  type PeerRelays,
  planRows,
  type RelayLane,
  type RelayStanding,
  type RelayState,
  standingOf,
  suspectsOf,
} from '../../../../src/host/core/relay-lanes.ts';
import type { OutboxRow } from '../../../../src/host/core/rows.ts';
import type { RelayFacts } from '../../../../src/host/core/transport-choice.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { hostNamed } from '../../../support/hosts.ts';
import { acceptance, outboxRow, RETENTION_MS } from '../../../support/outbox-rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const [r1, r2, r3] = ['r1', 'r2', 'r3'].map((name) => hostNamed(name).key) as [PublicKey, PublicKey, PublicKey];
const nameOf = (key: PublicKey | undefined): string => ({ [r1]: 'r1', [r2]: 'r2', [r3]: 'r3' })[key ?? ''] ?? 'none';
const HOUR_MS = 3_600_000;
const clock = { nowMs: NOON_MS, momentMs: (datedMs: number): number => datedMs };

function facts(relayPubkey: PublicKey, changes: Partial<RelayFacts> = {}): RelayFacts {
  return {
    relayPubkey,
    epoch: epochNumbered(1),
    retentionMs: RETENTION_MS,
    isTargetEnrolled: true,
    carriesReceipts: true,
    hasTwoHistories: false,
    ...changes,
  };
}

function relay(relayPubkey: PublicKey, changes: Partial<RelayState> = {}, isOnly = false): RelayStanding {
  const well: RelayState = {
    relayPubkey,
    facts: facts(relayPubkey),
    isDown: false,
    pauseMs: 0,
    unheardMs: 0,
    isDoubted: false,
    isRefused: false,
  };
  return standingOf({ ...well, ...changes }, isOnly);
}

function peerRelays(own: RelayStanding[], changes: Partial<PeerRelays> = {}): PeerRelays {
  return {
    own,
    candidates: own,
    lane: own.find(({ can }) => can !== 'not')?.relayPubkey,
    elsewhereMs: 300_000,
    secondCopyMs: HOUR_MS,
    secondCopyLast: Infinity,
    shown: { rowId: 0, wroteAtMs: 0 },
    ...changes,
  };
}

function copy(relayPubkey: PublicKey, changes: Partial<RelayCopy> = {}, epoch = 1): RelayCopy {
  const taken = { ...acceptance(NOON_MS, epochNumbered(epoch)), relayPubkey };
  return { acceptance: taken, state: 'live', atMs: NOON_MS, ...changes };
}

/** A row that these relays have, or had. */
function copied(rowId: number, copies: RelayCopy[], changes: Partial<OutboxRow> = {}): OutboxRow {
  const tried = copies.map((one): TriedRelay => ({ relayPubkey: one.acceptance.relayPubkey, firstAtMs: NOON_MS }));
  return outboxRow({
    rowId,
    state: 'relay-accepted',
    acceptance: copies[0]?.acceptance ?? null,
    nextAtMs: NOON_MS + RETENTION_MS + DAY_MS,
    copies,
    tried,
    ...changes,
  });
}

const pending = (rowId: number, changes: Partial<OutboxRow> = {}): OutboxRow => outboxRow({ rowId, ...changes });

const order = (...given: Parameters<typeof candidatesOf>): string[] =>
  candidatesOf(...given).map(({ relayPubkey }) => nameOf(relayPubkey));

const lane = (relayPubkey: PublicKey, sinceMs = 0): RelayLane => ({ relayPubkey, sinceMs });

const after = (
  before: RelayLane | undefined,
  relays: RelayStanding[],
  { nowMs = 1, hasAll = false } = {},
): [string, string] => {
  const { lane: next, awaited } = laneAfter(before, relays, { nowMs, hasAll: () => hasAll });
  return [nameOf(next?.relayPubkey), nameOf(awaited?.relayPubkey)];
};

const planned = (rows: OutboxRow[], own: RelayStanding[], changes: Partial<PeerRelays> = {}) => {
  const { rows: byRelay, awaited, nextMs } = planRows(rows, peerRelays(own, changes), clock);
  const shown = [...byRelay].map(([key, those]): [string, number[]] => [nameOf(key), those.map(({ rowId }) => rowId)]);
  return { rows: Object.fromEntries(shown), awaited: [...awaited].map(nameOf), nextMs };
};

const pausedAt = (relayPubkey: PublicKey, untilMs: number, error = 'no answer'): TriedRelay => ({
  relayPubkey,
  firstAtMs: NOON_MS,
  failures: { count: 1, nextAtMs: untilMs, error },
});

const over = (relayPubkey: PublicKey, atMs = NOON_MS): { relayPubkey: PublicKey; atMs: number } => ({
  relayPubkey,
  atMs,
});

describe('what a relay can do for a peer now', () => {
  test.each<[string, Partial<RelayState>, string]>([
    ['a session, no pause, and the peer is enrolled', {}, 'carry'],
    ['the peer is not enrolled', { facts: facts(r1, { isTargetEnrolled: false }) }, 'not'],
    ['it is to be asked about the peer', { facts: 'unknown' }, 'soon'],
    ['it is being entered', { facts: null }, 'soon'],
    ['it is down', { isDown: true }, 'not'],
    ['it is down and was never entered', { isDown: true, facts: null }, 'not'],
    ['a pause of three seconds is waited out', { pauseMs: 3_000 }, 'carry'],
    ['a longer pause', { pauseMs: 3_001 }, 'not'],
    ['it refused mail for the peer a moment ago', { isRefused: true }, 'not'],
    ['it is doubted, which is a matter of order', { isDoubted: true }, 'carry'],
  ])('%s', (_, changes, expected) => {
    expect(relay(r1, changes).can).toBe(expected);
  });

  test.each<[string, Partial<RelayState>, string]>([
    ['is down', { isDown: true }, 'carry'],
    ['pauses', { pauseMs: 60_000 }, 'carry'],
    ['refused it', { isRefused: true }, 'carry'],
    ['has no session', { facts: null }, 'not'],
    ['is to be asked', { facts: 'unknown' }, 'soon'],
    ['does not know the peer', { facts: facts(r1, { isTargetEnrolled: false }) }, 'carry'],
  ])('an only relay is the one to use as before: it %s', (_, changes, expected) => {
    expect(relay(r1, changes, true).can).toBe(expected);
  });
});

describe('the candidates of a peer', () => {
  const own = [relay(r1), relay(r2), relay(r3)];

  test('no document: all of one’s own, first the one over which something came last', () => {
    expect(order(own, { home: null })).toEqual(['r1', 'r2', 'r3']);
    expect(order(own, { home: null, cameOver: r3 })).toEqual(['r3', 'r1', 'r2']);
    expect(order(own, { home: null, cameOver: hostNamed('gone').key })).toEqual(['r1', 'r2', 'r3']);
  });

  test('a document: those of its relays that are links here, in its order', () => {
    expect(order(own, { home: [r3, hostNamed('theirs').key, r1], cameOver: r2 })).toEqual(['r3', 'r1']);
  });

  test('a document without relays: none is used', () => {
    expect(order(own, { home: [] })).toEqual([]);
  });

  test('while none of the document can be used, the other links too', () => {
    const [down, well] = [relay(r3, { isDown: true }), relay(r1)];
    expect(order([well, relay(r2), down], { home: [r3] })).toEqual(['r3', 'r1', 'r2']);
    expect(order([well, relay(r2)], { home: [r3] })).toEqual(['r1', 'r2']);
    // It may be usable in a moment.
    expect(order([well, relay(r3, { facts: 'unknown' })], { home: [r3] })).toEqual(['r3']);
  });

  test('doubted ones come last', () => {
    expect(order([relay(r1, { isDoubted: true }), relay(r2), relay(r3)], { home: null })).toEqual(['r2', 'r3', 'r1']);
  });
});

describe('the lane', () => {
  test.each<[string, RelayLane | undefined, RelayStanding[], object, [string, string]]>([
    ['it is the first candidate that can carry', undefined, [relay(r1), relay(r2)], {}, ['r1', 'none']],
    ['it is not one that is down', undefined, [relay(r1, { isDown: true }), relay(r2)], {}, ['r2', 'none']],
    [
      'a first one that may carry soon is waited for',
      undefined,
      [relay(r1, { facts: null }), relay(r2)],
      {},
      ['none', 'r1'],
    ],
    ['it changes when it is down', lane(r1), [relay(r1, { isDown: true }), relay(r2)], {}, ['r2', 'none']],
    ['it changes when it refuses', lane(r1), [relay(r1, { isRefused: true }), relay(r2)], {}, ['r2', 'none']],
    ['it stays over a short pause', lane(r1), [relay(r1, { pauseMs: 900 }), relay(r2)], {}, ['r1', 'none']],
    [
      'it stays while it is asked about the peer',
      lane(r1),
      [relay(r1, { facts: 'unknown' }), relay(r2)],
      {},
      ['r1', 'r1'],
    ],
    ['it stays where mail is unconfirmed', lane(r2), [relay(r1), relay(r2)], {}, ['r2', 'none']],
    ['it goes back when nothing is elsewhere', lane(r2), [relay(r1), relay(r2)], { hasAll: true }, ['r1', 'none']],
    ['it goes back after an hour', lane(r2), [relay(r1), relay(r2)], { nowMs: LANE_RETURN_MS }, ['r1', 'none']],
    ['not a moment before', lane(r2), [relay(r1), relay(r2)], { nowMs: LANE_RETURN_MS - 1 }, ['r2', 'none']],
    [
      'it goes back when the better one is known to know the peer',
      lane(r2),
      [relay(r1, { facts: 'unknown' }), relay(r2)],
      { hasAll: true },
      ['r2', 'r1'],
    ],
    ['a doubted one is left at once', lane(r1), [relay(r2), relay(r1, { isDoubted: true })], {}, ['r2', 'none']],
    ['there is none when no candidate can carry', lane(r1), [relay(r1, { isDown: true })], {}, ['none', 'none']],
  ])('%s', (_, before, relays, given, expected) => {
    expect(after(before, relays, given)).toEqual(expected);
  });

  test('it keeps the moment since when it is the lane', () => {
    const relays = [relay(r1), relay(r2)];
    const stays = laneAfter(lane(r2, 7), relays, { nowMs: 9, hasAll: () => false });
    expect(stays.lane).toEqual(lane(r2, 7));
    const moved = laneAfter(lane(r3, 7), relays, { nowMs: 9, hasAll: () => false });
    expect(moved.lane).toEqual(lane(r1, 9));
  });
});

describe('which rows are owed to which relay', () => {
  const both = [relay(r1), relay(r2)];
  const away = (key: PublicKey): RelayStanding => relay(key, { isDown: true, unheardMs: 300_000 });
  const oldCopy = (key: PublicKey): RelayCopy => copy(key, { atMs: NOON_MS - HOUR_MS });
  type Case = [string, OutboxRow, RelayStanding[], Partial<PeerRelays>, (string | undefined)[]];

  test.each<Case>([
    ['first: a new row goes to the lane', pending(1), both, {}, ['first', undefined]],
    ['first: and to no relay without one', pending(1), both, { lane: undefined }, [undefined, undefined]],
    [
      'first: no copy is live',
      copied(1, [copy(r1, { state: 'again' })]),
      [away(r1), relay(r2)],
      {},
      [undefined, 'first'],
    ],
    ['first: a relay that is no link has it', copied(1, [copy(r3)]), both, {}, ['first', undefined]],
    [
      'first: it expired at the lane, so the next candidate gets it',
      copied(1, [copy(r1, { state: 'expired' })]),
      [relay(r1), relay(r2), relay(r3)],
      {},
      [undefined, 'first', undefined],
    ],
    ['again: its store began anew', copied(1, [copy(r2, {}, 2), copy(r1)]), both, {}, [undefined, 'again']],
    ['again: it went back', copied(1, [copy(r1), copy(r2, { state: 'again' })]), both, {}, [undefined, 'again']],
    [
      'again: it was removed and added again',
      copied(1, [copy(r1), copy(r2, { state: 'gone' })]),
      both,
      {},
      [undefined, 'again'],
    ],
    [
      'again: not where its time was up',
      copied(1, [copy(r1), copy(r2, { state: 'expired' })]),
      both,
      {},
      [undefined, undefined],
    ],
    [
      'unheard: no relay that has it was heard',
      copied(1, [copy(r1)]),
      [away(r1), relay(r2)],
      {},
      [undefined, 'unheard'],
    ],
    [
      'unheard: not before the time is over',
      copied(1, [copy(r1)]),
      [relay(r1, { isDown: true, unheardMs: 299_999 }), relay(r2)],
      {},
      [undefined, undefined],
    ],
    [
      'unheard: not while one that has it is heard',
      copied(1, [copy(r1), copy(r3)]),
      [away(r1), relay(r2), relay(r3)],
      {},
      [undefined, undefined, undefined],
    ],
    [
      'unheard: only to the lane',
      copied(1, [copy(r1)]),
      [away(r1), relay(r2), relay(r3)],
      { lane: r3 },
      [undefined, undefined, 'unheard'],
    ],
    [
      'unheard: not to one that was not heard itself',
      copied(1, [copy(r1)]),
      [away(r1), relay(r2, { unheardMs: 1 })],
      {},
      [undefined, undefined],
    ],
    ['second: its only copy is an hour old', copied(1, [oldCopy(r1)]), both, {}, [undefined, 'second']],
    [
      'second: not a moment before',
      copied(1, [copy(r1, { atMs: NOON_MS - HOUR_MS + 1 })]),
      both,
      {},
      [undefined, undefined],
    ],
    [
      'second: at most two',
      copied(1, [oldCopy(r1), oldCopy(r2)]),
      [...both, relay(r3)],
      {},
      [undefined, undefined, undefined],
    ],
    [
      'second: to the first candidate without one',
      copied(1, [oldCopy(r2)]),
      [...both, relay(r3)],
      {},
      ['second', undefined, undefined],
    ],
    [
      'second: to the next one where the first is down',
      copied(1, [oldCopy(r1)]),
      [relay(r1), away(r2), relay(r3)],
      {},
      [undefined, undefined, 'second'],
    ],
    ['second: off', copied(1, [oldCopy(r1)]), both, { secondCopyMs: null }, [undefined, undefined]],
    [
      'second: an older program got its share',
      copied(21, [oldCopy(r1)]),
      both,
      { secondCopyLast: 20 },
      [undefined, undefined],
    ],
    [
      'second: a later row was confirmed',
      copied(1, [copy(r1)]),
      both,
      { shown: { rowId: 2, wroteAtMs: 0 } },
      [undefined, 'second'],
    ],
    [
      'second: an earlier one says nothing',
      copied(2, [copy(r1)]),
      both,
      { shown: { rowId: 2, wroteAtMs: 0 } },
      [undefined, undefined],
    ],
    [
      'second: the peer wrote since',
      copied(1, [copy(r1)]),
      both,
      { shown: { rowId: 0, wroteAtMs: NOON_MS + 1 } },
      [undefined, 'second'],
    ],
    [
      'second: what it wrote before says nothing',
      copied(1, [copy(r1)]),
      both,
      { shown: { rowId: 0, wroteAtMs: NOON_MS } },
      [undefined, undefined],
    ],
    [
      'a copy is made until 60 days',
      copied(1, [oldCopy(r1)], { createdAtMs: NOON_MS - 60 * DAY_MS }),
      both,
      {},
      [undefined, undefined],
    ],
    [
      'first push + retention holds for each relay',
      copied(1, [oldCopy(r1)], { tried: [{ relayPubkey: r2, firstAtMs: NOON_MS - RETENTION_MS }] }),
      both,
      {},
      [undefined, undefined],
    ],
    ['a settled row is owed to none', copied(1, [oldCopy(r1)], { state: 'done' }), both, {}, [undefined, undefined]],
    [
      'a row with one relay that has it',
      { ...copied(1, [copy(r1)]), copies: undefined, tried: undefined } as never,
      [relay(r1, {}, true)],
      {},
      [undefined],
    ],
  ])('%s', (_, row, own, changes, expected) => {
    const peer = peerRelays(own, changes);
    expect(own.map((one) => owedFor(row, one, peer, clock))).toEqual(expected);
  });

  const receipt = { kind: 'receipt' } as const;
  test.each<Case>([
    [
      'to the relay that brought the message',
      pending(1, { ...receipt, broughtBy: [r2] }),
      both,
      {},
      [undefined, 'first'],
    ],
    [
      'once to each that brought a copy',
      copied(1, [copy(r1)], { ...receipt, broughtBy: [r1, r2] }),
      both,
      {},
      [undefined, 'first'],
    ],
    [
      'over the lane while that one is down',
      pending(1, { ...receipt, broughtBy: [r2] }),
      [relay(r1), away(r2)],
      {},
      ['first', undefined],
    ],
    [
      'and there too when it is back',
      copied(1, [copy(r1)], { ...receipt, broughtBy: [r2] }),
      both,
      {},
      [undefined, 'first'],
    ],
    ['over the lane where it came over the LAN', pending(1, receipt), both, {}, ['first', undefined]],
    [
      'elsewhere when its relay is not heard',
      copied(1, [copy(r1)], receipt),
      [away(r1), relay(r2)],
      {},
      [undefined, 'unheard'],
    ],
    ['it has no second copy', copied(1, [oldCopy(r1)], receipt), both, {}, [undefined, undefined]],
    [
      'not over a relay that carries none',
      pending(1, receipt),
      [relay(r1, { facts: facts(r1, { carriesReceipts: false }) })],
      {},
      [undefined],
    ],
  ])('a receipt: %s', (_, row, own, changes, expected) => {
    const peer = peerRelays(own, changes);
    expect(own.map((one) => owedFor(row, one, peer, clock))).toEqual(expected);
  });
});

describe('what goes to each relay, in which order', () => {
  const down = relay(r1, { isDown: true, unheardMs: 10 });

  test('ahead: what a relay lacks goes ahead of a later row, and what it has does not', () => {
    const rows = [pending(4), copied(1, [copy(r1)]), copied(2, [copy(r1), copy(r2)]), copied(3, [copy(r1)])];
    expect(planned(rows, [down, relay(r2)])).toMatchObject({ rows: { r2: [1, 3, 4] } });
  });

  test('ahead: nothing is copied behind the last row that is owed, and nothing without one', () => {
    const later = copied(5, [copy(r1)]);
    expect(planned([pending(4), later], [down, relay(r2)])).toMatchObject({ rows: { r2: [4] } });
    expect(planned([copied(1, [copy(r1)]), later], [down, relay(r2)])).toMatchObject({ rows: {} });
  });

  test('ahead: for every reason of pushing', () => {
    const young = copied(1, [copy(r1)]);
    const old = copied(2, [copy(r1, { atMs: NOON_MS - HOUR_MS })]);
    expect(planned([young, old], [relay(r1), relay(r2)])).toMatchObject({ rows: { r2: [1, 2] } });
  });

  test('ahead: receipts, what the peer took over the LAN and what expired there do not go ahead', () => {
    const rows = [
      copied(1, [copy(r1)], { kind: 'receipt' }),
      outboxRow({ rowId: 2, state: 'lan-accepted', nextAtMs: NOON_MS + 1 }),
      copied(3, [copy(r1), copy(r2, { state: 'expired' })]),
      pending(4),
    ];
    expect(planned(rows, [down, relay(r2)])).toMatchObject({ rows: { r2: [4] } });
  });

  test('a row may be owed to two relays at once', () => {
    const again = copied(1, [copy(r1, { state: 'again' }), copy(r2, { state: 'again' })]);
    expect(planned([again], [relay(r1), relay(r2)])).toMatchObject({ rows: { r1: [1], r2: [1] } });
  });

  test('what is not due is not pushed for itself, and goes ahead of what is', () => {
    const waiting = pending(1, { nextAtMs: NOON_MS + 5_000 });
    expect(planned([waiting], [relay(r1)])).toMatchObject({ rows: {} });
    expect(planned([waiting, pending(2)], [relay(r1)])).toMatchObject({ rows: { r1: [1, 2] } });
  });

  test.each([
    ['rejected:quota:queue_items', 'holds up later ones there', {}],
    ['rejected:too large', 'holds up none', { r2: [2] }],
    ['no answer', 'goes with a later one', { r2: [1, 2] }],
  ])('a row that failed at a relay with %s %s, until its pause there is over', (error, _, expected) => {
    const failed = copied(1, [copy(r1)], { tried: [pausedAt(r2, NOON_MS + 5_000, error)] });
    expect(planned([failed, pending(2)], [down, relay(r2)])).toMatchObject({ rows: expected });
    const over = { ...failed, tried: [pausedAt(r2, NOON_MS, error)] };
    expect(planned([over, pending(2)], [down, relay(r2)])).toMatchObject({ rows: { r2: [1, 2] } });
  });

  test('what is refused at one relay holds up nothing at another', () => {
    const tried = [pausedAt(r1, NOON_MS + 5_000, 'rejected:quota:queue_items')];
    const rows = [pending(1, { tried }), pending(2)];
    expect(planned(rows, [relay(r1), relay(r2)], { lane: r2 })).toMatchObject({ rows: { r2: [1, 2] } });
    expect(planned(rows, [relay(r1), relay(r2)], { lane: r1 })).toMatchObject({ rows: {}, nextMs: NOON_MS + 5_000 });
  });

  test('a relay is asked about the peer when something is owed to it, and not before', () => {
    const own = [relay(r1), relay(r2, { facts: 'unknown' })];
    expect(planned([copied(1, [copy(r1)])], own).awaited).toEqual([]);
    expect(planned([copied(1, [copy(r1, { atMs: NOON_MS - HOUR_MS })])], own)).toMatchObject({
      awaited: ['r2'],
      rows: {},
    });
  });

  test('the moments of `unheard` and `second` are told; with one relay there is none', () => {
    const young = copied(1, [copy(r1, { atMs: NOON_MS - 600_000 })]);
    expect(planned([young], [relay(r1), relay(r2)]).nextMs).toBe(NOON_MS + HOUR_MS - 600_000);
    expect(planned([young], [relay(r1), relay(r2)], { secondCopyMs: null }).nextMs).toBeNull();
    expect(planned([young], [relay(r1), relay(r2)], { secondCopyLast: 0 }).nextMs).toBeNull();
    const unheard = relay(r1, { isDown: true, unheardMs: 200_000 });
    expect(planned([young], [unheard, relay(r2)]).nextMs).toBe(NOON_MS + 100_000);
    expect(planned([young], [relay(r1)]).nextMs).toBeNull();
  });

  test('what lies elsewhere alone keeps the lane where it is', () => {
    const row = copied(1, [copy(r2)]);
    expect([isElsewhere(row, r1), isElsewhere(row, r2)]).toEqual([true, false]);
    expect(isElsewhere({ ...row, kind: 'receipt' }, r1)).toBe(false);
    expect(isElsewhere({ ...row, state: 'done' }, r1)).toBe(false);
  });
});

describe('which relays are doubted', () => {
  const row = copied(1, [copy(r1), copy(r2)], { state: 'done' });

  test.each<[string, Partial<OutboxRow>, string[]]>([
    ['one that had it, when the peer confirmed it over another alone', { confirmedOver: [over(r2)] }, ['r1']],
    ['none while nothing was confirmed over a relay', {}, []],
    ['none when the peer confirmed it over both', { confirmedOver: [over(r2), over(r1)] }, []],
    ['not one that took it after it was confirmed', { confirmedOver: [over(r2, NOON_MS - 1)] }, []],
    ['not one that lost it', { copies: [copy(r1, { state: 'again' }), copy(r2)], confirmedOver: [over(r2)] }, []],
    ['not one that was removed', { copies: [copy(r1, { state: 'gone' }), copy(r2)], confirmedOver: [over(r2)] }, []],
    [
      'one that let its time pass',
      { copies: [copy(r1, { state: 'expired' }), copy(r2)], confirmedOver: [over(r2)] },
      ['r1'],
    ],
  ])('%s', (_, changes, expected) => {
    expect(suspectsOf({ ...row, ...changes })?.relays.map(nameOf) ?? []).toEqual(expected);
  });

  test('ten minutes after the confirmation', () => {
    expect(suspectsOf({ ...row, confirmedOver: [over(r2)] })).toMatchObject({
      over: r2,
      fromMs: NOON_MS + DOUBT_AFTER_MS,
    });
  });
});
