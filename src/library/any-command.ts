/** fast-check arbitraries of commands: a few hosts that enrol, write to each other, rotate keys and are kept out. */
import * as fc from 'fast-check';
import { sha256Hex } from '../protocol/encodings.ts';
import { canonicalJson, hostRotation, signDocument } from '../protocol/documents.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom, type HostName, type ItemId } from '../protocol/names.ts';
import type {
  AckItems,
  DenyHosts,
  EnrolHost,
  IssueInvite,
  NoteHostSeen,
  PublishSenders,
  PushItem,
  RevokeHost,
  RotateKey,
} from '../relay/core/command.ts';
import { hostFingerprint } from '../protocol/public-key.ts';

const ACCOUNTS = ['acme', 'umbrella'] as const;
const INVITES = ['one', 'two', 'three'].map((token) => sha256Hex(token));
const DAY_MS = 86_400_000;
const ITEM_IDS = 5;

/** The commands of hosts and of the operator. Those of timers are made of what is due (`MemoryRelay`). */
export type AskedCommand =
  | PushItem
  | AckItems
  | EnrolHost
  | RotateKey
  | RevokeHost
  | DenyHosts
  | IssueInvite
  | PublishSenders
  | NoteHostSeen;

export interface AnyCommandOptions {
  /** The hosts, by their keys: about eight, so that they meet. The first two share an account where they prove one. */
  hosts: readonly Signer[];
  /** Milliseconds since the Unix epoch; commands come at this time or within 40 days after it. */
  fromMs: number;
}

/** Commands whose answers differ: hosts, ids and sizes are few, so that conflicts and limits are met. */
export function anyCommand({ hosts, fromMs }: AnyCommandOptions): fc.Arbitrary<AskedCommand> {
  const host = fc.constantFrom(...hosts);
  const nowMs = fc.oneof(
    fc.constant(fromMs),
    fc.constantFrom(0, 1, 7 * DAY_MS, 14 * DAY_MS - 1, 14 * DAY_MS, 35 * DAY_MS).map((ms) => fromMs + ms),
    fc.nat(40 * DAY_MS).map((ms) => fromMs + ms),
  );
  return fc.oneof(
    { weight: 40, arbitrary: anyPush(hosts, nowMs) },
    { weight: 8, arbitrary: anyEnrolment(hosts, nowMs) },
    {
      weight: 5,
      arbitrary: fc.record({
        type: fc.constant('AckItems' as const),
        targetPubkey: host.map(({ publicKey }) => publicKey),
        epoch: fc.constant(FIRST_EPOCH),
        through: fc.oneof(fc.constant(0), nowMs, fc.maxSafeNat()),
        nowMs,
      }),
    },
    { weight: 4, arbitrary: anyRotation(hosts, nowMs) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('RevokeHost' as const),
        hostPubkey: host.map(({ publicKey }) => publicKey),
        cause: fc.constant('operator' as const),
        nowMs,
      }),
    },
    { weight: 1, arbitrary: anyDenial(hosts, nowMs) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('IssueInvite' as const),
        inviteHash: fc.constantFrom(...INVITES),
        label: fc.constant(''),
        expiresAtMs: nowMs.map((ms) => ms + DAY_MS),
        nowMs,
      }),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({
          host,
          senders: fc.oneof(
            { weight: 3, arbitrary: fc.constant<Signer[]>([...hosts]) },
            { weight: 1, arbitrary: fc.subarray<Signer>([...hosts]) },
          ),
          nowMs,
          agoMs: fc.integer({ min: -300_002, max: 2 }),
        })
        .map(({ host: { publicKey }, senders, nowMs: atMs, agoMs }) => ({
          type: 'PublishSenders' as const,
          callerPubkey: publicKey,
          hostPubkey: publicKey,
          senders: senders.map((sender) => sender.publicKey),
          iatMs: atMs - agoMs,
          nowMs: atMs,
        })),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('NoteHostSeen' as const),
        hostPubkey: host.map(({ publicKey }) => publicKey),
        hopVersion: fc.constantFrom(1 as const, 2 as const),
        nowMs,
      }),
    },
  );
}

/** A history of any commands; the first three hosts enrol before it, where invites are not asked for. */
export function anyHistory(options: AnyCommandOptions): fc.Arbitrary<AskedCommand[]> {
  const first = options.hosts.slice(0, 3).map((host, at) => enrolmentOf(host, `own${at}`, options.fromMs));
  const history = fc.array(anyCommand(options), { minLength: 1, maxLength: 80, size: 'max' });
  return history.map((commands) => [...first, ...commands]);
}

/** The epoch of a `MemoryRelay` that was given none. */
export const FIRST_EPOCH = epochFromRandom(Buffer.alloc(EPOCH_RANDOM_BYTES, 1));
const FRESH_EPOCH = epochFromRandom(Buffer.alloc(EPOCH_RANDOM_BYTES, 2));

