/**
 * The log's events about the relay, its hosts and what they publish, as arrays and back.
 *
 * DO NOT CHANGE a tag or the order of its fields: add a version.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { HostName } from '../../protocol/names.ts';
import type { EpochReason, HostRevoked } from '../core/event.ts';
import type { AuthorityName, DenySelectors, RestoreRow } from '../core/rows.ts';
import type { EventCodecs } from './event-codec.ts';
import { hashBytes, hashFrom, keyBytes, keyFrom } from './packing.ts';

type HostEvent =
  | 'RelayInitialised'
  | 'EpochRotated'
  | 'RelayRestored'
  | 'SchemaMigrated'
  | 'CheckpointTaken'
  | 'HostEnrolled'
  | 'HostSeen'
  | 'EnrolmentLapsed'
  | 'HostRevoked'
  | 'KeyRotated'
  | 'DenyEntryAdded'
  | 'InviteIssued'
  | 'InviteSpent'
  | 'AdmissionsLapsed'
  | 'SendersPublished'
  | 'EncKeyPublished';

export const hostEventCodecs: Pick<EventCodecs, HostEvent> = {
  RelayInitialised: {
    tag: 1,
    fields: (event) => [keyBytes(event.relayPubkey), event.epoch, event.schemaVersion, event.atMs],
    event: (fields) => {
      const [relayPubkey, epoch, schemaVersion, atMs] = fields as [unknown, Epoch, number, number];
      return { type: 'RelayInitialised', relayPubkey: keyFrom(relayPubkey), epoch, schemaVersion, atMs };
    },
  },
  EpochRotated: {
    tag: 2,
    fields: (event) => [event.epoch, event.reason, event.atMs],
    event: (fields) => {
      const [epoch, reason, atMs] = fields as [Epoch, EpochReason, number];
      return { type: 'EpochRotated', epoch, reason, atMs };
    },
  },
  RelayRestored: {
    tag: 3,
    fields: (event) => [...restoreFields(event), event.earlier.map(restoreFields)],
    event: (fields) => {
      const earlier = fields[RESTORE_FIELDS] as unknown[][];
      return { type: 'RelayRestored', ...restoreFrom(fields), earlier: earlier.map(restoreFrom) };
    },
  },
  SchemaMigrated: {
    tag: 5,
    fields: (event) => [event.schemaVersion, event.atMs],
    event: (fields) => {
      const [schemaVersion, atMs] = fields as [number, number];
      return { type: 'SchemaMigrated', schemaVersion, atMs };
    },
  },
  CheckpointTaken: {
    tag: 4,
    fields: (event) => [event.throughLsn, event.rows, hashBytes(event.rowsHash), hashBytes(event.dueHash), event.atMs],
    event: (fields) => {
      const [throughLsn, rows, rowsHash, dueHash, atMs] = fields as [number, number, unknown, unknown, number];
      return {
        type: 'CheckpointTaken',
        throughLsn,
        rows,
        rowsHash: hashFrom(rowsHash),
        dueHash: hashFrom(dueHash),
        atMs,
      };
    },
  },
  HostEnrolled: {
    tag: 10,
    fields: (event) => [
      keyBytes(event.hostPubkey),
      event.hostName,
      event.ownerFp,
      event.account,
      event.org,
      event.clientId,
      event.authorizedBy,
      event.enrolledAtMs,
      event.validUntilMs,
      event.formerAccount,
      event.chargedItems,
      event.chargedBytes,
      event.atMs,
    ],
    event: (fields) => {
      const [key, hostName, ownerFp, account, org, clientId, authorizedBy, enrolledAtMs, validUntilMs, ...rest] =
        fields as [
          unknown,
          HostName,
          string,
          string | null,
          string | null,
          string | null,
          AuthorityName,
          number,
          number | null,
          string | null,
          number,
          number,
          number,
        ];
      const [formerAccount, chargedItems, chargedBytes, atMs] = rest;
      return {
        type: 'HostEnrolled',
        hostPubkey: keyFrom(key),
        hostName,
        ownerFp,
        account,
        org,
        clientId,
        authorizedBy,
        enrolledAtMs,
        validUntilMs,
        formerAccount,
        chargedItems,
        chargedBytes,
        atMs,
      };
    },
  },
  HostSeen: {
    tag: 11,
    fields: (event) => [keyBytes(event.hostPubkey), event.atMs],
    event: (fields) => {
      const [key, atMs] = fields as [unknown, number];
      return { type: 'HostSeen', hostPubkey: keyFrom(key), atMs };
    },
  },
  EnrolmentLapsed: {
    tag: 12,
    fields: (event) => [
      keyBytes(event.hostPubkey),
      event.account,
      event.releasedItems,
      event.releasedBytes,
      event.atMs,
    ],
    event: (fields) => {
      const [key, account, releasedItems, releasedBytes, atMs] = fields as [
        unknown,
        string | null,
        number,
        number,
        number,
      ];
      return { type: 'EnrolmentLapsed', hostPubkey: keyFrom(key), account, releasedItems, releasedBytes, atMs };
    },
  },
  HostRevoked: {
    tag: 15,
    fields: (event) => [keyBytes(event.hostPubkey), event.cause, event.atMs],
    event: (fields) => {
      const [key, cause, atMs] = fields as [unknown, HostRevoked['cause'], number];
      return { type: 'HostRevoked', hostPubkey: keyFrom(key), cause, atMs };
    },
  },
  KeyRotated: {
    tag: 16,
    fields: (event) => [
      keyBytes(event.oldPubkey),
      keyBytes(event.newPubkey),
      event.iatMs,
      event.hostName,
      event.ownerFp,
      event.account,
      event.org,
      event.clientId,
      event.authorizedBy,
      event.enrolledAtMs,
      event.validUntilMs,
      event.seen,
      event.lineage.map(({ hostPubkey, retiredAtMs }) => [keyBytes(hostPubkey), retiredAtMs]),
      event.movesSenders,
      event.firstSeq,
      event.moved,
      event.items,
      event.bytes,
      event.charges.map(({ account, items, bytes }) => [account, items, bytes]),
      event.atMs,
    ],
    event: (fields) => {
      const [oldKey, newKey, iatMs, hostName, ownerFp, account, org, clientId, authorizedBy, ...rest] = fields as [
        unknown,
        unknown,
        number,
        HostName,
        string,
        string | null,
        string | null,
        string | null,
        AuthorityName,
        number,
        number | null,
        boolean,
        [unknown, number | null][],
        boolean,
        number,
        number,
        number,
        number,
        [string, number, number][],
        number,
      ];
      const [enrolledAtMs, validUntilMs, seen, lineage, movesSenders, firstSeq, moved, items, bytes, charges, atMs] =
        rest;
      return {
        type: 'KeyRotated',
        oldPubkey: keyFrom(oldKey),
        newPubkey: keyFrom(newKey),
        iatMs,
        hostName,
        ownerFp,
        account,
        org,
        clientId,
        authorizedBy,
        enrolledAtMs,
        validUntilMs,
        seen,
        lineage: lineage.map(([key, retiredAtMs]) => ({ hostPubkey: keyFrom(key), retiredAtMs })),
        movesSenders,
        firstSeq,
        moved,
        items,
        bytes,
        charges: charges.map((charge) => ({ account: charge[0], items: charge[1], bytes: charge[2] })),
        atMs,
      };
    },
  },
  DenyEntryAdded: {
    tag: 17,
    fields: (event) => [...selectorFields(event), event.reason, event.untilMs, event.atMs],
    event: (fields) => {
      const [reason, untilMs, atMs] = fields.slice(4) as [string, number, number];
      return { type: 'DenyEntryAdded', ...selectorsFrom(fields), reason, untilMs, atMs };
    },
  },
  InviteIssued: {
    tag: 18,
    fields: (event) => [hashBytes(event.inviteHash), event.label, event.expiresAtMs, event.atMs],
    event: (fields) => {
      const [hash, label, expiresAtMs, atMs] = fields as [unknown, string, number, number];
      return { type: 'InviteIssued', inviteHash: hashFrom(hash), label, expiresAtMs, atMs };
    },
  },
  InviteSpent: {
    tag: 19,
    fields: (event) => [hashBytes(event.inviteHash), keyBytes(event.hostPubkey), event.atMs],
    event: (fields) => {
      const [hash, key, atMs] = fields as [unknown, unknown, number];
      return { type: 'InviteSpent', inviteHash: hashFrom(hash), hostPubkey: keyFrom(key), atMs };
    },
  },
  AdmissionsLapsed: {
    tag: 30,
    fields: (event) => [event.denied.map(selectorFields), event.invites.map(hashBytes), event.atMs],
    event: (fields) => {
      const [denied, invites, atMs] = fields as [unknown[][], unknown[], number];
      return { type: 'AdmissionsLapsed', denied: denied.map(selectorsFrom), invites: invites.map(hashFrom), atMs };
    },
  },
  SendersPublished: {
    tag: 13,
    fields: (event) => [keyBytes(event.hostPubkey), event.senders.map(keyBytes), event.iatMs, event.atMs],
    event: (fields) => {
      const [key, senders, iatMs, atMs] = fields as [unknown, unknown[], number, number];
      return { type: 'SendersPublished', hostPubkey: keyFrom(key), senders: senders.map(keyFrom), iatMs, atMs };
    },
  },
  EncKeyPublished: {
    tag: 14,
    fields: (event) => [keyBytes(event.hostPubkey), event.encPub, event.advertisedAtMs, event.sig, event.atMs],
    event: (fields) => {
      const [key, encPub, advertisedAtMs, sig, atMs] = fields as [unknown, string, number, string, number];
      return { type: 'EncKeyPublished', hostPubkey: keyFrom(key), encPub, advertisedAtMs, sig, atMs };
    },
  },
};

const RESTORE_FIELDS = 7;

function restoreFields(row: RestoreRow): unknown[] {
  const { epoch, backupEpoch, backupLsn, backupCreatedAtMs, replacedEpoch, replacedLsn, atMs } = row;
  return [epoch, backupEpoch, backupLsn, backupCreatedAtMs, replacedEpoch, replacedLsn, atMs];
}

function restoreFrom(fields: unknown[]): RestoreRow {
  const [epoch, backupEpoch, backupLsn, backupCreatedAtMs, replacedEpoch, replacedLsn, atMs] = fields as [
    Epoch,
    Epoch,
    number,
    number,
    Epoch | null,
    number | null,
    number,
  ];
  return { epoch, backupEpoch, backupLsn, backupCreatedAtMs, replacedEpoch, replacedLsn, atMs };
}

function selectorFields({ hostFp, clientId, account, org }: DenySelectors): unknown[] {
  return [hostFp && hashBytes(hostFp), clientId, account, org];
}

function selectorsFrom([hostFp, clientId, account, org]: unknown[]): DenySelectors {
  return {
    hostFp: hostFp === null ? null : hashFrom(hostFp),
    clientId: clientId as string | null,
    account: account as string | null,
    org: org as string | null,
  };
}
