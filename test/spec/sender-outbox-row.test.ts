import { describe, expect, test } from 'vitest';
import {
  ASK_AGAIN_MS,
  BACKOFF_FIRST_MS,
  BACKOFF_MAX_MS,
  GIVE_UP_MS,
  LAN_CONFIRM_MS,
  type OutboxHappening,
  QUARANTINE_ALERT_MS,
  UNDELIVERED_ALERT_MS,
  backoffMs,
  mayPush,
} from '../../src/host/core/outbox.ts';
import { alertText } from '../../src/host/core/outbox-alerts.ts';
import { OUTBOX_STATES, type OutboxState } from '../../src/host/core/rows.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { epochNumbered } from '../support/epochs.ts';
import { carol, relay } from '../support/hosts.ts';
import { ANNA, BERT, RETENTION_MS, acceptance, givenRow, outboxRow, relayAccepted } from '../support/outbox-rows.ts';
import { NOON_MS } from '../support/test-clock.ts';

const DEADLINE_MS = NOON_MS + RETENTION_MS + DAY_MS;
const delivered: OutboxHappening = { type: 'receipt', recipient: ANNA, state: 'delivered' };
const passed: OutboxHappening = { type: 'time-passed' };
const epoch2: OutboxHappening = { type: 'new-epoch', relayPubkey: relay.key, epoch: epochNumbered(2) };
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
        nextAtMs: NOON_MS + 5 + RETENTION_MS + DAY_MS,
      }),
      effects: [],
    });
  });

  test.each<[string, OutboxHappening]>([
    ['a receipt that does not verify', { type: 'relay-accepted', acceptance: acceptance(NOON_MS), isVerified: false }],
    ['a rejected or missing result', { type: 'relay-refused', code: 'quota:queue_items' }],
    ['a lost response', { type: 'relay-failed', reason: 'socket hang up' }],
  ])('pending: %s leaves it pending, retried with backoff', (_why, happening) => {
    const { row, effects } = givenRow({ firstPushAtMs: NOON_MS }).when(happening);
    expect(row).toMatchObject({ state: 'pending', relayAttempts: 1, acceptance: null });
    expect(row?.nextAtMs).toBe(NOON_MS + backoffMs(1, 0.5));
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
    const text = alertText('expired', { hostName: 'bob', subject: 'Hi', recipients: [ANNA], rowId: 1 });
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
    const text = alertText('unconfirmed', { hostName: 'bob', subject: 'Hi', recipients: [ANNA], rowId: 1 });
    expect(text.subject).toBe('Undelivered/unconfirmed to bob');
  });

  test('relay-accepted: for a peer that never confirmed anything the alert says so and does not call the mail lost', () => {
    const { effects } = givenRow(relayAccepted()).when(passed, { nowMs: DEADLINE_MS, hasPeerConfirmed: false });
    expect(effects).toContainEqual({ type: 'Alert', alert: 'never-confirmed', recipients: [ANNA] });
    const { body } = alertText('never-confirmed', { hostName: 'bob', subject: 'Hi', recipients: [ANNA], rowId: 1 });
    expect(body).toMatch(/no delivery confirmation/);
    expect(body).toMatch(/older version/);
    expect(body).not.toMatch(/lost|undelivered/i);
  });

  test('relay-accepted: a new epoch has it pushed again; the same epoch does not', () => {
    const nowMs = NOON_MS + DAY_MS;
    const again = givenRow(relayAccepted()).when(epoch2, { nowMs });
    expect(again).toEqual({ row: outboxRow(relayAccepted({ nextAtMs: nowMs })), effects: [] });
    const same: OutboxHappening = { ...epoch2, epoch: epochNumbered(1) };
    expect(givenRow(relayAccepted()).when(same, { nowMs }).row).toEqual(outboxRow(relayAccepted()));
    // The new acceptance counts from then on.
    const taken = acceptance(nowMs, epochNumbered(2));
    const accepted = givenRow(relayAccepted({ nextAtMs: nowMs })).when(
      { type: 'relay-accepted', acceptance: taken, isVerified: true },
      { nowMs },
    );
    expect(accepted.row).toMatchObject({ acceptance: taken, nextAtMs: nowMs + RETENTION_MS + DAY_MS });
  });

  test('relay-accepted: when the push of a new epoch fails it stays accepted, retried, and its deadline holds', () => {
    const row = relayAccepted({ nextAtMs: NOON_MS });
    const refused = givenRow(row).when({ type: 'relay-refused', code: 'unknown target' });
    expect(refused.row).toMatchObject({
      state: 'relay-accepted',
      relayAttempts: 1,
      lastError: 'rejected:unknown target',
    });
    const late = givenRow(row).when({ type: 'relay-failed', reason: 'x' }, { nowMs: DEADLINE_MS });
    expect(late.row).toMatchObject({ state: 'unconfirmed' });
    const soon = givenRow(row).when({ type: 'relay-failed', reason: 'x' }, { nowMs: DEADLINE_MS - 1 });
    expect(soon.row).toMatchObject({ state: 'relay-accepted', nextAtMs: DEADLINE_MS });
  });

  test('relay-accepted rows are not moved by what happens over the LAN', () => {
    const overLan: OutboxHappening[] = [
      { type: 'lan-accepted' },
      { type: 'lan-quarantined' },
      { type: 'lan-failed', reason: 'x' },
      { type: 'lan-rejected', code: 'x' },
      { type: 'peer-reached' },
    ];
    for (const happening of overLan) {
      expect(givenRow(relayAccepted()).when(happening)).toEqual({ row: outboxRow(relayAccepted()), effects: [] });
    }
  });

  test('a row may be pushed until first push + retention; a lost response fixes the first push', () => {
    const { row } = givenRow().when({ type: 'relay-pushing' }, { nowMs: NOON_MS + 1 });
    expect(row).toMatchObject({ firstPushAtMs: NOON_MS + 1, state: 'pending' });
    const again = givenRow({ firstPushAtMs: NOON_MS + 1 }).when({ type: 'relay-pushing' }, { nowMs: NOON_MS + 2 });
    expect(again.row).toMatchObject({ firstPushAtMs: NOON_MS + 1 });
    expect(mayPush(outboxRow(), NOON_MS + GIVE_UP_MS, RETENTION_MS)).toBe(true);
    const pushed = outboxRow({ firstPushAtMs: NOON_MS });
    expect(mayPush(pushed, NOON_MS + RETENTION_MS - 1, RETENTION_MS)).toBe(true);
    expect(mayPush(pushed, NOON_MS + RETENTION_MS, RETENTION_MS)).toBe(false);
    expect(mayPush(outboxRow(relayAccepted()), DEADLINE_MS - 1, RETENTION_MS)).toBe(true);
    expect(mayPush(outboxRow({ state: 'done' }), NOON_MS, RETENTION_MS)).toBe(false);
  });

  test('a relay of v1 gives no receipt: the row stays pending and is shown to it again after a day', () => {
    const { row, effects } = givenRow({ relayAttempts: 1 }).when({ type: 'relay-stored' });
    expect(row).toMatchObject({ state: 'pending', relayAttempts: 0, nextAtMs: NOON_MS + ASK_AGAIN_MS });
    expect(effects).toEqual([]);
    const late = givenRow().when({ type: 'relay-stored' }, { nowMs: NOON_MS + UNDELIVERED_ALERT_MS - 1 });
    expect(late.row?.nextAtMs).toBe(NOON_MS + UNDELIVERED_ALERT_MS);
  });
});