function anyPush(hosts: readonly Signer[], nowMs: fc.Arbitrary<number>): fc.Arbitrary<PushItem> {
  return fc
    .record({
      sender: fc.constantFrom(...hosts.slice(0, 3)),
      id: fc.nat(ITEM_IDS - 1),
      // Mostly those that write to each other; seldom one too many, or one twice.
      targets: fc.oneof(
        {
          weight: 12,
          arbitrary: fc.uniqueArray(fc.constantFrom(...hosts.slice(0, 3)), { minLength: 1, maxLength: 3 }),
        },
        { weight: 1, arbitrary: fc.array(fc.constantFrom(...hosts), { minLength: 1, maxLength: 4, size: 'max' }) },
      ),
      bytes: fc.oneof({ weight: 9, arbitrary: fc.constant(4) }, { weight: 1, arbitrary: fc.nat(13) }),
      wireVerdict: fc.oneof(
        { weight: 30, arbitrary: fc.constant('ok' as const) },
        { weight: 1, arbitrary: fc.constantFrom('not sealed' as const, 'id mismatch' as const) },
      ),
      nowMs,
    })
    .map(({ sender, id, targets, bytes, wireVerdict, nowMs: atMs }) => {
      const wire = Buffer.alloc(bytes, `m${id}`);
      return {
        type: 'PushItem',
        senderPubkey: sender.publicKey,
        item: {
          kind: 'envelope',
          itemId: `m${id}` as ItemId,
          targets: targets.map(({ publicKey }) => ({
            hostPubkey: publicKey,
            wire,
            wireHash: sha256Hex(wire),
            bytes,
          })),
        },
        isKnownById: false,
        wireVerdict,
        freshEpoch: FRESH_EPOCH,
        nowMs: atMs,
      };
    });
}

function enrolmentOf({ publicKey }: Signer, name: string, nowMs: number): EnrolHost {
  return {
    type: 'EnrolHost',
    hostPubkey: publicKey,
    hostName: name as HostName,
    ownerFp: '',
    authorizedBy: 'host-key',
    answer: { ok: true },
    inviteHash: INVITES[0],
    nowMs,
  };
}

function anyEnrolment(hosts: readonly Signer[], nowMs: fc.Arbitrary<number>): fc.Arbitrary<EnrolHost> {
  return fc
    .record({
      at: fc.oneof(
        { weight: 3, arbitrary: fc.nat(Math.min(2, hosts.length - 1)) },
        { weight: 1, arbitrary: fc.nat(hosts.length - 1) },
      ),
      name: fc.constantFrom('Same', 'SAME', 'own', 'own', 'own'),
      account: fc.option(fc.constantFrom(...ACCOUNTS)),
      ok: fc.nat(9).map((number) => number > 0),
      inviteHash: fc.constantFrom(...INVITES),
      nowMs,
    })
    .map(({ at, name, account, ok, inviteHash, nowMs: atMs }) => ({
      ...enrolmentOf(hosts[at] as Signer, name === 'own' ? `own${at}` : name, atMs),
      authorizedBy: account === null ? 'host-key' : 'account-token',
      answer: { ok, ...(account !== null && { account, org: `org-${account}`, clientId: `client-${at % 2}` }) },
      inviteHash,
    }));
}

function anyRotation(hosts: readonly Signer[], nowMs: fc.Arbitrary<number>): fc.Arbitrary<RotateKey> {
  const host = fc.constantFrom(...hosts);
  return fc
    .record({ from: fc.constantFrom(...hosts.slice(0, 3)), to: host, nowMs })
    .map(({ from, to, nowMs: atMs }) => {
      const rec = hostRotation({ old_pubkey: from.publicKey, new_pubkey: to.publicKey, iat: atMs });
      const signed = { record: canonicalJson(rec), oldSig: signDocument(from, rec), newSig: signDocument(to, rec) };
      return {
        type: 'RotateKey',
        oldPubkey: from.publicKey,
        newPubkey: to.publicKey,
        iatMs: atMs,
        signed,
        nowMs: atMs,
      };
    });
}

function anyDenial(hosts: readonly Signer[], nowMs: fc.Arbitrary<number>): fc.Arbitrary<DenyHosts> {
  const nobody = { hostFp: null, clientId: null, account: null, org: null };
  const one = fc.oneof(
    fc.constantFrom(...hosts).map(({ publicKey }) => ({ ...nobody, hostFp: hostFingerprint(publicKey) })),
    fc.constantFrom('client-0', 'client-1').map((clientId) => ({ ...nobody, clientId })),
    fc.constantFrom(...ACCOUNTS).map((account) => ({ ...nobody, org: `org-${account}` })),
  );
  return fc.record({ selectors: one, nowMs }).map(({ selectors, nowMs: atMs }) => ({
    type: 'DenyHosts',
    ...selectors,
    reason: 'credential revoked',
    nowMs: atMs,
  }));
}
