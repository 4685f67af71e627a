/**
 * Log records, to the byte:
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the LSN (u64) followed by the body, u32
 *   5..    body: a MessagePack array of the event's tag, its version and its fields
 *
 * Numbers are big-endian. The checksum is our own because LevelDB's recovery passes over damage in silence, and it
 * covers the LSN so that no record is taken for another. The bytes as stored are also a Merkle leaf (RFC 6962).
 * DO NOT CHANGE a tag or the order of its fields: add a version.
 */
import { crc32 } from 'node:zlib';
import type { Epoch } from '../../protocol/epoch.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';
import type { HostName, ItemId } from '../../protocol/names.ts';
import { assertNever } from '../core/decision.ts';
import type { EpochReason, HostRevoked, LogEntry, RelayEvent } from '../core/event.ts';
import type { AuthorityName, DenySelectors } from '../core/rows.ts';
import { hashBytes, hashFrom, keyBytes, keyFrom, pack, unpackArray } from './packing.ts';

const FORMAT = 1;
const HEADER_BYTES = 5;
const VERSION = 1;

/** DO NOT CHANGE: persisted tags. */
const TAG = {
  RelayInitialised: 1,
  EpochRotated: 2,
  HostEnrolled: 10,
  HostSeen: 11,
  EnrolmentLapsed: 12,
  SendersPublished: 13,
  EncKeyPublished: 14,
  HostRevoked: 15,
  KeyRotated: 16,
  DenyEntryAdded: 17,
  InviteIssued: 18,
  InviteSpent: 19,
  ItemAccepted: 20,
  ItemsAcked: 21,
  ItemsExpired: 22,
  ItemLost: 23,
  DedupPurged: 24,
  ItemsMoved: 25,
  AdmissionsLapsed: 30,
} as const satisfies Record<RelayEvent['type'], number>;

/** Thrown for bytes that are no record at this LSN: altered, moved, or of an unknown format. */
export class DamagedRecord extends Error {}

export function encodeRecord({ lsn, event }: LogEntry): Buffer {
  const body = pack([TAG[event.type], VERSION, ...fieldsOf(event)]);
  const record = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  record[0] = FORMAT;
  record.writeUInt32BE(checksum(lsn, body), 1);
  body.copy(record, HEADER_BYTES);
  return record;
}

/** Whether the bytes are what was written at `lsn`; throws `DamagedRecord` otherwise. */
export function checkRecord(lsn: number, record: Buffer): void {
  if (record.length <= HEADER_BYTES || record[0] !== FORMAT)
    throw new DamagedRecord(`log record ${lsn} has no known format`);
  if (record.readUInt32BE(1) !== checksum(lsn, record.subarray(HEADER_BYTES))) {
    throw new DamagedRecord(`log record ${lsn} does not match its checksum`);
  }
}

/** Throws `DamagedRecord`. */
export function decodeRecord(lsn: number, record: Buffer): LogEntry {
  checkRecord(lsn, record);
  const [tag, version, ...fields] = unpackArray(record.subarray(HEADER_BYTES));
  if (version !== VERSION) throw new DamagedRecord(`log record ${lsn} is of a newer version`);
  return { lsn, event: eventOf(tag as number, fields, lsn) };
}

function checksum(lsn: number, body: Buffer): number {
  const number = Buffer.allocUnsafe(8);
  number.writeBigUInt64BE(BigInt(lsn));
  return crc32(body, crc32(number));
}

