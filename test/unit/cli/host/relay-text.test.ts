/** The relay of this host, in words. */
import { expect, test } from 'vitest';
import { isoTime } from '../../../../src/protocol/time.ts';
import { outboxText } from '../../../../src/cli/mail/outbox.ts';
import { quarantineText, quarantinedItemText } from '../../../../src/cli/mail/quarantine.ts';
import { relaySetText, relayStatusText } from '../../../../src/cli/host/relay.ts';
import type { QuarantinedItem } from '../../../../src/host/contract/outbox.ts';
import type { PinnedRelay, RelayStatusResult } from '../../../../src/host/contract/relays.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice, relay as relayHost } from '../../../support/hosts.ts';
import { PIPE, terminal } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const fingerprint = displayFingerprint(relayHost.key);

function pinned(protocol: 1 | 2): PinnedRelay {
  const url = 'https://relay.example';
  return {
    url,
    relay_pubkey: relayHost.key,
    fingerprint,
    pinned_at: isoTime(NOON_MS),
    protocol,
    token_from: null,
    ca_file: null,
  };
}

function status(changes: Partial<RelayStatusResult>): RelayStatusResult {
  return {
    relay: pinned(2),
    state: 'ready',
    problem: null,
    seen_key: null,
    epoch: 'FIRST',
    epochs_left: 0,
    clock_ahead_ms: 0,
    limits: null,
    enrolment: {
      checked_at: isoTime(NOON_MS),
      authorized_by: 'host-key',
      account: null,
      crowded: false,
      valid_until: null,
      enc_key: { at: isoTime(NOON_MS), checked_at: isoTime(NOON_MS) },
      senders: { count: 2, iat: isoTime(NOON_MS), checked_at: isoTime(NOON_MS) },
    },
    received_through: 7,
    head_seq: 7,
    long_poll: true,
    outbox: { pending: 1, relay_accepted: 2, receipts_pending: 0 },
    quarantined: 0,
    evidence: 0,
    ...changes,
  };
}

test('a relay that speaks only v1 is set with the words that nothing proves its key', () => {
  const text = relaySetText({ relay: pinned(1), trust: 'first-use' });
  expect(text).toBe(
    `This host uses https://relay.example with the key
  ${fingerprint}
The relay speaks only v1, the earlier protocol: it does not prove its key, and signs no receipts.
Mail is sealed nevertheless. This host pins the key as soon as the relay speaks v2.
`,
  );
  expect(relaySetText({ relay: pinned(2), trust: 'named' })).toContain('It is the key that you named with --key.');
});

test('the status of a relay that speaks only v1 says what v1 lacks', () => {
  const enrolment = { ...status({}).enrolment!, senders: null };
  const relay = pinned(1);
  const text = relayStatusText(
    PIPE,
    status({ relay, enrolment, head_seq: null, received_through: 0, long_poll: false, clock_ahead_ms: null }),
  );
  expect(text).toContain('  protocol     v1: it signs nothing and carries no receipts\n');
  expect(text).toContain('  senders      not in v1: it accepts mail from every host\n');
  expect(text).toContain('  received     by polling\n');
  expect(text).toContain(`  key          ${fingerprint}\n`);
  expect(text).not.toContain('clock');
});

test('what a relay said of itself cannot move the terminal', () => {
  const problem = {
    code: 'UNAVAILABLE',
    message: 'the relay answered 503 \u001b[2J\nRelay https://other.example',
    at: isoTime(0),
  };
  const text = relayStatusText(PIPE, status({ state: 'failing', problem, epoch: 'a\u0007b' }));
  expect(text).not.toContain('\u001b');
  expect(text).not.toContain('\u0007');
  expect(text.split('\n')).toHaveLength(relayStatusText(PIPE, status({})).split('\n').length);
});

test('the epochs that the relay left are counted', () => {
  expect(relayStatusText(PIPE, status({}))).toContain('  epoch        FIRST\n');
  expect(relayStatusText(PIPE, status({ epochs_left: 2 }))).toContain('  epoch        FIRST, after 2 others\n');
});

test('two histories are the state, and evidence that is open is counted', () => {
  const text = relayStatusText(PIPE, status({ state: 'two-histories', evidence: 2 }));
  expect(text).toContain('  state        two-histories: it signed what cannot belong to one log\n');
  expect(text).toContain('  evidence     2 against this relay: poste relay evidence\n');
  expect(relayStatusText(PIPE, status({}))).not.toContain('evidence');
});