describe('sender outbox row, over the LAN', () => {
  test('pending: what the peer took waits for the receipt, and is shown to it again after a day', () => {
    const { row, effects } = givenRow({ lanAttempts: 4, lastError: 'x' }).when({ type: 'lan-accepted' });
    expect(row).toEqual(
      outboxRow({ state: 'lan-accepted', lanAcceptedAtMs: NOON_MS, nextAtMs: NOON_MS + ASK_AGAIN_MS }),
    );
    expect(effects).toEqual([]);
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
    const failed = givenRow({ lanAttempts: 1 }).when({ type: 'lan-failed', reason: 'ECONNREFUSED' });
    expect(failed.row).toMatchObject({
      lanAttempts: 2,
      lastError: 'ECONNREFUSED',
      nextAtMs: NOON_MS + backoffMs(2, 0.5),
    });
    const refused = givenRow().when({ type: 'lan-rejected', code: 'quarantine full' });
    expect(refused.row).toMatchObject({ state: 'pending', lanAttempts: 1, lastError: 'rejected:quarantine full' });
  });

  test('backoff doubles from its first value to its cap, spread over the upper half', () => {
    expect([1, 2, 3].map((attempts) => backoffMs(attempts, 1))).toEqual([5_000, 10_000, 20_000]);
    expect(backoffMs(1, 0)).toBe(BACKOFF_FIRST_MS / 2);
    expect(backoffMs(1000, 1)).toBe(BACKOFF_MAX_MS);
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
    const text = alertText('undelivered', { hostName: 'bob', subject: 'Hi', recipients: [ANNA], rowId: 1 });
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
    expect(row).toMatchObject({ state: 'pending', lanAttempts: 0, nextAtMs: NOON_MS + backoffMs(Infinity, 0.5) });
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
    const refused = givenRow(receipt).when({ type: 'relay-refused', code: 'bad receipt' });
    expect(refused.row).toMatchObject({ state: 'pending', relayAttempts: 1 });
    const end = givenRow(receipt).when(passed, { nowMs: NOON_MS + GIVE_UP_MS });
    expect(end).toEqual({ row: null, effects: [dropWire] });
  });
});
