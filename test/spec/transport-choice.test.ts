import { expect, test } from 'vitest';
import { LAN_DOUBT_MS } from '../../src/host/core/outbox-row.ts';
import { type RelayFacts, chooseTransport, mayNeedRelay } from '../../src/host/core/transport-choice.ts';
import type { OutboxRow } from '../../src/host/core/rows.ts';
import { epochNumbered } from '../support/epochs.ts';
import { relay } from '../support/hosts.ts';
import { RETENTION_MS, outboxRow, relayAccepted } from '../support/outbox-rows.ts';
import { NOON_MS } from '../support/test-clock.ts';

const RELAY: RelayFacts = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  retentionMs: RETENTION_MS,
  isTargetEnrolled: true,
  carriesReceipts: true,
  hasTwoHistories: false,
};
const REACHABLE = { address: '10.0.0.2:8789', lanFailures: 0, unpairedAtMs: null };

function chosen(
  changes: Partial<OutboxRow>,
  peer: Partial<typeof REACHABLE | { address: null }> = {},
  facts: RelayFacts | null = RELAY,
): string {
  return chooseTransport(outboxRow(changes), { ...REACHABLE, ...peer }, facts, {
    nowMs: NOON_MS,
    momentMs: (atMs) => atMs,
  });
}

test('transport choice rule 1: to the relay after two failed attempts over the LAN, if the target is enrolled', () => {
  expect([0, 1, 2, 3].map((lanAttempts) => chosen({ lanAttempts }))).toEqual(['lan', 'lan', 'relay', 'relay']);
  expect(chosen({ lanAttempts: 2 }, {}, { ...RELAY, isTargetEnrolled: false })).toBe('lan');
  expect(chosen({ lanAttempts: 2 }, {}, null)).toBe('lan');
});

test('transport choice rule 1: to the relay at once when the last address is unreachable, or there is none', () => {
  expect(chosen({}, { lanFailures: 1 })).toBe('lan');
  expect(chosen({}, { lanFailures: 2 })).toBe('relay');
  expect(chosen({}, { address: null })).toBe('relay');
  expect(chosen({}, { address: null }, null)).toBe('wait');
});

test('transport choice rule 1: where both fail they take turns', () => {
  expect(chosen({ lanAttempts: 2, relayAttempts: 2 })).toBe('relay');
  expect(chosen({ lanAttempts: 2, relayAttempts: 3 })).toBe('lan');
  expect(chosen({ lanAttempts: 2, relayAttempts: 3 }, { address: null })).toBe('relay');
});

test('transport choice rule 3: a row that has waited for long goes over the LAN all the same, which answers', () => {
  expect(chosen({ createdAtMs: NOON_MS - 2 * LAN_DOUBT_MS })).toBe('lan');
});

test('transport choice rule 2: nothing is tried before its next_at', () => {
  const peers = [{}, { lanFailures: 9 }];
  for (const peer of peers) expect(chosen({ nextAtMs: NOON_MS + 1, lanAttempts: 5 }, peer)).toBe('wait');
  expect(chosen({ nextAtMs: null })).toBe('wait');
});

test('transport choice rule 3: a reachable target gets new rows over the LAN, relay-accepted ones never', () => {
  expect(chosen({ lanAttempts: 0, relayAttempts: 4 })).toBe('lan');
  expect(chosen(relayAccepted({ nextAtMs: NOON_MS }))).toBe('wait');
  expect(chosen(relayAccepted({ nextAtMs: NOON_MS }), {}, null)).toBe('wait');
});

test('transport choice: a pending row is not pushed after first push + retention', () => {
  const late = { firstPushAtMs: NOON_MS - RETENTION_MS, lanAttempts: 2 };
  expect(chosen(late)).toBe('lan');
  expect(chosen(late, { address: null })).toBe('wait');
  expect(chosen({ ...late, firstPushAtMs: NOON_MS - RETENTION_MS + 1 })).toBe('relay');
});

test('transport choice: what ended, and what is for an unpaired host, waits', () => {
  for (const state of ['done', 'quarantined', 'expired', 'unconfirmed', 'undelivered', 'cancelled'] as const) {
    expect(chosen({ state })).toBe('wait');
  }
  expect(chosen({}, { unpairedAtMs: 1 } as never)).toBe('wait');
});

test('transport choice: what the peer took over the LAN goes to the relay too when it is not confirmed in time', () => {
  const taken = { state: 'lan-accepted', lanAcceptedAtMs: NOON_MS - LAN_DOUBT_MS } as const;
  expect(chosen(taken)).toBe('relay');
  expect(chosen({ ...taken, lanAcceptedAtMs: NOON_MS - LAN_DOUBT_MS + 1 })).toBe('lan');
  expect(chosen(taken, {}, null)).toBe('lan');
  expect(chosen(taken, {}, { ...RELAY, isTargetEnrolled: false })).toBe('lan');
  expect(chosen({ ...taken, firstPushAtMs: NOON_MS - RETENTION_MS })).toBe('lan');
  // They take turns.
  expect(chosen({ ...taken, relayAttempts: 1 })).toBe('lan');
  expect(chosen({ ...taken, relayAttempts: 1, lanAttempts: 1 })).toBe('relay');
  expect(chosen({ ...taken, nextAtMs: NOON_MS + 1 })).toBe('wait');
  expect(mayNeedRelay(outboxRow(taken), REACHABLE)).toBe(true);
});

test('transport choice: while the relay has two histories, each row tries the LAN first, if it can', () => {
  const doubted = { ...RELAY, hasTwoHistories: true };
  const unreached = { lanFailures: 2 };
  expect(chosen({}, unreached)).toBe('relay');
  expect(chosen({}, unreached, doubted)).toBe('lan');
  expect(chosen({ lanAttempts: 1 }, unreached, doubted)).toBe('lan');
  expect(chosen({ lanAttempts: 2 }, unreached, doubted)).toBe('relay');
  expect(chosen({}, { address: null }, doubted)).toBe('relay');
});

test('transport choice: a delivery receipt does not go to a relay that speaks only v1', () => {
  const receipt = { kind: 'receipt', lanAttempts: 2 } as const;
  expect(chosen(receipt)).toBe('relay');
  expect(chosen(receipt, {}, { ...RELAY, carriesReceipts: false })).toBe('lan');
  expect(chosen(receipt, { address: null }, { ...RELAY, carriesReceipts: false })).toBe('wait');
  expect(chosen({ lanAttempts: 2 }, {}, { ...RELAY, carriesReceipts: false })).toBe('relay');
});

const needs = (
  changes: Partial<OutboxRow>,
  peer: { address: string | null; lanFailures: number } = REACHABLE,
): boolean => mayNeedRelay(outboxRow(changes), peer);

test('transport choice: what a relay can do matters for what it or the LAN took, or where the LAN failed twice', () => {
  expect(needs({})).toBe(false);
  expect([1, 2, 3].map((lanAttempts) => needs({ lanAttempts }))).toEqual([false, true, true]);
  expect([1, 2, 3].map((lanFailures) => needs({}, { ...REACHABLE, lanFailures }))).toEqual([false, true, true]);
  expect(needs({}, { address: null, lanFailures: 0 })).toBe(true);
  expect(needs(relayAccepted())).toBe(true);
  expect(needs({ state: 'lan-accepted' })).toBe(true);
  expect(needs({ state: 'done', lanAttempts: 9 }, { address: null, lanFailures: 9 })).toBe(false);
});
