import { describe, expect, test } from 'vitest';
import { RETRY_TIMING, type OutboxClock, type OutboxEvent, alertText } from '../../src/host/core/outbox-event.ts';
import { LAN_CONFIRM_MS, QUARANTINE_ALERT_MS, UNDELIVERED_ALERT_MS } from '../../src/host/core/outbox.ts';
import { backoffMs, isExpiryInTime, ASK_AGAIN_MS, GIVE_UP_MS, LAN_DOUBT_MS } from '../../src/host/core/outbox-row.ts';
import { mayPush } from '../../src/host/core/transport-choice.ts';
import { type Address, OUTBOX_STATES, type OutboxState } from '../../src/host/core/rows.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { isPrintable } from '../../src/protocol/printable.ts';
import { epochNumbered } from '../support/epochs.ts';
import { carol, relay } from '../support/hosts.ts';
import { ANNA, BERT, RETENTION_MS, acceptance, givenRow, outboxRow, relayAccepted } from '../support/outbox-rows.ts';
import { NOON_MS } from '../support/test-clock.ts';

const AT_RELAY = { relayPubkey: relay.key, retentionMs: RETENTION_MS };
const DEADLINE_MS = NOON_MS + RETENTION_MS + DAY_MS;
/** From then on an expiry is in time for what was pushed at noon: the clock of a relay may be a little faster. */
const ALMOST_MS = NOON_MS + Math.ceil(RETENTION_MS * 0.99);
const delivered: OutboxEvent = { type: 'receipt', recipient: ANNA, state: 'delivered' };
const RELAYS = ['https://relay.example'];
const passed: OutboxEvent = { type: 'time-passed' };
const epoch2: OutboxEvent = { type: 'new-epoch', relayPubkey: relay.key, epoch: epochNumbered(2) };
const ready: OutboxEvent = { type: 'relay-ready', relayPubkey: relay.key, epoch: epochNumbered(1) };
const rewound: OutboxEvent = { type: 'relay-rewound', relayPubkey: relay.key };
const proven = { epoch: epochNumbered(1), size: 12 };
const shown: OutboxEvent = { type: 'relay-proven', relayPubkey: relay.key, epoch: epochNumbered(1), proven };
const denied = { times: 1, atMs: NOON_MS + 5 };
const denial: OutboxEvent = { type: 'relay-denied', relayPubkey: relay.key, epoch: epochNumbered(1), denied };
const setBack = (nowMs: number): OutboxClock => ({
  nowMs: nowMs - 3_650 * DAY_MS,
  momentMs: (datedMs) => datedMs - 3_650 * DAY_MS,
});
const at = (nowMs: number): OutboxClock => ({ nowMs, momentMs: (datedMs) => datedMs });
const dropWire = { type: 'DropWire' } as const;

