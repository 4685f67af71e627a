/** Events as they were decided once, each with the members a test does not care about filled in. */
import { sha256Hex } from '../../src/protocol/digest.ts';
import { DEFAULT_LIMITS, dedupHorizonMs, retentionMs } from '../../src/protocol/limits.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import type { HostEnrolled, ItemAccepted, ItemsAcked, RelayInitialised } from '../../src/relay/core/event.ts';
import { FIRST_EPOCH, wireOf } from './commands.ts';
import { type TestHost, relay } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

/** The first event of every store. */
export const initialised: RelayInitialised = {
  type: 'RelayInitialised',
  relayPubkey: relay.key,
  epoch: FIRST_EPOCH,
  schemaVersion: 1,
  atMs: NOON_MS,
};

export function enrolled(host: TestHost, changes: Partial<HostEnrolled> = {}): HostEnrolled {
  return {
    type: 'HostEnrolled',
    hostPubkey: host.key,
    hostName: host.name,
    ownerFp: '',
    account: null,
    org: null,
    clientId: null,
    authorizedBy: 'host-key',
    enrolledAtMs: NOON_MS,
    validUntilMs: null,
    formerAccount: null,
    chargedItems: 0,
    chargedBytes: 0,
    atMs: NOON_MS,
    ...changes,
  };
}

/** `host` enrolled with an account token. */
export function enrolledInAccount(host: TestHost, account: string, changes: Partial<HostEnrolled> = {}): HostEnrolled {
  return enrolled(host, { account, authorizedBy: 'account-token', ...changes });
}

/** One new target of an accepted item: the host, its sequence number, its wire bytes. */
export type Accepted = readonly [TestHost, number, string | Buffer];

export function accepted(
  from: TestHost,
  itemId: string,
  targets: readonly Accepted[],
  changes: Partial<ItemAccepted> = {},
): ItemAccepted {
  const acceptedAtMs = changes.acceptedAtMs ?? NOON_MS;
  const expiresAtMs = acceptedAtMs + retentionMs(DEFAULT_LIMITS);
  return {
    type: 'ItemAccepted',
    senderPubkey: from.key,
    itemId: itemId as ItemId,
    kind: 'envelope',
    targets: targets.map(([host, seq, text]) => {
      const wire = wireOf(text);
      return { hostPubkey: host.key, seq, wireHash: sha256Hex(wire), bytes: wire.length };
    }),
    acceptedAtMs,
    expiresAtMs,
    dedupUntilMs: expiresAtMs + dedupHorizonMs(DEFAULT_LIMITS),
    ...changes,
  };
}

/** What one sender's items at the target came to. */
export type Share = readonly [TestHost, items: number, bytes: number];

export function acked(
  target: TestHost,
  through: number,
  shares: readonly Share[],
  changes: Partial<ItemsAcked> = {},
): ItemsAcked {
  let items = 0;
  let bytes = 0;
  for (const share of shares) {
    items += share[1];
    bytes += share[2];
  }
  return {
    type: 'ItemsAcked',
    targetPubkey: target.key,
    through,
    items,
    bytes,
    notices: 0,
    account: null,
    shares: shares.map((share) => ({ senderPubkey: share[0].key, items: share[1], bytes: share[2] })),
    atMs: NOON_MS,
    ...changes,
  };
}
