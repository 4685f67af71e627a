/** fast-check arbitraries of the relay's values: every event type and every row, with the corners of their ranges. */
import * as fc from 'fast-check';
import type { Sha256Hex } from '../protocol/encodings.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom, type HostName, type ItemId } from '../protocol/names.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../protocol/items.ts';
import { type PublicKey, publicKeyFromBytes } from '../protocol/public-key.ts';
import type { EpochReason, RelayEvent } from '../relay/core/event.ts';
import { type AuthorityName, type TableName, type Tables, rowKey } from '../relay/core/rows.ts';

const REASONS: readonly EpochReason[] = [
  'reset',
  'restore',
  'stale-heartbeat',
  'future-heartbeat',
  'position-missing',
  'position-ahead',
  'position-differs',
  'item-lost',
  'log-contradicted',
];
const AUTHORITIES: readonly AuthorityName[] = ['host-key', 'account-token'];

/** A sequence number, time or count: small, around 2^32, or as large as a number can be. */
export const wholeNumber: fc.Arbitrary<number> = fc.oneof(
  fc.nat(300),
  fc.integer({ min: 2 ** 32 - 2, max: 2 ** 32 + 2 }),
  fc.maxSafeNat(),
  fc.constant(Number.MAX_SAFE_INTEGER),
);
export const publicKey: fc.Arbitrary<PublicKey> = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => publicKeyFromBytes(bytes));
const sha256 = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex') as Sha256Hex);
const itemId = fc.string({ minLength: 1, maxLength: 320 }).map((text) => text as ItemId);
const hostName = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]$/).map((text) => text as HostName);
const text = fc.string({ maxLength: 64 });
/** Accounts come out of tokens: any text at all. */
const account = fc.option(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }));
const epoch = fc.nat(255).map((number) => epochFromRandom(Buffer.alloc(EPOCH_RANDOM_BYTES, number)));
const authorizedBy = fc.constantFrom(...AUTHORITIES);
/** The members that an event which enrols a key and the row of it share. */
const enrolmentRecord = {
  hostName,
  ownerFp: text,
  account,
  org: account,
  clientId: account,
  authorizedBy,
  enrolledAtMs: wholeNumber,
  validUntilMs: fc.option(wholeNumber),
};

const acceptedTarget = fc.record({
  hostPubkey: publicKey,
  seq: wholeNumber,
  wireHash: sha256,
  bytes: wholeNumber,
});
const signedRotation = fc.record({ record: text, oldSig: text, newSig: text });
const lineageMember = fc.record({ hostPubkey: publicKey, retiredAtMs: fc.option(wholeNumber) });
const restoreRow = fc.record({
  atMs: wholeNumber,
  epoch,
  backupEpoch: epoch,
  backupLsn: wholeNumber,
  backupCreatedAtMs: wholeNumber,
  replacedEpoch: fc.option(epoch),
  replacedLsn: fc.option(wholeNumber),
});
const denySelectors = fc.record({ hostFp: fc.option(sha256), clientId: account, account, org: account });
const releasedShare = fc.record({ senderPubkey: publicKey, items: wholeNumber, bytes: wholeNumber });

const datedList = { hostPubkey: publicKey, iatMs: wholeNumber };

/** An arbitrary of an event whose time is `atMs`, which is drawn last. */
function event<T extends RelayEvent['type'], Members>(
  type: T,
  members: { [Name in keyof Members]: fc.Arbitrary<Members[Name]> },
): fc.Arbitrary<Members & { type: T; atMs: number }> {
  const record = { type: fc.constant(type), ...members, atMs: wholeNumber };
  return fc.record(record) as unknown as fc.Arbitrary<Members & { type: T; atMs: number }>;
}

