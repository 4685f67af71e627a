import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type OutboxEvent, RETRY_TIMING } from '../../src/host/core/outbox-event.ts';
import { stepOutbox } from '../../src/host/core/outbox.ts';
import { copiesOf, copyAt, liveCopies, triedAt, GIVE_UP_MS } from '../../src/host/core/outbox-row.ts';
import type { TriedRelay } from '../../src/host/core/relay-acceptance.ts';
import type { OutboxRow } from '../../src/host/core/rows.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { epochNumbered } from '../support/epochs.ts';
import { carol, relay } from '../support/hosts.ts';
import { ANNA, BERT, RETENTION_MS, acceptance, outboxRow } from '../support/outbox-rows.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { share } from '../support/thorough.ts';

const SENDING = new Set(['pending', 'lan-accepted', 'relay-accepted']);
/** After this no row waits for anything: given up, or accepted at the last moment and unconfirmed. */
const END_MS = GIVE_UP_MS + RETENTION_MS + 5 * DAY_MS;

interface Moment {
  afterMs: number;
  jitter: number;
  hasPeerConfirmed: boolean;
  event: OutboxEvent;
  /** Says of an acceptance whether the relay says when it first took the item. */
  isOld: boolean;
}

const epoch = fc.constantFrom(epochNumbered(1), epochNumbered(2));
const relayPubkey = fc.constantFrom(relay.key, carol.key);
const event: fc.Arbitrary<OutboxEvent> = fc.oneof(
  fc.constantFrom<OutboxEvent>(
    { type: 'lan-accepted' },
    { type: 'lan-quarantined' },
    { type: 'lan-rejected', code: 'x' },
    { type: 'lan-failed', reason: 'x' },
    { type: 'relay-stored', relayPubkey: relay.key },
    { type: 'too-large' },
    { type: 'peer-reached' },
    { type: 'time-passed' },
    { type: 'rescheduled', atMs: NOON_MS + 60_000 },
  ),
  { weight: 1, arbitrary: fc.constantFrom<OutboxEvent>({ type: 'peer-unpaired' }, { type: 'cancelled' }) },
  fc.record({
    type: fc.constant('relay-pushing' as const),
    relayPubkey,
    isOneOfMany: fc.boolean(),
    oldestRelay: relayPubkey,
  }),
  fc.record({ type: fc.constant('relay-refused' as const), relayPubkey, code: fc.constantFrom('x', 'too large') }),
  fc.record({ type: fc.constant('relay-failed' as const), relayPubkey, reason: fc.constant('x') }),
  fc.record({ type: fc.constant('relay-removed' as const), relayPubkey }),
  fc.record({ type: fc.constant('relay-ready' as const), relayPubkey, epoch }),
  fc.record({
    type: fc.constant('relay-accepted' as const),
    acceptance: fc.tuple(epoch, relayPubkey).map(([epoch, key]) => acceptance(NOON_MS, epoch, key)),
    isVerified: fc.boolean(),
  }),
  fc.record({ type: fc.constant('expired' as const), relayPubkey, expiredAtMs: fc.constant(NOON_MS + END_MS) }),
  fc.record({
    type: fc.constant('receipt' as const),
    recipient: fc.constantFrom(ANNA, BERT),
    state: fc.constantFrom('delivered' as const, 'acked' as const),
  }),
  fc.record({ type: fc.constant('new-epoch' as const), relayPubkey, epoch }),
  fc.record({
    type: fc.constant('relay-proven' as const),
    relayPubkey,
    epoch,
    proven: fc.record({ epoch, size: fc.nat() }),
  }),
  fc.record({
    type: fc.constant('relay-denied' as const),
    relayPubkey,
    epoch,
    denied: fc.record({ times: fc.nat(), atMs: fc.nat() }),
  }),
);
const moment: fc.Arbitrary<Moment> = fc.record({
  afterMs: fc.oneof(fc.integer({ min: 0, max: 60_000 }), fc.integer({ min: 0, max: 5 * DAY_MS })),
  // fc.double draws mostly numbers near 0.
  jitter: fc.integer({ min: 0, max: 999 }).map((thousandths) => thousandths / 1000),
  hasPeerConfirmed: fc.boolean(),
  event,
  isOld: fc.boolean(),
});

interface Life {
  row: OutboxRow | null;
  alerts: string[];
  hasWire: boolean;
  nowMs: number;
}

function live(life: Life, { event, jitter, hasPeerConfirmed, isOld }: Moment): Life {
  if (!life.row) return life;
  const { nowMs } = life;
  const stamped: OutboxEvent =
    event.type === 'relay-accepted'
      ? { ...event, acceptance: { ...event.acceptance, acceptedAtMs: isOld ? NOON_MS : nowMs } }
      : event;
  const before = structuredClone(life.row);
  const { row, effects } = stepOutbox(life.row, stamped, {
    nowMs,
    momentMs: (atMs) => atMs,
    jitter,
    retry: RETRY_TIMING,
    hasPeerConfirmed,
  });
  expect(life.row).toEqual(before);
  const drops = effects.filter(({ type }) => type === 'DropWire').length;
  expect(drops).toBeLessThanOrEqual(life.hasWire ? 1 : 0);
  const alerts = effects.flatMap((effect) => (effect.type === 'Alert' ? [effect.alert] : []));
  return { row, alerts: [...life.alerts, ...alerts], hasWire: life.hasWire && drops === 0, nowMs };
}

