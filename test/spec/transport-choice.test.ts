import { expect, test } from 'vitest';
import { type RelayFacts, chooseTransport } from '../../src/host/core/transport-choice.ts';
import type { OutboxRow } from '../../src/host/core/rows.ts';
import { epochNumbered } from '../support/epochs.ts';
import { carol, relay } from '../support/hosts.ts';
import { RETENTION_MS, outboxRow, relayAccepted } from '../support/outbox-rows.ts';
import { NOON_MS } from '../support/test-clock.ts';

const RELAY: RelayFacts = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  retentionMs: RETENTION_MS,
  isTargetEnrolled: true,
  carriesReceipts: true,
};
const REACHABLE = { address: '10.0.0.2:8789', lanFailures: 0, unpairedAtMs: null };

function chosen(
  changes: Partial<OutboxRow>,
  peer: Partial<typeof REACHABLE | { address: null }> = {},
  facts: RelayFacts | null = RELAY,
): string {
  return chooseTransport(outboxRow(changes), { ...REACHABLE, ...peer }, facts, NOON_MS);
}

test('transport choice rule 1: to the relay after two failed attempts over the LAN, when the target is enrolled', () => {
  expect([0, 1, 2, 3].map((lanAttempts) => chosen({ lanAttempts }))).toEqual(['lan', 'lan', 'relay', 'relay']);
  expect(chosen({ lanAttempts: 2 }, {}, { ...RELAY, isTargetEnrolled: false })).toBe('lan');
  expect(chosen({ lanAttempts: 2 }, {}, null)).toBe('lan');
});

test('transport choice rule 1: to the relay at once when the last known address is unreachable, or there is none', () => {
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

test('transport choice: a relay-accepted row goes to the relay again in another epoch, or at another relay', () => {
  const row = relayAccepted({ nextAtMs: NOON_MS });
  expect(chosen(row, {}, { ...RELAY, epoch: epochNumbered(2) })).toBe('relay');
  expect(chosen(row, {}, { ...RELAY, relayPubkey: carol.key })).toBe('relay');
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
  expect(chosen({ state: 'lan-accepted' })).toBe('lan');
});