/** An arbitrary of each event type, so that no type can be forgotten. */
export const eventOfType: { [T in RelayEvent['type']]: fc.Arbitrary<RelayEvent & { type: T }> } = {
  RelayInitialised: event('RelayInitialised', { relayPubkey: publicKey, epoch, schemaVersion: wholeNumber }),
  EpochRotated: event('EpochRotated', { epoch, reason: fc.constantFrom(...REASONS) }),
  RelayRestored: fc
    .tuple(restoreRow, fc.array(restoreRow, { maxLength: 4 }))
    .map(([row, earlier]) => Object.assign({ type: 'RelayRestored' as const, earlier }, row)),
  SchemaMigrated: event('SchemaMigrated', { schemaVersion: wholeNumber }),
  CheckpointTaken: event('CheckpointTaken', {
    throughLsn: wholeNumber,
    rows: wholeNumber,
    rowsHash: sha256,
    dueHash: sha256,
  }),
  HostEnrolled: event('HostEnrolled', {
    hostPubkey: publicKey,
    ...enrolmentRecord,
    formerAccount: account,
    chargedItems: wholeNumber,
    chargedBytes: wholeNumber,
  }),
  HostSeen: event('HostSeen', { hostPubkey: publicKey }),
  V2HopMade: event('V2HopMade', { hostPubkey: publicKey }),
  EnrolmentLapsed: event('EnrolmentLapsed', {
    hostPubkey: publicKey,
    account,
    releasedItems: wholeNumber,
    releasedBytes: wholeNumber,
  }),
  HostRevoked: event('HostRevoked', {
    hostPubkey: publicKey,
    cause: fc.constantFrom('operator' as const, 'denied' as const, 'carried' as const),
  }),
  KeyRotated: event('KeyRotated', {
    oldPubkey: publicKey,
    newPubkey: publicKey,
    iatMs: wholeNumber,
    ...enrolmentRecord,
    seen: fc.boolean(),
    lineage: fc.array(lineageMember, { maxLength: 5 }),
    movesSenders: fc.boolean(),
    firstSeq: wholeNumber,
    moved: wholeNumber,
    items: wholeNumber,
    bytes: wholeNumber,
    charges: fc.array(fc.record({ account: text, items: fc.integer(), bytes: fc.maxSafeInteger() }), { maxLength: 4 }),
    signed: fc.option(signedRotation),
  }),
  ItemsMoved: event('ItemsMoved', {
    oldPubkey: publicKey,
    newPubkey: publicKey,
    fromSeqs: fc.array(wholeNumber, { maxLength: 5 }),
    firstSeq: wholeNumber,
    left: wholeNumber,
  }),
  DenyEntryAdded: denySelectors.chain((selectors) =>
    fc.record({
      type: fc.constant('DenyEntryAdded' as const),
      hostFp: fc.constant(selectors.hostFp),
      clientId: fc.constant(selectors.clientId),
      account: fc.constant(selectors.account),
      org: fc.constant(selectors.org),
      reason: text,
      untilMs: wholeNumber,
      atMs: wholeNumber,
    }),
  ),
  InviteIssued: event('InviteIssued', { inviteHash: sha256, label: text, expiresAtMs: wholeNumber }),
  InviteSpent: event('InviteSpent', { inviteHash: sha256, hostPubkey: publicKey }),
  AdmissionsLapsed: event('AdmissionsLapsed', {
    denied: fc.array(denySelectors, { maxLength: 4 }),
    invites: fc.array(sha256, { maxLength: 4 }),
  }),
  SendersPublished: event('SendersPublished', {
    hostPubkey: publicKey,
    senders: fc.array(publicKey, { maxLength: 5 }),
    iatMs: wholeNumber,
  }),
  SendersRenewed: event('SendersRenewed', datedList),
  SendersDated: event('SendersDated', datedList),
  EncKeyPublished: event('EncKeyPublished', {
    hostPubkey: publicKey,
    encPub: text,
    advertisedAtMs: wholeNumber,
    sig: text,
  }),
  ItemAccepted: fc.record({
    type: fc.constant('ItemAccepted' as const),
    senderPubkey: publicKey,
    itemId,
    kind: fc.constantFrom(...PUSHED_KINDS),
    targets: fc.array(acceptedTarget, { minLength: 1, maxLength: 5 }),
    acceptedAtMs: wholeNumber,
    expiresAtMs: wholeNumber,
    dedupUntilMs: wholeNumber,
  }),
  ItemsAcked: event('ItemsAcked', {
    targetPubkey: publicKey,
    through: wholeNumber,
    items: wholeNumber,
    bytes: wholeNumber,
    notices: wholeNumber,
    account,
    shares: fc.array(releasedShare, { maxLength: 5 }),
  }),
  ItemsExpired: event('ItemsExpired', {
    targetPubkey: publicKey,
    relayPubkey: publicKey,
    items: fc.array(
      fc.record({
        seq: wholeNumber,
        kind: fc.constantFrom(...ITEM_KINDS),
        itemId,
        senderPubkey: publicKey,
        pushedTo: publicKey,
        bytes: wholeNumber,
      }),
      { maxLength: 5 },
    ),
    account,
    dedupUntilMs: wholeNumber,
    notices: fc.array(
      fc.record({
        targetPubkey: publicKey,
        seq: wholeNumber,
        itemId,
        wire: text,
        wireHash: sha256,
        expiresAtMs: wholeNumber,
      }),
      { maxLength: 5 },
    ),
  }),
  DedupExtended: event('DedupExtended', {
    targetPubkey: publicKey,
    items: fc.array(fc.record({ itemId, senderPubkey: publicKey, pushedTo: publicKey }), { maxLength: 4 }),
    dedupUntilMs: wholeNumber,
  }),
  DedupPurged: event('DedupPurged', {
    beforeMs: wholeNumber,
    senders: fc.array(fc.record({ senderPubkey: publicKey, rows: wholeNumber }), { maxLength: 5 }),
  }),
  ItemLost: event('ItemLost', {
    targetPubkey: publicKey,
    seq: wholeNumber,
    kind: fc.constantFrom(...ITEM_KINDS),
    senderPubkey: publicKey,
    itemId,
    pushedTo: publicKey,
    bytes: wholeNumber,
    account,
    reason: fc.constantFrom('missing' as const, 'corrupt' as const),
  }),
  SeqFloorsRaised: event('SeqFloorsRaised', {
    floors: fc.array(fc.record({ targetPubkey: publicKey, headSeq: wholeNumber }), { maxLength: 5 }),
  }),
};

