/** The relay of this host, in words. */
import { expect, test } from 'vitest';
import { relaySetText } from '../../../src/cli/relay-set.ts';
import { relayStatusText } from '../../../src/cli/relay-status.ts';
import type { PinnedRelay, RelayStatusResult } from '../../../src/host/documents/relay.ts';
import { displayFingerprint } from '../../../src/protocol/public-key.ts';
import { relay as relayHost } from '../../support/hosts.ts';
import { NOON_MS } from '../../support/test-clock.ts';

const fingerprint = displayFingerprint(relayHost.key);

function pinned(protocol: 1 | 2): PinnedRelay {
  const url = 'https://relay.example';
  return { url, relay_pubkey: relayHost.key, fingerprint, pinned_at: NOON_MS, protocol, token_from: null };
}

function status(changes: Partial<RelayStatusResult>): RelayStatusResult {
  return {
    relay: pinned(2),
    state: 'ready',
    problem: null,
    seen_key: null,
    epoch: 'FIRST',
    clock_ahead_ms: 0,
    limits: null,
    enrolment: {
      checked_at: NOON_MS,
      authorized_by: 'host-key',
      account: null,
      crowded: false,
      valid_until: null,
      enc_key: { at: NOON_MS, checked_at: NOON_MS },
      senders: { count: 2, iat: NOON_MS, checked_at: NOON_MS },
    },
    received_through: 7,
    head_seq: 7,
    long_poll: true,
    outbox: { pending: 1, relay_accepted: 2 },
    quarantined: 0,
    ...changes,
  };
}

test('a relay that speaks only v1 is set with the words that nothing proves its key', () => {
  const text = relaySetText({ relay: pinned(1), trust: 'first-use' });
  expect(text).toBe(
    `https://relay.example is used, with the key
  ${fingerprint}
It speaks only v1, the earlier protocol: nothing proves that it has this key, and it signs no receipts.
Mail is sealed all the same. As soon as the relay speaks v2 under this key, it is pinned.
`,
  );
  expect(relaySetText({ relay: pinned(2), trust: 'named' })).toContain('It is the key that you named.');
});

test('the status of a relay that speaks only v1 says what v1 lacks', () => {
  const enrolment = { ...status({}).enrolment!, senders: null };
  const relay = pinned(1);
  const text = relayStatusText(
    status({ relay, enrolment, head_seq: null, received_through: 0, long_poll: false, clock_ahead_ms: null }),
  );
  expect(text).toContain('  protocol     v1: it signs nothing, and carries no receipts\n');
  expect(text).toContain('  senders      not in v1: it takes mail of every host\n');
  expect(text).toContain('  received     by polling\n');
  expect(text).toContain(`  key          ${fingerprint}\n`);
  expect(text).not.toContain('clock');
});

test('what a relay said of itself cannot move the terminal', () => {
  const problem = {
    code: 'UNAVAILABLE',
    message: 'the relay answered 503 \u001b[2J\nRelay https://other.example',
    at: 0,
  };
  const text = relayStatusText(status({ state: 'failing', problem, epoch: 'a\u0007b' }));
  expect(text).not.toContain('\u001b');
  expect(text).not.toContain('\u0007');
  expect(text.split('\n')).toHaveLength(relayStatusText(status({})).split('\n').length);
});