function checkShape({ row, hasWire }: Life): void {
  expect(hasWire).toBe(row !== null && SENDING.has(row.state));
  if (!row) return;
  // What is quarantined waits for receipts for a moment before its sender is told.
  if (row.state !== 'quarantined') expect(row.nextAtMs !== null).toBe(SENDING.has(row.state));
  expect(row.confirmed.length === row.recipients.length).toBe(row.state === 'done');
  if (row.state === 'relay-accepted') expect(row.acceptance).not.toBeNull();
  if (row.tried) checkCopies(row, row.tried);
  else expect(row.copies).toBeUndefined();
}

/** One copy and one record of each relay; every copy was tried for; older software reads the newest live one. */
function checkCopies(row: OutboxRow, tried: readonly TriedRelay[]): void {
  const copies = copiesOf(row);
  const holders = copies.map(({ acceptance: { relayPubkey: key } }) => key);
  expect(new Set(holders).size).toBe(holders.length);
  expect(new Set(tried.map(({ relayPubkey: key }) => key)).size).toBe(tried.length);
  for (const key of holders) expect(triedAt(row, key) ?? { isRefused: true }).not.toHaveProperty('isRefused');
  const live = liveCopies(row);
  if (live.length > 0) {
    const shown = copies.find(({ acceptance }) => acceptance === row.acceptance);
    expect(shown).toMatchObject({ state: 'live', atMs: Math.max(...live.map(({ atMs }) => atMs)) });
  }
  if (row.state !== 'expired') return;
  for (const { relayPubkey: key, isRefused } of tried)
    expect(isRefused === true || copyAt(row, key)?.state === 'expired').toBe(true);
}

/** Everything that happens, and then nothing but time, looked at whenever the row is due. */
function lifeOf(first: OutboxRow, moments: readonly Moment[]): Life {
  let life: Life = { row: first, alerts: [], hasWire: true, nowMs: NOON_MS };
  for (const moment of moments) {
    life = live({ ...life, nowMs: life.nowMs + moment.afterMs }, moment);
    checkShape(life);
  }
  const last = { jitter: 0, hasPeerConfirmed: true, event: { type: 'time-passed' } as const, isOld: false };
  const endMs = life.nowMs + END_MS;
  for (let looks = 0; life.row?.nextAtMs != null && looks < 100_000; looks++) {
    // A look that comes late, by more than a cap, finds the same in the end.
    life = live({ ...life, nowMs: Math.max(life.nowMs, life.row.nextAtMs + 2 * DAY_MS) }, { ...last, afterMs: 0 });
    expect(life.nowMs).toBeLessThan(endMs + 3 * DAY_MS);
  }
  checkShape(life);
  return life;
}

test('whatever happens to an envelope, its row ends done or cancelled, or its sender was alerted', () => {
  fc.assert(
    fc.property(fc.array(moment, { maxLength: 30 }), fc.boolean(), (moments, isForTwo) => {
      const recipients = isForTwo ? [ANNA, BERT] : [ANNA];
      const { row, alerts } = lifeOf(outboxRow({ recipients }), moments);
      expect(row?.nextAtMs).toBeNull();
      expect(row?.state === 'done' || row?.state === 'cancelled' || alerts.length > 0).toBe(true);
      // What was said before is corrected when it arrives: once and last.
      const isCorrected = row?.state === 'done' && alerts.length > 0;
      expect(alerts.indexOf('delivered-after-all')).toBe(isCorrected ? alerts.length - 1 : -1);
      expect(alerts.filter((alert) => alert === 'undelivered').length).toBeLessThanOrEqual(1);
      expect(alerts.length).toBeLessThanOrEqual(3);
    }),
    { numRuns: share(300) },
  );
});

test('whatever happens to the row of a receipt, it is gone in the end and nobody was alerted', () => {
  fc.assert(
    fc.property(fc.array(moment, { maxLength: 30 }), (moments) => {
      const { row, alerts } = lifeOf(outboxRow({ kind: 'receipt' }), moments);
      expect(row).toBeNull();
      expect(alerts).toEqual([]);
    }),
    { numRuns: share(300) },
  );
});

test('a receipt of every recipient makes any row done, whatever happened before', () => {
  fc.assert(
    fc.property(fc.array(moment, { maxLength: 30 }), (moments) => {
      const before = lifeOf(outboxRow({ recipients: [ANNA, BERT] }), moments);
      const after = [ANNA, BERT].reduce<OutboxRow | null>((row, recipient) => {
        const receipt = { type: 'receipt', recipient, state: 'delivered' } as const;
        return (
          row &&
          stepOutbox(row, receipt, {
            nowMs: before.nowMs,
            momentMs: (atMs) => atMs,
            jitter: 0,
            retry: RETRY_TIMING,
            hasPeerConfirmed: true,
          }).row
        );
      }, before.row);
      expect(after).toMatchObject({ state: 'done', nextAtMs: null });
    }),
    { numRuns: share(300) },
  );
});