export const anyEvent: fc.Arbitrary<RelayEvent> = fc.oneof(...Object.values<fc.Arbitrary<RelayEvent>>(eventOfType));

const usage = fc.record({ items: wholeNumber, bytes: wholeNumber });

export interface KeyedRow<T extends TableName = TableName> {
  key: string;
  row: Tables[T];
}

/** An arbitrary of each table's row, with the textual key that belongs to it. */
export const keyedRow: { [T in keyof Tables]: fc.Arbitrary<KeyedRow<T>> } = {
  relay: fc
    .record({
      relayPubkey: publicKey,
      epoch,
      schemaVersion: wholeNumber,
      initialisedAtMs: wholeNumber,
      dedupPurgedMs: wholeNumber,
    })
    .map((row) => ({ key: rowKey.relay, row })),
  heartbeat: fc.record({ atMs: wholeNumber }).map((row) => ({ key: rowKey.heartbeat, row })),
  restore: restoreRow.map((row) => ({ key: rowKey.restore(row), row })),
  enrolment: fc
    .record({
      hostPubkey: publicKey,
      ...enrolmentRecord,
      revokedAtMs: fc.option(wholeNumber),
      rotatedTo: fc.option(publicKey),
      seen: fc.boolean(),
    })
    // Without a draw of their own, so that the rest is as when it was recorded.
    .map(({ enrolledAtMs, ...row }) => ({
      key: row.hostPubkey,
      row: {
        ...row,
        enrolledAtMs,
        madeV2Hop: enrolledAtMs % 2 === 1,
        invited: enrolledAtMs % 3 === 1,
        sendersDatedMs: enrolledAtMs % 5 === 1 ? enrolledAtMs : null,
      },
    })),
  lineage: fc
    .record({ members: fc.array(lineageMember, { minLength: 1, maxLength: 5 }) })
    .map((row) => ({ key: row.members.at(-1)?.hostPubkey ?? '', row })),
  senders: fc
    .tuple(publicKey, fc.record({ senders: fc.array(publicKey, { maxLength: 5 }), iatMs: wholeNumber }))
    .map(([key, row]) => ({ key, row })),
  encKey: fc
    .tuple(publicKey, fc.record({ encPub: text, atMs: wholeNumber, sig: text }))
    .map(([key, row]) => ({ key, row })),
  rotation: fc.tuple(publicKey, signedRotation).map(([key, row]) => ({ key, row })),
  deny: fc
    .tuple(denySelectors, text, wholeNumber)
    .map(([selectors, reason, untilMs]) => ({ key: rowKey.deny(selectors), row: { ...selectors, reason, untilMs } })),
  invite: fc
    .tuple(sha256, fc.record({ label: text, issuedAtMs: wholeNumber, expiresAtMs: wholeNumber }))
    .map(([key, row]) => ({ key, row })),
  target: fc
    .tuple(
      publicKey,
      fc.record({ headSeq: wholeNumber, ackedThrough: wholeNumber, queueItems: wholeNumber, queueBytes: wholeNumber }),
    )
    .map(([key, row]) => ({ key, row })),
  share: fc
    .tuple(publicKey, publicKey, usage)
    .map(([target, sender, row]) => ({ key: rowKey.share(target, sender), row })),
  account: fc.tuple(fc.string({ minLength: 1 }), usage).map(([key, row]) => ({ key, row })),
  sender: fc.tuple(publicKey, fc.record({ dedupRows: wholeNumber })).map(([key, row]) => ({ key, row })),
  move: fc
    .tuple(publicKey, fc.record({ newPubkey: publicKey, nextSeq: wholeNumber, left: wholeNumber }))
    .map(([key, row]) => ({ key, row })),
  queue: fc
    .tuple(
      fc.record({
        targetPubkey: publicKey,
        seq: wholeNumber,
        kind: fc.constantFrom(...ITEM_KINDS),
        itemId,
        senderPubkey: publicKey,
        wireHash: sha256,
        bytes: wholeNumber,
        acceptedAtMs: wholeNumber,
        expiresAtMs: wholeNumber,
      }),
      fc.option(fc.record({ payloadTarget: publicKey, payloadSeq: wholeNumber })),
    )
    .map(([row, moved]) => {
      const payload = moved ?? { payloadTarget: row.targetPubkey, payloadSeq: row.seq };
      return { key: rowKey.queue(row.targetPubkey, row.seq), row: { ...row, ...payload } };
    }),
  dedup: fc
    .tuple(
      fc.record({
        senderPubkey: publicKey,
        itemId,
        targetPubkey: publicKey,
        wireHash: sha256,
        seq: wholeNumber,
        bytes: wholeNumber,
        acceptedAtMs: wholeNumber,
        dedupUntilMs: wholeNumber,
        expired: fc.boolean(),
        lsn: wholeNumber,
      }),
      fc.option(fc.record({ queuedTarget: publicKey, queuedSeq: wholeNumber })),
    )
    .map(([row, moved]) => {
      const queued = moved ?? { queuedTarget: row.targetPubkey, queuedSeq: row.seq };
      return { key: rowKey.dedup(row.senderPubkey, row.targetPubkey, row.itemId), row: { ...row, ...queued } };
    }),
};