describe('sender outbox row, over the relay', () => {
  test('pending: a receipt that verifies makes it relay-accepted and is kept', () => {
    const taken = acceptance(NOON_MS + 5);
    const step = givenRow({ relayAttempts: 3, lastError: 'x' }).when({
      type: 'relay-accepted',
      acceptance: taken,
      isVerified: true,
    });
    expect(step).toEqual({
      row: outboxRow({
        state: 'relay-accepted',
        acceptance: taken,
        firstAccepted: { atMs: NOON_MS, retentionMs: RETENTION_MS },
        nextAtMs: DEADLINE_MS,
      }),
      effects: [],
    });
  });

  test.each<[string, OutboxEvent]>([
    ['a receipt that does not verify', { type: 'relay-accepted', acceptance: acceptance(NOON_MS), isVerified: false }],
    ['a rejected or missing result', { type: 'relay-refused', relayPubkey: relay.key, code: 'quota:queue_items' }],
    ['a lost response', { type: 'relay-failed', relayPubkey: relay.key, reason: 'socket hang up' }],
  ])('pending: %s leaves it pending, retried with backoff', (_why, event) => {
    const { row, effects } = givenRow({ firstPushAtMs: NOON_MS }).when(event);
    expect(row).toMatchObject({ state: 'pending', relayAttempts: 1, acceptance: null });
    expect(row?.nextAtMs).toBe(NOON_MS + backoffMs(1, { jitter: 0.5, retry: RETRY_TIMING }));
    expect(row?.lastError).not.toBeNull();
    // Same wire bytes: nothing drops or makes them.
    expect(effects).toEqual([]);
  });

  test('relay-accepted: a delivery receipt makes it done', () => {
    const { row, effects } = givenRow(relayAccepted()).when(delivered);
    expect(row).toMatchObject({ state: 'done', nextAtMs: null, confirmed: [ANNA] });
    expect(effects).toEqual([dropWire]);
  });

  test('relay-accepted: an expiry notice makes it expired and alerts', () => {
    const notice = { type: 'expired', relayPubkey: relay.key, expiredAtMs: NOON_MS + RETENTION_MS } as const;
    const { row, effects } = givenRow(relayAccepted()).when(notice, { nowMs: NOON_MS + RETENTION_MS });
    expect(row).toMatchObject({ state: 'expired', nextAtMs: null, alertedAtMs: NOON_MS + RETENTION_MS });
    expect(effects).toEqual([
      { type: 'MarkRecipients', recipients: [ANNA], state: 'undelivered' },
      { type: 'Alert', alert: 'expired', recipients: [ANNA] },
      dropWire,
    ]);
    const text = alertText('expired', { hostName: 'bob', subject: 'Hi', recipients: [ANNA], rowId: 1, relays: RELAYS });
    expect(text.subject).toBe('Undelivered to bob');
  });

  test('relay-accepted: a notice of another relay, or of before this acceptance, changes nothing', () => {
    const foreign = { type: 'expired', relayPubkey: carol.key, expiredAtMs: NOON_MS + RETENTION_MS } as const;
    const old = { type: 'expired', relayPubkey: relay.key, expiredAtMs: NOON_MS - 1 } as const;
    for (const notice of [foreign, old]) {
      expect(givenRow(relayAccepted()).when(notice)).toEqual({ row: outboxRow(relayAccepted()), effects: [] });
    }
  });

  test('relay-accepted: unconfirmed at accepted_at + retention + 24 h, and not a moment before', () => {
    const before = givenRow(relayAccepted()).when(passed, { nowMs: DEADLINE_MS - 1 });
    expect(before).toEqual({ row: outboxRow(relayAccepted()), effects: [] });
    const { row, effects } = givenRow(relayAccepted()).when(passed, { nowMs: DEADLINE_MS });
    expect(row).toMatchObject({ state: 'unconfirmed', nextAtMs: null, alertedAtMs: DEADLINE_MS });
    expect(effects).toEqual([
      { type: 'MarkRecipients', recipients: [ANNA], state: 'unconfirmed' },
      { type: 'Alert', alert: 'unconfirmed', recipients: [ANNA] },
      dropWire,
    ]);
    const text = alertText('unconfirmed', {
      hostName: 'bob',
      subject: 'Hi',
      recipients: [ANNA],
      rowId: 1,
      relays: RELAYS,
    });
    expect(text.subject).toBe('Undelivered/unconfirmed to bob');
  });

  test('relay-accepted: for a peer that never confirmed anything the alert says so, and not that mail is lost', () => {
    const { effects } = givenRow(relayAccepted()).when(passed, { nowMs: DEADLINE_MS, hasPeerConfirmed: false });
    expect(effects).toContainEqual({ type: 'Alert', alert: 'never-confirmed', recipients: [ANNA] });
    const { body } = alertText('never-confirmed', {
      hostName: 'bob',
      subject: 'Hi',
      recipients: [ANNA],
      rowId: 1,
      relays: RELAYS,
    });
    expect(body).toMatch(/no delivery confirmation/);
    expect(body).toMatch(/older version/);
    expect(body).not.toMatch(/lost|undelivered/i);
  });

  test('relay-accepted: a new epoch has it pushed again; the same epoch does not', () => {
    const nowMs = NOON_MS + DAY_MS;
    const again = givenRow(relayAccepted()).when(epoch2, { nowMs });
    expect(again).toEqual({ row: outboxRow(relayAccepted({ nextAtMs: nowMs })), effects: [] });
    const same: OutboxEvent = { ...epoch2, epoch: epochNumbered(1) };
    expect(givenRow(relayAccepted()).when(same, { nowMs }).row).toEqual(outboxRow(relayAccepted()));
    // The deadline stands on the first acceptance: a relay moves it by no epoch.
    const taken = acceptance(nowMs, epochNumbered(2));
    const accepted = givenRow(relayAccepted({ nextAtMs: nowMs })).when(
      { type: 'relay-accepted', acceptance: taken, isVerified: true },
      { nowMs },
    );
    expect(accepted.row).toMatchObject({ acceptance: taken, nextAtMs: DEADLINE_MS });
  });

  test('relay-accepted: when the push of a new epoch fails it stays accepted, retried, and its deadline holds', () => {
    const row = relayAccepted({ nextAtMs: NOON_MS });
    const refused = givenRow(row).when({ type: 'relay-refused', relayPubkey: relay.key, code: 'unknown target' });
    expect(refused.row).toMatchObject({
      state: 'relay-accepted',
      relayAttempts: 1,
      lastError: 'rejected:unknown target',
    });
    const late = givenRow(row).when(
      { type: 'relay-failed', relayPubkey: relay.key, reason: 'x' },
      { nowMs: DEADLINE_MS },
    );
    expect(late.row).toMatchObject({ state: 'unconfirmed' });
    const soon = givenRow(row).when(
      { type: 'relay-failed', relayPubkey: relay.key, reason: 'x' },
      { nowMs: DEADLINE_MS - 1 },
    );
    expect(soon.row).toMatchObject({ state: 'relay-accepted', nextAtMs: DEADLINE_MS });
  });

  test('relay-accepted rows are not moved by what happens over the LAN', () => {
    const overLan: OutboxEvent[] = [
      { type: 'lan-accepted' },
      { type: 'lan-quarantined' },
      { type: 'lan-failed', reason: 'x' },
      { type: 'lan-rejected', code: 'x' },
      { type: 'peer-reached' },
    ];
    for (const event of overLan) {
      expect(givenRow(relayAccepted()).when(event)).toEqual({ row: outboxRow(relayAccepted()), effects: [] });
    }
  });

  test('a row may be pushed until first push + retention; a lost response fixes the first push', () => {
    const { row } = givenRow().when(
      { type: 'relay-pushing', relayPubkey: relay.key, isOneOfMany: false },
      { nowMs: NOON_MS + 1 },
    );
    expect(row).toMatchObject({ firstPushAtMs: NOON_MS + 1, state: 'pending' });
    const again = givenRow({ firstPushAtMs: NOON_MS + 1 }).when(
      { type: 'relay-pushing', relayPubkey: relay.key, isOneOfMany: false },
      { nowMs: NOON_MS + 2 },
    );
    expect(again.row).toMatchObject({ firstPushAtMs: NOON_MS + 1 });
    expect(mayPush(outboxRow(), AT_RELAY, at(NOON_MS + GIVE_UP_MS))).toBe(true);
    const pushed = outboxRow({ firstPushAtMs: NOON_MS });
    expect(mayPush(pushed, AT_RELAY, at(NOON_MS + RETENTION_MS - 1))).toBe(true);
    expect(mayPush(pushed, AT_RELAY, at(NOON_MS + RETENTION_MS))).toBe(false);
    // What another relay saw of it says nothing of this one.
    const triedElsewhere = outboxRow({ ...pushed, tried: [{ relayPubkey: carol.key, firstAtMs: NOON_MS }] });
    expect(mayPush(triedElsewhere, AT_RELAY, at(NOON_MS + RETENTION_MS))).toBe(true);
  });

  test('while this machine was suspended the relay’s time went on: for its dedup, and for what it kept', () => {
    const pushed = outboxRow({ firstPushAtMs: NOON_MS });
    const accepted = outboxRow(relayAccepted());
    const late = NOON_MS + RETENTION_MS;
    // The clock of this host counts nothing of it, or was set on by so much.
    for (const momentMs of [(): number => late - 1, (datedMs: number): number => datedMs]) {
      expect(mayPush(pushed, AT_RELAY, { nowMs: late, momentMs })).toBe(false);
      expect(isExpiryInTime(accepted, relay.key, { nowMs: late, momentMs })).toBe(true);
      expect(isExpiryInTime(accepted, relay.key, { nowMs: ALMOST_MS - 1, momentMs })).toBe(false);
    }
    // A clock that was set back by ten years: what passed since is what it counts.
    expect(mayPush(pushed, AT_RELAY, setBack(late))).toBe(false);
    expect(isExpiryInTime(accepted, relay.key, setBack(late))).toBe(true);
    expect(isExpiryInTime(accepted, relay.key, at(ALMOST_MS))).toBe(true);
  });

  test('a clock that jumps moves when an accepted row is due: nothing is done at once, or again and again', () => {
    for (const byMs of [DAY_MS, 3_650 * DAY_MS, -DAY_MS]) {
      const nowMs = NOON_MS + byMs;
      const clock = { nowMs, momentMs: (datedMs: number): number => datedMs + byMs };
      const jump = { type: 'clock-jumped', byMs } as const;
      for (const row of [
        relayAccepted(),
        { state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + LAN_DOUBT_MS } as const,
        { state: 'quarantined', nextAtMs: NOON_MS + 5 } as const,
      ]) {
        const due = givenRow(row).when(jump, clock).row;
        expect(due).toEqual(outboxRow({ ...row, nextAtMs: (row.nextAtMs ?? 0) + byMs }));
      }
      expect(givenRow({ nextAtMs: NOON_MS + 900_000 }).when(jump, clock).row?.nextAtMs).toBeLessThanOrEqual(nowMs);
    }
    // Written after the jump, by the new clock, it waits no longer than it may.
    const quarantined = givenRow({ state: 'quarantined', nextAtMs: NOON_MS + 5 });
    const { row } = quarantined.when({ type: 'clock-jumped', byMs: DAY_MS });
    expect(row?.nextAtMs).toBe(NOON_MS + QUARANTINE_ALERT_MS);
  });

  test('a relay of v1 gives no receipt: the row stays pending and is shown to it again after a day', () => {
    const { row, effects } = givenRow({ relayAttempts: 1 }).when({ type: 'relay-stored', relayPubkey: relay.key });
    expect(row).toMatchObject({ state: 'pending', relayAttempts: 0, nextAtMs: NOON_MS + ASK_AGAIN_MS });
    expect(row?.relayStoredAtMs).toBe(NOON_MS);
    expect(effects).toEqual([]);
    const late = givenRow().when(
      { type: 'relay-stored', relayPubkey: relay.key },
      { nowMs: NOON_MS + UNDELIVERED_ALERT_MS - 1 },
    );
    expect(late.row?.nextAtMs).toBe(NOON_MS + UNDELIVERED_ALERT_MS);
  });

  test('what a relay of v1 took is never called undelivered: there is no confirmation, whatever ends it', () => {
    const stored = { relayStoredAtMs: NOON_MS, recipients: ['bert@bob' as Address] };
    const waited = givenRow(stored).when({ type: 'time-passed' }, { nowMs: NOON_MS + UNDELIVERED_ALERT_MS });
    expect(waited.effects).toMatchObject([
      { type: 'MarkRecipients', state: 'unconfirmed' },
      { type: 'Alert', alert: 'stored-in-v1' },
    ]);
    // It is shown to the relay again all the same.
    expect(waited.row).toMatchObject({ state: 'pending', alertedAtMs: NOON_MS + UNDELIVERED_ALERT_MS });
    const givenUp = givenRow(stored).when({ type: 'time-passed' }, { nowMs: NOON_MS + GIVE_UP_MS });
    expect(givenUp.row).toMatchObject({ state: 'unconfirmed', nextAtMs: null });
    const unpaired = givenRow(stored).when({ type: 'peer-unpaired' });
    expect(unpaired.row).toMatchObject({ state: 'unconfirmed' });
    const given = { hostName: 'bob', subject: 'Hello', recipients: stored.recipients, rowId: 7, relays: RELAYS };
    const { subject, body } = alertText('stored-in-v1', given);
    expect(subject).toBe('Undelivered/unconfirmed to bob');
    expect(body).toMatch(/There is no confirmation: the relay speaks only v1.*poste outbox cancel 7/);
    expect(body).not.toMatch(/Send it again/);
  });
});