function fieldsOf(event: RelayEvent): unknown[] {
  switch (event.type) {
    case 'RelayInitialised':
      return [keyBytes(event.relayPubkey), event.epoch, event.schemaVersion, event.atMs];
    case 'EpochRotated':
      return [event.epoch, event.reason, event.atMs];
    case 'HostEnrolled':
      return [
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
      ];
    case 'HostSeen':
      return [keyBytes(event.hostPubkey), event.atMs];
    case 'EnrolmentLapsed':
      return [keyBytes(event.hostPubkey), event.account, event.releasedItems, event.releasedBytes, event.atMs];
    case 'HostRevoked':
      return [keyBytes(event.hostPubkey), event.cause, event.atMs];
    case 'KeyRotated':
      return [
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
      ];
    case 'ItemsMoved':
      return [
        keyBytes(event.oldPubkey),
        keyBytes(event.newPubkey),
        event.fromSeqs,
        event.firstSeq,
        event.left,
        event.atMs,
      ];
    case 'DenyEntryAdded':
      return [...selectorFields(event), event.reason, event.untilMs, event.atMs];
    case 'InviteIssued':
      return [hashBytes(event.inviteHash), event.label, event.expiresAtMs, event.atMs];
    case 'InviteSpent':
      return [hashBytes(event.inviteHash), keyBytes(event.hostPubkey), event.atMs];
    case 'AdmissionsLapsed':
      return [event.denied.map(selectorFields), event.invites.map(hashBytes), event.atMs];
    case 'SendersPublished':
      return [keyBytes(event.hostPubkey), event.senders.map(keyBytes), event.iatMs, event.atMs];
    case 'EncKeyPublished':
      return [keyBytes(event.hostPubkey), event.encPub, event.advertisedAtMs, event.sig, event.atMs];
    case 'ItemAccepted':
      return [
        keyBytes(event.senderPubkey),
        event.itemId,
        PUSHED_KINDS.indexOf(event.kind),
        event.targets.map((target) => [
          keyBytes(target.hostPubkey),
          target.seq,
          hashBytes(target.wireHash),
          target.bytes,
          target.account,
        ]),
        event.acceptedAtMs,
        event.expiresAtMs,
        event.dedupUntilMs,
      ];
    case 'ItemsAcked':
      return [
        keyBytes(event.targetPubkey),
        event.through,
        event.items,
        event.bytes,
        event.notices,
        event.account,
        event.shares.map((share) => [keyBytes(share.senderPubkey), share.items, share.bytes]),
        event.atMs,
      ];
    case 'ItemsExpired':
      return [
        keyBytes(event.targetPubkey),
        keyBytes(event.relayPubkey),
        event.items.map((item) => [
          item.seq,
          ITEM_KINDS.indexOf(item.kind),
          item.itemId,
          keyBytes(item.senderPubkey),
          keyBytes(item.pushedTo),
          item.bytes,
        ]),
        event.account,
        event.dedupUntilMs,
        event.notices.map((notice) => [
          keyBytes(notice.targetPubkey),
          notice.seq,
          notice.itemId,
          notice.wire,
          hashBytes(notice.wireHash),
          notice.expiresAtMs,
        ]),
        event.atMs,
      ];
    case 'DedupPurged':
      return [
        event.beforeMs,
        event.senders.map(({ senderPubkey, rows }) => [keyBytes(senderPubkey), rows]),
        event.atMs,
      ];
    case 'ItemLost':
      return [
        keyBytes(event.targetPubkey),
        event.seq,
        ITEM_KINDS.indexOf(event.kind),
        keyBytes(event.senderPubkey),
        event.itemId,
        keyBytes(event.pushedTo),
        event.bytes,
        event.account,
        event.reason,
        event.atMs,
      ];
    default:
      return assertNever(event);
  }
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

/** The inverse of `fieldsOf`; the checksum vouches for the types. */
function eventOf(tag: number, fields: unknown[], lsn: number): RelayEvent {
  switch (tag) {
    case TAG.RelayInitialised: {
      const [relayPubkey, epoch, schemaVersion, atMs] = fields as [unknown, Epoch, number, number];
      return { type: 'RelayInitialised', relayPubkey: keyFrom(relayPubkey), epoch, schemaVersion, atMs };
    }
    case TAG.EpochRotated: {
      const [epoch, reason, atMs] = fields as [Epoch, EpochReason, number];
      return { type: 'EpochRotated', epoch, reason, atMs };
    }
    case TAG.HostEnrolled: {
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
    }
    case TAG.HostSeen: {
      const [key, atMs] = fields as [unknown, number];
      return { type: 'HostSeen', hostPubkey: keyFrom(key), atMs };
    }
    case TAG.EnrolmentLapsed: {
      const [key, account, releasedItems, releasedBytes, atMs] = fields as [
        unknown,
        string | null,
        number,
        number,
        number,
      ];
      return { type: 'EnrolmentLapsed', hostPubkey: keyFrom(key), account, releasedItems, releasedBytes, atMs };
    }
    case TAG.HostRevoked: {
      const [key, cause, atMs] = fields as [unknown, HostRevoked['cause'], number];
      return { type: 'HostRevoked', hostPubkey: keyFrom(key), cause, atMs };
    }
    case TAG.KeyRotated: {
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
    }
    case TAG.ItemsMoved: {
      const [oldKey, newKey, fromSeqs, firstSeq, left, atMs] = fields as [
        unknown,
        unknown,
        number[],
        number,
        number,
        number,
      ];
      const keys = { oldPubkey: keyFrom(oldKey), newPubkey: keyFrom(newKey) };
      return { type: 'ItemsMoved', ...keys, fromSeqs, firstSeq, left, atMs };
    }
    case TAG.DenyEntryAdded: {
      const [reason, untilMs, atMs] = fields.slice(4) as [string, number, number];
      return { type: 'DenyEntryAdded', ...selectorsFrom(fields), reason, untilMs, atMs };
    }
    case TAG.InviteIssued: {
      const [hash, label, expiresAtMs, atMs] = fields as [unknown, string, number, number];
      return { type: 'InviteIssued', inviteHash: hashFrom(hash), label, expiresAtMs, atMs };
    }
    case TAG.InviteSpent: {
      const [hash, key, atMs] = fields as [unknown, unknown, number];
      return { type: 'InviteSpent', inviteHash: hashFrom(hash), hostPubkey: keyFrom(key), atMs };
    }
    case TAG.AdmissionsLapsed: {
      const [denied, invites, atMs] = fields as [unknown[][], unknown[], number];
      return { type: 'AdmissionsLapsed', denied: denied.map(selectorsFrom), invites: invites.map(hashFrom), atMs };
    }
    case TAG.SendersPublished: {
      const [key, senders, iatMs, atMs] = fields as [unknown, unknown[], number, number];
      return { type: 'SendersPublished', hostPubkey: keyFrom(key), senders: senders.map(keyFrom), iatMs, atMs };
    }
    case TAG.EncKeyPublished: {
      const [key, encPub, advertisedAtMs, sig, atMs] = fields as [unknown, string, number, string, number];
      return { type: 'EncKeyPublished', hostPubkey: keyFrom(key), encPub, advertisedAtMs, sig, atMs };
    }
    case TAG.ItemAccepted: {
      const [sender, itemId, kind, targets, acceptedAtMs, expiresAtMs, dedupUntilMs] = fields as [
        unknown,
        ItemId,
        number,
        [unknown, number, unknown, number, string | null][],
        number,
        number,
        number,
      ];
      const kindName = PUSHED_KINDS[kind];
      if (kindName === undefined) throw new DamagedRecord(`log record ${lsn} names an unknown kind`);
      return {
        type: 'ItemAccepted',
        senderPubkey: keyFrom(sender),
        itemId,
        kind: kindName,
        targets: targets.map(([key, seq, wireHash, bytes, account]) => ({
          hostPubkey: keyFrom(key),
          seq,
          wireHash: hashFrom(wireHash),
          bytes,
          account,
        })),
        acceptedAtMs,
        expiresAtMs,
        dedupUntilMs,
      };
    }
    case TAG.ItemsAcked: {
      const [key, through, items, bytes, notices, account, shares, atMs] = fields as [
        unknown,
        number,
        number,
        number,
        number,
        string | null,
        [unknown, number, number][],
        number,
      ];
      return {
        type: 'ItemsAcked',
        targetPubkey: keyFrom(key),
        through,
        items,
        bytes,
        notices,
        account,
        shares: shares.map((share) => ({ senderPubkey: keyFrom(share[0]), items: share[1], bytes: share[2] })),
        atMs,
      };
    }
    case TAG.ItemsExpired: {
      const [key, relayKey, items, account, dedupUntilMs, notices, atMs] = fields as [
        unknown,
        unknown,
        [number, number, ItemId, unknown, unknown, number][],
        string | null,
        number,
        [unknown, number, ItemId, string, unknown, number][],
        number,
      ];
      return {
        type: 'ItemsExpired',
        targetPubkey: keyFrom(key),
        relayPubkey: keyFrom(relayKey),
        items: items.map(([seq, kind, itemId, sender, pushedTo, bytes]) => {
          const name = ITEM_KINDS[kind];
          if (name === undefined) throw new DamagedRecord(`log record ${lsn} names an unknown kind`);
          return { seq, kind: name, itemId, senderPubkey: keyFrom(sender), pushedTo: keyFrom(pushedTo), bytes };
        }),
        account,
        dedupUntilMs,
        notices: notices.map(([target, seq, itemId, wire, wireHash, expiresAtMs]) => ({
          targetPubkey: keyFrom(target),
          seq,
          itemId,
          wire,
          wireHash: hashFrom(wireHash),
          expiresAtMs,
        })),
        atMs,
      };
    }
    case TAG.DedupPurged: {
      const [beforeMs, senders, atMs] = fields as [number, [unknown, number][], number];
      return {
        type: 'DedupPurged',
        beforeMs,
        senders: senders.map(([sender, rows]) => ({ senderPubkey: keyFrom(sender), rows })),
        atMs,
      };
    }
    case TAG.ItemLost: {
      const [key, seq, kind, sender, itemId, pushedTo, bytes, account, reason, atMs] = fields as [
        unknown,
        number,
        number,
        unknown,
        ItemId,
        unknown,
        number,
        string | null,
        'missing' | 'corrupt',
        number,
      ];
      const kindName = ITEM_KINDS[kind];
      if (kindName === undefined) throw new DamagedRecord(`log record ${lsn} names an unknown kind`);
      return {
        type: 'ItemLost',
        targetPubkey: keyFrom(key),
        seq,
        kind: kindName,
        senderPubkey: keyFrom(sender),
        itemId,
        pushedTo: keyFrom(pushedTo),
        bytes,
        account,
        reason,
        atMs,
      };
    }
    default:
      throw new DamagedRecord(`log record ${lsn} has the unknown tag ${tag}`);
  }
}