test('the status counts messages, and names delivery receipts only while they wait', () => {
  expect(relayStatusText(PIPE, status({}))).toContain('outbox       1 waiting, 2 accepted but not confirmed\n');
  const receipts = status({ outbox: { pending: 0, relay_accepted: 0, receipts_pending: 1 } });
  expect(relayStatusText(PIPE, receipts)).toContain('0 accepted but not confirmed, 1 delivery receipt waiting\n');
});

test('an empty outbox is said in the words of what was asked', () => {
  const none = { rows: [], next_before: null };
  expect(outboxText(PIPE, none, {})).toBe('No row is open.\n');
  expect(outboxText(PIPE, none, { host: 'server' })).toBe('No row for server is open.\n');
  expect(outboxText(PIPE, none, { show: 'undelivered' })).toBe('No row is undelivered.\n');
  expect(outboxText(PIPE, none, { show: 'all' })).toBe('The outbox has no row.\n');
});

test('what came over a relay is listed with the relay, the epoch and the seq', () => {
  const relay = { pubkey: relayHost.key, epoch: '0TCC135QTP85RW2TAAD8BTCAJF', seq: 1763675303001 };
  const item: QuarantinedItem = {
    number: 3,
    via: 'relay',
    relay,
    kind: 'envelope',
    item_id: 'm1',
    sender_pubkey: relayHost.key,
    host: null,
    recipients: null,
    reason: 'unknown-sender',
    detail: 'signed by no paired host',
    at: isoTime(NOON_MS),
    bytes: 12,
    wire_hash: 'ab'.repeat(32),
    room: 'relays',
    has_bytes: true,
  };
  const list = { items: [item], next_before: null, total_items: 1, total_bytes: 12, rooms: [] };
  const [head, row] = quarantineText(terminal(200), list, 'relay').split('\n');
  expect(head).toMatch(/^NUMBER +RELAY +EPOCH +SEQ +KIND +VIA /);
  expect(row).toContain(` ${fingerprint.slice(0, 15)}  0TCC135QTP85  1763675303001  envelope `);
  expect(quarantineText(terminal(200), list, 'all')).not.toContain('EPOCH');
  const shown = quarantinedItemText(PIPE, { item, wire_b64: '' });
  for (const line of [`relay      ${fingerprint}`, `epoch      ${relay.epoch}`, 'seq        1763675303001']) {
    expect(shown).toContain(`  ${line}\n`);
  }
  expect(quarantineText(terminal(200), list, 'relay')).not.toContain('ALSO');
  const again = { ...item, relays: [{ ...relay, pubkey: alice.key, seq: 5 }] };
  const also = displayFingerprint(alice.key);
  const [titles, both] = quarantineText(PIPE, { ...list, items: [again] }, 'relay').split('\n');
  expect(titles).toMatch(/ SEQ +ALSO +KIND /);
  expect(both).toContain(`  ${relay.seq}  ${also}  envelope `);
  expect(quarantinedItemText(PIPE, { item: again, wire_b64: '' })).toContain(`  relay      ${also}\n`);
  const bare = quarantinedItemText(PIPE, { item: { ...item, kind: 'a\u202eb', has_bytes: false }, wire_b64: null });
  expect(bare).toContain('Its 12 bytes were not kept, because the quota was full: it must be sent again.\n');
  expect(bare).toContain('kind       a\\u{202e}b, over relay\n');
});

test('the quarantine says of each room that is in use how much of it is taken, and what it had no room for', () => {
  const room = { items: 0, bytes: 0, items_max: 9, bytes_max: 2000, without_bytes: 0, dropped: 0 };
  const rooms = [
    { ...room, room: 'hosts' as const },
    { ...room, room: 'relays' as const, items: 9, bytes: 1500, without_bytes: 2 },
    { ...room, room: 'strangers' as const, items: 1, bytes: 5, dropped: 7 },
  ];
  const text = quarantineText(PIPE, { items: [], next_before: null, total_items: 12, total_bytes: 1505, rooms }, 'all');
  expect(text.split('\n').slice(1)).toEqual([
    '12 items, 1.5 KB in total.',
    '  relays: 9 of at most 9, 1.5 KB of at most 2.0 KB; 2 more without their bytes, because the quota was full',
    '  unpaired hosts: 1 of at most 9, 5 bytes of at most 2.0 KB; 7 dropped for newer ones',
    '',
  ]);
});