describe('sender outbox row, over the LAN', () => {
  test('pending: what the peer took waits for the receipt, and is doubted after five minutes', () => {
    const { row, effects } = givenRow({ lanAttempts: 4, relayAttempts: 2, lastError: 'x' }).when({
      type: 'lan-accepted',
    });
    expect(row).toEqual(
      outboxRow({ state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + LAN_DOUBT_MS }),
    );
    expect(effects).toEqual([]);
  });

  test('lan-accepted: shown again and taken again, it waits as long as it waited already, a day at most', () => {
    const row = { state: 'lan-accepted', lanAcceptedAtMs: NOON_MS } as const;
    for (const [waitedMs, nextMs] of [
      [1, LAN_DOUBT_MS],
      [LAN_DOUBT_MS, LAN_DOUBT_MS],
      [7 * LAN_DOUBT_MS, 7 * LAN_DOUBT_MS],
      [ASK_AGAIN_MS + 1, ASK_AGAIN_MS],
    ] as const) {
      const nowMs = NOON_MS + waitedMs;
      const { row: next } = givenRow({ ...row, nextAtMs: nowMs }).when({ type: 'lan-accepted' }, { nowMs });
      expect(next).toMatchObject({ lanAcceptedAtMs: NOON_MS, nextAtMs: nowMs + nextMs });
    }
  });

  test('lan-accepted: what the relay takes is relay-accepted; what it does not take is shown to the peer next', () => {
    const nowMs = NOON_MS + LAN_DOUBT_MS;
    const given = givenRow({ state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: nowMs });
    const taken = acceptance(nowMs);
    const step = given.when({ type: 'relay-accepted', acceptance: taken, isVerified: true }, { nowMs });
    expect(step).toMatchObject({ row: { state: 'relay-accepted', acceptance: taken }, effects: [] });
    for (const event of [
      { type: 'relay-accepted', acceptance: taken, isVerified: false },
      { type: 'relay-refused', relayPubkey: relay.key, code: 'too large' },
      { type: 'relay-failed', relayPubkey: relay.key, reason: 'x' },
    ] as const) {
      const { row, effects } = given.when(event, { nowMs });
      expect(row).toMatchObject({ state: 'lan-accepted', relayAttempts: 1, lanAttempts: 0 });
      expect(row?.nextAtMs).toBe(nowMs + backoffMs(1, { jitter: 0.5, retry: RETRY_TIMING }));
      expect(effects).toEqual([]);
    }
    // A relay of v1 proves nothing: the peer is asked next, after as long as it waited.
    const stored = given.when({ type: 'relay-stored', relayPubkey: relay.key }, { nowMs });
    expect(stored.row).toMatchObject({ state: 'lan-accepted', relayAttempts: 1, nextAtMs: nowMs + LAN_DOUBT_MS });
  });

  test.each<OutboxEvent>([
    { type: 'peer-reached' },
    { type: 'relay-ready', relayPubkey: relay.key, epoch: epochNumbered(1) },
  ])('lan-accepted: another way to the peer ($type) makes it due at once, but not before it is doubted', (event) => {
    const given = givenRow({ state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + DAY_MS });
    const doubtedAtMs = NOON_MS + LAN_DOUBT_MS;
    for (const nowMs of [NOON_MS, doubtedAtMs, doubtedAtMs + 5]) {
      expect(given.when(event, { nowMs }).row?.nextAtMs).toBe(Math.max(nowMs, doubtedAtMs));
    }
  });

  test('lan-accepted: taken again, the time of the first answer counts; unconfirmed after 72 hours', () => {
    const row = { state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + ASK_AGAIN_MS } as const;
    const nowMs = NOON_MS + LAN_CONFIRM_MS - 1;
    expect(givenRow(row).when({ type: 'lan-accepted' }, { nowMs }).row).toMatchObject({
      lanAcceptedAtMs: NOON_MS,
      nextAtMs: NOON_MS + LAN_CONFIRM_MS,
    });
    const late = givenRow(row).when({ type: 'lan-failed', reason: 'x' }, { nowMs: nowMs + 1 });
    expect(late.row).toMatchObject({ state: 'unconfirmed', nextAtMs: null });
    expect(late.effects).toContainEqual({ type: 'Alert', alert: 'unconfirmed', recipients: [ANNA] });
  });

  test('a failed attempt and a refusal are counted and tried again with backoff', () => {
    const failed = givenRow({ lanAttempts: 2 }).when({ type: 'lan-failed', reason: 'ECONNREFUSED' });
    expect(failed.row).toMatchObject({
      lanAttempts: 3,
      lastError: 'ECONNREFUSED',
      nextAtMs: NOON_MS + backoffMs(1, { jitter: 0.5, retry: RETRY_TIMING }),
    });
    const refused = givenRow().when({ type: 'lan-rejected', code: 'quarantine full' });
    expect(refused.row).toMatchObject({ state: 'pending', lanAttempts: 1, lastError: 'rejected:quarantine full' });
  });

  test('the pauses after the two attempts over the LAN before a relay is asked are short', () => {
    for (const [lanAttempts, jitter] of [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const) {
      const { row } = givenRow({ lanAttempts }).when({ type: 'lan-failed', reason: 'no answer' }, { jitter });
      expect(row).toMatchObject({ lanAttempts: lanAttempts + 1, nextAtMs: NOON_MS + 50 * (1 + jitter) });
    }
    const refused = givenRow().when({ type: 'lan-rejected', code: 'quarantine full' }, { jitter: 1 });
    expect(refused.row?.nextAtMs).toBe(NOON_MS + RETRY_TIMING.firstMs);
  });

  test.each([
    { type: 'lan-failed', reason: `\u202e${'x'.repeat(1 << 20)}` },
    { type: 'lan-rejected', code: `\u001b[2J${'x'.repeat(1 << 20)}` },
    { type: 'relay-failed', relayPubkey: relay.key, reason: `\u202e${'x'.repeat(1 << 20)}` },
    { type: 'relay-refused', relayPubkey: relay.key, code: `\u001b[2J${'x'.repeat(1 << 20)}` },
  ] as const)('what a row keeps of the words of others is short and printable: $type', (event) => {
    const { lastError = '' } = givenRow().when(event).row ?? {};
    expect(lastError).toHaveLength(500);
    expect(isPrintable(lastError ?? '')).toBe(true);
  });

  test('backoff doubles from its first value to its cap, spread over the upper half', () => {
    expect([1, 2, 3].map((attempts) => backoffMs(attempts, { jitter: 1, retry: RETRY_TIMING }))).toEqual([
      5_000, 10_000, 20_000,
    ]);
    expect(backoffMs(1, { jitter: 0, retry: RETRY_TIMING })).toBe(RETRY_TIMING.firstMs / 2);
    expect(backoffMs(1000, { jitter: 1, retry: RETRY_TIMING })).toBe(RETRY_TIMING.longestMs);
  });

  test('pending: 72 hours alert once, and it is still tried', () => {
    const nowMs = NOON_MS + UNDELIVERED_ALERT_MS;
    const early = givenRow().when({ type: 'lan-failed', reason: 'x' }, { nowMs: nowMs - 1 });
    expect(early.effects).toEqual([]);
    expect(early.row?.nextAtMs).toBe(nowMs);
    const { row, effects } = givenRow().when({ type: 'lan-failed', reason: 'x' }, { nowMs });
    expect(row).toMatchObject({ state: 'pending', alertedAtMs: nowMs, lanAttempts: 1 });
    expect(effects).toEqual([
      { type: 'MarkRecipients', recipients: [ANNA], state: 'undelivered' },
      { type: 'Alert', alert: 'undelivered', recipients: [ANNA] },
    ]);
    const again = givenRow({ alertedAtMs: nowMs }).when({ type: 'lan-failed', reason: 'x' }, { nowMs: nowMs + 1 });
    expect(again.effects).toEqual([]);
    const text = alertText('undelivered', {
      hostName: 'bob',
      subject: 'Hi',
      recipients: [ANNA],
      rowId: 1,
      relays: RELAYS,
    });
    expect(text.subject).toBe('Undelivered to bob');
  });

  test('pending: given up when the receiver keeps no key any more that opens it', () => {
    const { row, effects } = givenRow({ alertedAtMs: NOON_MS + 1 }).when(passed, { nowMs: NOON_MS + GIVE_UP_MS });
    expect(row).toMatchObject({ state: 'undelivered', nextAtMs: null });
    expect(effects).toContainEqual({ type: 'Alert', alert: 'given-up', recipients: [ANNA] });
    expect(effects).toContainEqual(dropWire);
  });

  test('quarantined: the sender is told after a minute, of those without a receipt', () => {
    const row = { recipients: [ANNA, BERT] };
    const held = givenRow(row).when({ type: 'lan-quarantined' });
    expect(held.row).toMatchObject({ state: 'quarantined', nextAtMs: NOON_MS + QUARANTINE_ALERT_MS });
    expect(held.effects).toEqual([
      { type: 'MarkRecipients', recipients: [ANNA, BERT], state: 'quarantined' },
      dropWire,
    ]);
    const nowMs = NOON_MS + QUARANTINE_ALERT_MS;
    const told = givenRow({ ...held.row, confirmed: [ANNA] }).when(passed, { nowMs });
    expect(told.row).toMatchObject({ state: 'quarantined', nextAtMs: null, alertedAtMs: nowMs });
    expect(told.effects).toContainEqual({ type: 'Alert', alert: 'quarantined', recipients: [BERT] });
    const all = givenRow({ ...held.row, confirmed: [BERT] }).when(delivered, { nowMs });
    expect(all.row).toMatchObject({ state: 'done' });
    expect(all.effects).toEqual([]);
  });

  test('a peer that answers again has its rows tried at once, as if nothing had failed', () => {
    const nowMs = NOON_MS + 10;
    const { row } = givenRow({ lanAttempts: 5, nextAtMs: nowMs + 900 }).when({ type: 'peer-reached' }, { nowMs });
    expect(row).toMatchObject({ lanAttempts: 0, nextAtMs: nowMs });
  });

  test('a row that is due and cannot be sent is put off by the cap', () => {
    const { row } = givenRow().when(passed);
    expect(row).toMatchObject({
      state: 'pending',
      lanAttempts: 0,
      nextAtMs: NOON_MS + backoffMs(Infinity, { jitter: 0.5, retry: RETRY_TIMING }),
    });
    expect(givenRow({ nextAtMs: NOON_MS + 1 }).when(passed).row?.nextAtMs).toBe(NOON_MS + 1);
  });

  test('an unpaired peer ends what was on its way, and the sender is told', () => {
    expect(givenRow().when({ type: 'peer-unpaired' }).row).toMatchObject({ state: 'undelivered', nextAtMs: null });
    const accepted = givenRow(relayAccepted()).when({ type: 'peer-unpaired' });
    expect(accepted.row).toMatchObject({ state: 'unconfirmed' });
    expect(accepted.effects).toContainEqual({ type: 'Alert', alert: 'unpaired', recipients: [ANNA] });
  });

  test('cancelled: only while nobody else accepted it', () => {
    const { row, effects } = givenRow().when({ type: 'cancelled' });
    expect(row).toMatchObject({ state: 'cancelled', nextAtMs: null, alertedAtMs: null });
    expect(effects).toEqual([{ type: 'MarkRecipients', recipients: [ANNA], state: 'cancelled' }, dropWire]);
    for (const state of OUTBOX_STATES.filter((state) => state !== 'pending')) {
      const changes = { state, nextAtMs: null };
      if (state === 'lan-accepted' || state === 'relay-accepted') continue;
      expect(givenRow(changes).when({ type: 'cancelled' })).toEqual({ row: outboxRow(changes), effects: [] });
    }
    expect(givenRow(relayAccepted()).when({ type: 'cancelled' }).row).toEqual(outboxRow(relayAccepted()));
  });
});

describe('sender outbox row, delivery receipts', () => {
  const states: [OutboxState, boolean][] = [
    ['pending', false],
    ['lan-accepted', false],
    ['relay-accepted', false],
    ['quarantined', true],
    ['expired', true],
    ['unconfirmed', true],
    ['undelivered', true],
    ['cancelled', true],
  ];

  test.each(states)('%s: a receipt over either transport makes it done', (state, isFinal) => {
    const changes = { state, nextAtMs: isFinal ? null : NOON_MS, ...(state === 'relay-accepted' && relayAccepted()) };
    for (const receiptState of ['delivered', 'notified', 'read', 'acked'] as const) {
      const step = givenRow(changes).when({ type: 'receipt', recipient: ANNA, state: receiptState });
      expect(step.row).toMatchObject({ state: 'done', nextAtMs: null, confirmed: [ANNA] });
    }
  });

  test('after an alert, or a cancellation, it corrects what was said', () => {
    const correction = { type: 'Alert', alert: 'delivered-after-all', recipients: [ANNA] };
    for (const state of ['pending', 'expired', 'unconfirmed', 'undelivered', 'quarantined'] as const) {
      const changes = { state, alertedAtMs: NOON_MS, nextAtMs: state === 'pending' ? NOON_MS : null };
      expect(givenRow(changes).when(delivered).effects).toContainEqual(correction);
      expect(givenRow({ ...changes, alertedAtMs: null }).when(delivered).effects).not.toContainEqual(correction);
    }
    expect(givenRow({ state: 'cancelled', nextAtMs: null }).when(delivered).effects).toEqual([correction]);
  });

  test('several recipients: done when each has one; a repeat and a stranger count nothing', () => {
    const recipients = [ANNA, BERT];
    const first = givenRow(relayAccepted({ recipients })).when(delivered);
    expect(first.row).toMatchObject({ state: 'relay-accepted', confirmed: [ANNA] });
    expect(givenRow({ ...first.row }).when(delivered).row).toEqual(first.row);
    const stranger = { ...delivered, recipient: 'carl@bob' as typeof ANNA };
    expect(givenRow({ ...first.row }).when(stranger).row).toEqual(first.row);
    const late = givenRow({ ...first.row }).when(passed, { nowMs: DEADLINE_MS });
    expect(late.effects).toContainEqual({ type: 'Alert', alert: 'unconfirmed', recipients: [BERT] });
    const second = givenRow({ ...late.row }).when({ ...delivered, recipient: BERT });
    expect(second.row).toMatchObject({ state: 'done', confirmed: recipients });
  });
});

describe('sender outbox row, of a receipt', () => {
  const receipt = { kind: 'receipt' } as const;

  test('over the LAN it is dropped when the peer has it', () => {
    for (const type of ['lan-accepted', 'lan-quarantined', 'peer-unpaired'] as const) {
      expect(givenRow(receipt).when({ type })).toEqual({ row: null, effects: [dropWire] });
    }
  });

  test('at the relay it waits until accepted_at + retention for a new epoch, and is dropped without alert', () => {
    const taken = { type: 'relay-accepted', acceptance: acceptance(NOON_MS), isVerified: true } as const;
    const accepted = givenRow(receipt).when(taken);
    expect(accepted.row).toMatchObject({ state: 'relay-accepted', nextAtMs: NOON_MS + RETENTION_MS });
    const again = givenRow({ ...accepted.row }).when(epoch2, { nowMs: NOON_MS + 1 });
    expect(again.row).toMatchObject({ state: 'relay-accepted', nextAtMs: NOON_MS + 1 });
    const end = givenRow({ ...accepted.row }).when(passed, { nowMs: NOON_MS + RETENTION_MS });
    expect(end).toEqual({ row: null, effects: [dropWire] });
  });

  test('it is retried like an envelope and never alerts', () => {
    const nowMs = NOON_MS + UNDELIVERED_ALERT_MS;
    const failed = givenRow(receipt).when({ type: 'lan-failed', reason: 'x' }, { nowMs });
    expect(failed).toMatchObject({ row: { state: 'pending', lanAttempts: 1, alertedAtMs: null }, effects: [] });
    const refused = givenRow(receipt).when({ type: 'relay-refused', relayPubkey: relay.key, code: 'bad receipt' });
    expect(refused.row).toMatchObject({ state: 'pending', relayAttempts: 1 });
    const end = givenRow(receipt).when(passed, { nowMs: NOON_MS + GIVE_UP_MS });
    expect(end).toEqual({ row: null, effects: [dropWire] });
  });
});

describe('sender outbox row: what is learned of the relay', () => {
  test('a relay that went back in time is given the row again, and the same receipt counts no more', () => {
    const row = outboxRow(relayAccepted({ relayAttempts: 2 }));
    const step = givenRow(row).when(rewound, { nowMs: NOON_MS + 5 });
    const mayBeLost = { ...row.acceptance!, mayBeLost: true };
    expect(step.row).toEqual({ ...row, acceptance: mayBeLost, relayAttempts: 0, nextAtMs: NOON_MS + 5 });
    // Of another relay, or of a row that none has, it says nothing.
    expect(givenRow(row).when({ type: 'relay-rewound', relayPubkey: carol.key }).row).toEqual(row);
    expect(givenRow({}).when(rewound).row).toMatchObject({ acceptance: null, nextAtMs: NOON_MS });
    expect(givenRow({ state: 'done', nextAtMs: null }).when(rewound).row).toMatchObject({ nextAtMs: null });
  });

  test('what the relay took and does not show in its log is given to it again, and is denied until it is shown', () => {
    const row = outboxRow(relayAccepted({ relayAttempts: 2 }));
    const step = givenRow(row).when(denial, { nowMs: NOON_MS + 5 });
    const mayBeLost = { ...row.acceptance!, mayBeLost: true };
    expect(step).toEqual({
      row: { ...row, acceptance: mayBeLost, denied, relayAttempts: 0, nextAtMs: NOON_MS + 5 },
      effects: [],
    });
    const again = { type: 'relay-accepted', acceptance: acceptance(NOON_MS + 9), isVerified: true } as const;
    const taken = givenRow(step.row!).when(again);
    expect(taken.row).toMatchObject({ acceptance: acceptance(NOON_MS + 9), denied, nextAtMs: DEADLINE_MS });
    expect(givenRow(taken.row!).when(shown).row).toEqual({ ...taken.row, denied: undefined, proven });
  });

  test('a proof or a denial of one acceptance says nothing of one in another epoch, or by another relay', () => {
    const row = outboxRow(relayAccepted({ proven }));
    const next = {
      type: 'relay-accepted',
      acceptance: acceptance(NOON_MS, epochNumbered(2)),
      isVerified: true,
    } as const;
    const anew = givenRow(row).when(next).row!;
    expect(anew).not.toHaveProperty('proven');
    for (const event of [shown, denial]) {
      expect(givenRow(anew).when(event)).toEqual({ row: anew, effects: [] });
      expect(givenRow(row).when({ ...event, relayPubkey: carol.key }).row).toEqual(row);
      expect(givenRow({}).when(event).row).toMatchObject({ acceptance: null, nextAtMs: NOON_MS });
    }
  });

  test('a relay that takes mail for the peer now makes what waits due, and what another epoch took', () => {
    const waiting = { relayAttempts: 3, nextAtMs: NOON_MS + 60_000 };
    expect(givenRow(waiting).when(ready).row).toMatchObject({ relayAttempts: 0, nextAtMs: NOON_MS });
    // What is due since before stays due since then.
    expect(givenRow({ nextAtMs: NOON_MS - 5 }).when(ready).row).toMatchObject({ nextAtMs: NOON_MS - 5 });
    const accepted = outboxRow(relayAccepted());
    expect(givenRow(accepted).when(ready).row).toEqual(accepted);
    expect(givenRow(accepted).when({ ...ready, epoch: epochNumbered(2) }).row).toMatchObject({ nextAtMs: NOON_MS });
    expect(givenRow({ state: 'done', nextAtMs: null }).when(ready).row).toMatchObject({ nextAtMs: null });
  });

  test('an item that is too large for the relay alerts once, and only while it is pending', () => {
    const refused: OutboxEvent = { type: 'relay-refused', relayPubkey: relay.key, code: 'too large' };
    const step = givenRow({ firstPushAtMs: NOON_MS }).when(refused);
    expect(step.effects).toContainEqual({ type: 'Alert', alert: 'too-large', recipients: [ANNA] });
    expect(step.row).toMatchObject({ state: 'pending', alertedAtMs: NOON_MS, relayAttempts: 1 });
    expect(givenRow({ alertedAtMs: NOON_MS - 1 }).when(refused).effects).toEqual([]);
    expect(givenRow(relayAccepted()).when(refused).effects).toEqual([]);
    expect(givenRow({}).when({ type: 'relay-refused', relayPubkey: relay.key, code: 'conflict' }).effects).toEqual([]);
  });

  test('a notice of before the retention can have passed by this clock is not believed, whatever it is dated', () => {
    const notice: OutboxEvent = { type: 'expired', relayPubkey: relay.key, expiredAtMs: NOON_MS + RETENTION_MS };
    const row = outboxRow(relayAccepted());
    for (const nowMs of [NOON_MS + 1, ALMOST_MS - 1])
      expect(givenRow(row).when(notice, { nowMs })).toEqual({ row, effects: [] });
    const late = { nowMs: NOON_MS + RETENTION_MS };
    expect(givenRow(row).when(notice, late).row).toMatchObject({ state: 'expired' });
    expect(givenRow(row).when({ ...notice, expiredAtMs: NOON_MS - 1 }, late).row).toEqual(row);
    // A relay that said that it keeps items for less.
    const short = relayAccepted({ acceptance: { ...acceptance(NOON_MS), retentionMs: DAY_MS } });
    expect(givenRow(short).when(notice, { nowMs: NOON_MS + DAY_MS }).row).toMatchObject({ state: 'expired' });
  });

  test('an acceptance that is dated 1970 neither ends the row nor drops its bytes', () => {
    const taken: OutboxEvent = { type: 'relay-accepted', acceptance: acceptance(1), isVerified: true };
    const { row, effects } = givenRow({ firstPushAtMs: NOON_MS }).when(taken);
    expect(row).toMatchObject({ state: 'relay-accepted', nextAtMs: DEADLINE_MS });
    expect(effects).toEqual([]);
    // In an old row the relay's date is all there is: the row is no older than itself.
    const old = relayAccepted({ acceptance: acceptance(1) });
    expect(givenRow(old).when(passed, { nowMs: DEADLINE_MS - 1 }).row).toMatchObject({ state: 'relay-accepted' });
    const receipt = givenRow({ kind: 'receipt', firstPushAtMs: NOON_MS }).when(taken);
    expect(receipt.row).toMatchObject({ state: 'relay-accepted', nextAtMs: NOON_MS + RETENTION_MS });
  });

  test('an epoch every ten days moves no deadline, and neither does a relay that keeps items for ever', () => {
    let row = outboxRow(relayAccepted());
    for (let number = 2; number < 40 && row.state === 'relay-accepted'; number++) {
      const nowMs = NOON_MS + (number - 1) * 10 * DAY_MS;
      const taken = acceptance(nowMs, epochNumbered(number));
      const again = givenRow(row).when({ type: 'new-epoch', relayPubkey: relay.key, epoch: taken.epoch }, { nowMs });
      const event: OutboxEvent = { type: 'relay-accepted', acceptance: taken, isVerified: true };
      row = givenRow(again.row ?? row).when(event, { nowMs }).row ?? row;
    }
    expect(row).toMatchObject({ state: 'unconfirmed', alertedAtMs: NOON_MS + 20 * DAY_MS });
    const forEver = { ...acceptance(NOON_MS), retentionMs: 1e15 };
    const kept = givenRow().when({ type: 'relay-accepted', acceptance: forEver, isVerified: true });
    expect(kept.row).toMatchObject({ nextAtMs: NOON_MS + GIVE_UP_MS + DAY_MS });
  });
});

describe('a row that was taken over the LAN', () => {
  const taken = { state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + LAN_DOUBT_MS } as const;

  test('is in quarantine when the peer says so of what is shown to it again', () => {
    expect(givenRow(taken).when({ type: 'lan-quarantined' }).row).toMatchObject({
      state: 'quarantined',
      nextAtMs: NOON_MS + QUARANTINE_ALERT_MS,
    });
  });

  test('is shown again with backoff when the peer did not answer', () => {
    expect(givenRow(taken).when({ type: 'lan-failed', reason: 'no answer' }).row).toMatchObject({
      state: 'lan-accepted',
      lanAttempts: 1,
      lastError: 'no answer',
    });
  });

  test('counts from when it was taken, and not from when it was written', () => {
    const late = { ...taken, lanAcceptedAtMs: NOON_MS + DAY_MS, nextAtMs: NOON_MS + 9 * DAY_MS };
    const endsMs = NOON_MS + DAY_MS + LAN_CONFIRM_MS;
    expect(givenRow(late).when(passed, { nowMs: endsMs - 1 }).row).toMatchObject({
      state: 'lan-accepted',
      nextAtMs: endsMs,
    });
    expect(givenRow(late).when(passed, { nowMs: endsMs }).row).toMatchObject({ state: 'unconfirmed' });
  });

  test('that is to be shown again sooner than it is doubted is not put off', () => {
    const sooner = { ...taken, nextAtMs: NOON_MS + 5 };
    for (const happening of [ready, { type: 'peer-reached' } as const]) {
      expect(givenRow(sooner).when(happening).row).toMatchObject({ nextAtMs: NOON_MS + 5 });
    }
  });
});

describe('what is over stays as it is', () => {
  const over = relayAccepted({ state: 'done', nextAtMs: null, confirmed: [ANNA] });

  test.each<[string, OutboxEvent]>([
    ['a notice that it expired', { type: 'expired', relayPubkey: relay.key, expiredAtMs: NOON_MS + 1 }],
    ['a relay that went back in time', rewound],
    ['a proof', shown],
    ['a relay that does not show it', denial],
    ['a relay that takes mail again', { ...ready, epoch: epochNumbered(2) }],
    ['a new epoch', epoch2],
    ['an answer of v1', { type: 'relay-stored', relayPubkey: relay.key }],
    ['time', passed],
  ])('%s changes nothing of it', (_given, happening) => {
    expect(givenRow(over).when(happening)).toEqual({ row: outboxRow(over), effects: [] });
  });
});

test('a row that a relay of v2 has says nothing of v1', () => {
  expect(givenRow(relayAccepted()).when({ type: 'relay-stored', relayPubkey: relay.key }).row).not.toHaveProperty(
    'relayStoredAtMs',
  );
});

test('a peer that answers again does not put off what is due since before', () => {
  const due = givenRow({ nextAtMs: NOON_MS - 5 }).when({ type: 'peer-reached' });
  expect(due.row).toMatchObject({ nextAtMs: NOON_MS - 5 });
});

test('a receipt of one of two recipients is kept, and nobody is told', () => {
  const step = givenRow({ recipients: [ANNA, BERT] }).when(delivered);
  expect(step.row).toMatchObject({ state: 'pending', confirmed: [ANNA] });
  expect(step.effects).toEqual([]);
});

test('a row that lost its time gets that of its alert', () => {
  const { row } = givenRow({ nextAtMs: null }).when(passed);
  expect(row).toMatchObject({ nextAtMs: NOON_MS + UNDELIVERED_ALERT_MS });
});

test('a row that a relay has, without its receipt, is pushed again, and is given up like any other', () => {
  const row = relayAccepted({ acceptance: null, nextAtMs: NOON_MS + DAY_MS });
  expect(givenRow(row).when(rewound).row).toEqual(outboxRow(row));
  expect(givenRow(row).when(ready).row).toMatchObject({ nextAtMs: NOON_MS });
  expect(givenRow(row).when(passed, { nowMs: NOON_MS + GIVE_UP_MS - 1 }).row).toMatchObject({
    state: 'relay-accepted',
    nextAtMs: NOON_MS + GIVE_UP_MS,
  });
  expect(givenRow(row).when(passed, { nowMs: NOON_MS + GIVE_UP_MS }).row).toMatchObject({ state: 'unconfirmed' });
});

describe('the row of a delivery receipt', () => {
  const receipt = { kind: 'receipt' } as const;

  test('is tried no later than at its end', () => {
    const nowMs = NOON_MS + GIVE_UP_MS - 1;
    const { row } = givenRow(receipt).when({ type: 'lan-failed', reason: 'no answer' }, { nowMs });
    expect(row).toMatchObject({ lanAttempts: 1, nextAtMs: NOON_MS + GIVE_UP_MS });
    expect(givenRow(receipt).when(passed, { nowMs: nowMs + 1 }).row).toBeNull();
  });

  test('waits no longer when the peer answers again', () => {
    const waiting = { ...receipt, lanAttempts: 4, nextAtMs: NOON_MS + 60_000 };
    expect(givenRow(waiting).when({ type: 'peer-reached' }).row).toMatchObject({ lanAttempts: 0, nextAtMs: NOON_MS });
    expect(givenRow({ ...waiting, nextAtMs: NOON_MS - 5 }).when({ type: 'peer-reached' }).row).toMatchObject({
      nextAtMs: NOON_MS - 5,
    });
    const taken = outboxRow({ ...receipt, ...relayAccepted({ lanAttempts: 4, nextAtMs: NOON_MS + 60_000 }) });
    expect(givenRow(taken).when({ type: 'peer-reached' }).row).toEqual(taken);
  });

  test('is kept when the accept receipt of the relay does not verify', () => {
    const step = givenRow(receipt).when({ type: 'relay-accepted', acceptance: acceptance(NOON_MS), isVerified: false });
    expect(step.row).toMatchObject({ state: 'pending', relayAttempts: 1, acceptance: null });
  });
});
