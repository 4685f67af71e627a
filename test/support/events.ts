/** Events as they were decided once, each with the members a test does not care about filled in. */
import { type Sha256Hex, sha256Hex } from '../../src/protocol/encodings.ts';
import { DEFAULT_LIMITS, DENY_KEPT_MS, dedupHorizonMs, retentionMs } from '../../src/protocol/limits.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import type {
  DenyEntryAdded,
  HostEnrolled,
  HostRevoked,
  InviteIssued,
  ItemAccepted,
  ItemsAcked,
  ItemsExpired,
  ItemsMoved,
  KeyRotated,
  RelayInitialised,
} from '../../src/relay/core/event.ts';
import { FIRST_EPOCH, wireOf } from './commands.ts';
import { type TestHost, relay } from './hosts.ts';
import { signedRotation } from './rotations.ts';
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

/** The sum of one sender's items at the target. */
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

/** A notice waits for `host`: one of its items expired at a host that is gone since. */
export function noticed(host: TestHost, seq: number, wire: string = 'notice'): ItemsExpired {
  const expiresAtMs = NOON_MS + retentionMs(DEFAULT_LIMITS);
  const itemId = `expired:m0:${relay.key}` as ItemId;
  return {
    type: 'ItemsExpired',
    targetPubkey: relay.key,
    relayPubkey: relay.key,
    items: [],
    account: null,
    dedupUntilMs: 0,
    notices: [{ targetPubkey: host.key, seq, itemId, wire, wireHash: sha256Hex(wire), expiresAtMs }],
    atMs: NOON_MS,
  };
}

/** `from` went on as `to`, which was not enrolled, with an empty queue. */
export function rotated(from: TestHost, to: TestHost, changes: Partial<KeyRotated> = {}): KeyRotated {
  const atMs = changes.atMs ?? NOON_MS;
  return {
    type: 'KeyRotated',
    oldPubkey: from.key,
    newPubkey: to.key,
    iatMs: NOON_MS,
    hostName: from.name,
    ownerFp: '',
    account: null,
    org: null,
    clientId: null,
    authorizedBy: 'host-key',
    enrolledAtMs: atMs,
    validUntilMs: null,
    seen: false,
    lineage: [
      { hostPubkey: from.key, retiredAtMs: atMs },
      { hostPubkey: to.key, retiredAtMs: null },
    ],
    movesSenders: false,
    firstSeq: atMs,
    moved: 0,
    items: 0,
    bytes: 0,
    charges: [],
    signed: signedRotation(from, to),
    atMs,
    ...changes,
  };
}

export function moved(
  from: TestHost,
  to: TestHost,
  fromSeqs: number[],
  firstSeq: number,
  changes: Partial<ItemsMoved> = {},
): ItemsMoved {
  const [oldPubkey, newPubkey] = [from.key, to.key];
  return { type: 'ItemsMoved', oldPubkey, newPubkey, fromSeqs, firstSeq, left: 0, atMs: NOON_MS, ...changes };
}

export function revoked(host: TestHost, changes: Partial<HostRevoked> = {}): HostRevoked {
  return { type: 'HostRevoked', hostPubkey: host.key, cause: 'operator', atMs: NOON_MS, ...changes };
}

/** The hosts that the given selectors mean are kept out from noon on. */
export function denied(changes: Partial<DenyEntryAdded>): DenyEntryAdded {
  const nobody = { hostFp: null, clientId: null, account: null, org: null };
  const untilMs = NOON_MS + DENY_KEPT_MS;
  return { type: 'DenyEntryAdded', ...nobody, reason: 'credential revoked', untilMs, atMs: NOON_MS, ...changes };
}

export function invited(inviteHash: Sha256Hex, expiresAtMs: number): InviteIssued {
  return { type: 'InviteIssued', inviteHash, label: '', expiresAtMs, atMs: NOON_MS };
}
