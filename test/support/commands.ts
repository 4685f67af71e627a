/** Commands as the shell would stamp them, each with the members a test does not care about filled in. */
import { type Sha256Hex, sha256Hex } from '../../src/protocol/encodings.ts';
import type { Epoch, ItemId } from '../../src/protocol/names.ts';
import type { PushedTarget } from '../../src/protocol/items.ts';
import type {
  AckItems,
  DenyHosts,
  EnrolHost,
  ExpireItems,
  ExtendDedup,
  IssueInvite,
  NoteHostSeen,
  PublishEncKey,
  PublishSenders,
  PushItem,
  ReportLostItem,
  RevokeHost,
  RotateEpoch,
  RotateKey,
} from '../../src/relay/core/command.ts';
import { epochNumbered } from './epochs.ts';
import type { TestHost } from './hosts.ts';
import { signedRotation } from './rotations.ts';
import { NOON_MS } from './test-clock.ts';

/** The epoch of stores and rows that the helpers make, until something rotates it. */
export const FIRST_EPOCH: Epoch = epochNumbered(1);

export function wireOf(text: string | Buffer): Buffer {
  return Buffer.from(text as string);
}

/** One target of a push: the host, and its wire bytes. */
export type To = readonly [TestHost, string | Buffer];

export function pushedTargets(targets: readonly To[]): PushedTarget[] {
  return targets.map(([host, text]) => {
    const wire = wireOf(text);
    return { hostPubkey: host.key, wire, wireHash: sha256Hex(wire), bytes: wire.length };
  });
}

/** `from` pushes the envelope `itemId` to `targets`. */
export function pushOf(
  from: TestHost,
  itemId: string,
  targets: readonly To[],
  changes: Partial<PushItem> & { kind?: PushItem['item']['kind'] } = {},
): PushItem {
  const { kind = 'envelope', ...others } = changes;
  return {
    type: 'PushItem',
    senderPubkey: from.key,
    item: { kind, itemId: itemId as ItemId, targets: pushedTargets(targets) },
    isKnownById: false,
    wireVerdict: 'ok',
    freshEpoch: epochNumbered(99),
    nowMs: NOON_MS,
    ...others,
  };
}

export function ackOf(target: TestHost, through: number, changes: Partial<AckItems> = {}): AckItems {
  return { type: 'AckItems', targetPubkey: target.key, epoch: FIRST_EPOCH, through, nowMs: NOON_MS, ...changes };
}

/** `host` publishes whose mail it takes. */
export function sendersOf(
  host: TestHost,
  senders: readonly TestHost[],
  changes: Partial<PublishSenders> = {},
): PublishSenders {
  return {
    type: 'PublishSenders',
    callerPubkey: host.key,
    hostPubkey: host.key,
    senders: senders.map(({ key }) => key),
    iatMs: NOON_MS,
    nowMs: NOON_MS,
    ...changes,
  };
}

/** `host` publishes the key that its mail is to be sealed with. */
export function encKeyOf(host: TestHost, encPub: string, changes: Partial<PublishEncKey> = {}): PublishEncKey {
  const sig = host.signer.sign(Buffer.from(encPub));
  return {
    type: 'PublishEncKey',
    hostPubkey: host.key,
    encPub,
    advertisedAtMs: NOON_MS,
    sig,
    nowMs: NOON_MS,
    ...changes,
  };
}

/** The host of `from` goes on as `to`. */
export function rotateOf(from: TestHost, to: TestHost, changes: Partial<RotateKey> = {}): RotateKey {
  const keys = { oldPubkey: from.key, newPubkey: to.key };
  return { type: 'RotateKey', ...keys, iatMs: NOON_MS, signed: signedRotation(from, to), nowMs: NOON_MS, ...changes };
}

export function revokeOf(host: TestHost, changes: Partial<RevokeHost> = {}): RevokeHost {
  return { type: 'RevokeHost', hostPubkey: host.key, cause: 'operator', nowMs: NOON_MS, ...changes };
}

/** The hosts that the given selectors mean are kept out. */
export function denyOf(changes: Partial<DenyHosts>): DenyHosts {
  const nobody = { hostFp: null, clientId: null, account: null, org: null };
  return { type: 'DenyHosts', ...nobody, reason: 'credential revoked', nowMs: NOON_MS, ...changes };
}

/** The operator lets in the host that brings the token with this hash. */
export function inviteOf(inviteHash: Sha256Hex, changes: Partial<IssueInvite> = {}): IssueInvite {
  return { type: 'IssueInvite', inviteHash, label: '', expiresAtMs: NOON_MS + 86_400_000, nowMs: NOON_MS, ...changes };
}

/**
 * What is known of these items of `target`, which are acked after their time, is kept for the horizon from now
 * on.
 */
export function extendOf(target: TestHost, seqs: number[], nowMs: number): ExtendDedup {
  return { type: 'ExtendDedup', targetPubkey: target.key, seqs, nowMs };
}

/** The sweep gives up these items of `target`. */
export function expireOf(target: TestHost, seqs: number[], nowMs: number): ExpireItems {
  return { type: 'ExpireItems', targetPubkey: target.key, seqs, nowMs };
}

/** `host` enrols by the host-key challenge, proving no account. */
export function enrolOf(host: TestHost, changes: Partial<EnrolHost> = {}): EnrolHost {
  return {
    type: 'EnrolHost',
    hostPubkey: host.key,
    hostName: host.name,
    ownerFp: '',
    authorizedBy: 'host-key',
    answer: { ok: true },
    inviteHash: undefined,
    nowMs: NOON_MS,
    ...changes,
  };
}

/** `host` enrols with an account token. */
export function accountEnrolOf(host: TestHost, account: string, changes: Partial<EnrolHost> = {}): EnrolHost {
  return enrolOf(host, { authorizedBy: 'account-token', answer: { ok: true, account }, ...changes });
}

export function hostSeenOf(host: TestHost, nowMs: number = NOON_MS): NoteHostSeen {
  return { type: 'NoteHostSeen', hostPubkey: host.key, hopVersion: 1, nowMs };
}

export function rotateEpochOf(epoch: Epoch, changes: Partial<RotateEpoch> = {}): RotateEpoch {
  return { type: 'RotateEpoch', epoch, reason: 'reset', nowMs: NOON_MS, ...changes };
}

export function reportLostOf(target: TestHost, seq: number, changes: Partial<ReportLostItem> = {}): ReportLostItem {
  return {
    type: 'ReportLostItem',
    targetPubkey: target.key,
    seq,
    freshEpoch: epochNumbered(98),
    nowMs: NOON_MS,
    ...changes,
  };
}
