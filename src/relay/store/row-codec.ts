/**
 * Rows to bytes and back. A row is an array whose first element is the version of its layout.
 *
 * What a row's textual key already says is not stored again. DO NOT CHANGE a layout: add a version.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import { ITEM_KINDS } from '../../protocol/items.ts';
import type { HostName, ItemId } from '../../protocol/names.ts';
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import type { AuthorityName, TableName, Tables } from '../core/rows.ts';
import { hashBytes, hashFrom, keyBytes, keyFrom, listed, pack, unpackArray } from './packing.ts';

interface Codec<Row> {
  fields(row: Row): unknown[];
  row(fields: unknown[], key: string): Row;
}

const VERSION = 1;

/** DO NOT CHANGE the order: stored as its position. */
const AUTHORITIES: readonly AuthorityName[] = ['host-key', 'account-token'];

const codecs: { [T in TableName]: Codec<Tables[T]> } = {
  relay: {
    fields: (row) => [keyBytes(row.relayPubkey), row.epoch, row.schemaVersion, row.initialisedAtMs, row.dedupPurgedMs],
    row: ([relayPubkey, epoch, schemaVersion, initialisedAtMs, dedupPurgedMs]) => ({
      relayPubkey: keyFrom(relayPubkey),
      epoch: epoch as Epoch,
      schemaVersion: schemaVersion as number,
      initialisedAtMs: initialisedAtMs as number,
      dedupPurgedMs: dedupPurgedMs as number,
    }),
  },
  heartbeat: {
    fields: (row) => [row.atMs],
    row: ([atMs]) => ({ atMs: atMs as number }),
  },
  restore: {
    fields: (row) => [
      row.atMs,
      row.epoch,
      row.backupEpoch,
      row.backupLsn,
      row.backupCreatedAtMs,
      row.replacedEpoch,
      row.replacedLsn,
    ],
    row: ([atMs, epoch, backupEpoch, backupLsn, backupCreatedAtMs, replacedEpoch, replacedLsn]) => ({
      atMs: atMs as number,
      epoch: epoch as Epoch,
      backupEpoch: backupEpoch as Epoch,
      backupLsn: backupLsn as number,
      backupCreatedAtMs: backupCreatedAtMs as number,
      replacedEpoch: replacedEpoch as Epoch | null,
      replacedLsn: replacedLsn as number | null,
    }),
  },
  enrolment: {
    fields: (row) => [
      row.hostName,
      row.ownerFp,
      row.account,
      row.org,
      row.clientId,
      AUTHORITIES.indexOf(row.authorizedBy),
      row.enrolledAtMs,
      row.validUntilMs,
      row.revokedAtMs,
      row.rotatedTo && keyBytes(row.rotatedTo),
      row.seen,
    ],
    row: (
      [hostName, ownerFp, account, org, clientId, authority, enrolledAtMs, validUntilMs, revokedAtMs, rotatedTo, seen],
      key,
    ) => ({
      hostPubkey: key as PublicKey,
      hostName: hostName as HostName,
      ownerFp: ownerFp as string,
      account: account as string | null,
      org: org as string | null,
      clientId: clientId as string | null,
      authorizedBy: listed(AUTHORITIES, authority),
      enrolledAtMs: enrolledAtMs as number,
      validUntilMs: validUntilMs as number | null,
      revokedAtMs: revokedAtMs as number | null,
      rotatedTo: rotatedTo === null ? null : keyFrom(rotatedTo),
      seen: seen as boolean,
    }),
  },
  lineage: {
    fields: (row) => [row.members.map(({ hostPubkey, retiredAtMs }) => [keyBytes(hostPubkey), retiredAtMs])],
    row: ([members]) => ({
      members: (members as [unknown, number | null][]).map(([key, retiredAtMs]) => ({
        hostPubkey: keyFrom(key),
        retiredAtMs,
      })),
    }),
  },
  senders: {
    fields: (row) => [row.senders.map(keyBytes), row.iatMs],
    row: ([senders, iatMs]) => ({ senders: (senders as unknown[]).map(keyFrom), iatMs: iatMs as number }),
  },
  encKey: {
    fields: (row) => [row.encPub, row.atMs, row.sig],
    row: ([encPub, atMs, sig]) => ({ encPub: encPub as string, atMs: atMs as number, sig: sig as string }),
  },
  deny: {
    fields: (row) => [row.hostFp && hashBytes(row.hostFp), row.clientId, row.account, row.org, row.reason, row.untilMs],
    row: ([hostFp, clientId, account, org, reason, untilMs]) => ({
      hostFp: hostFp === null ? null : hashFrom(hostFp),
      clientId: clientId as string | null,
      account: account as string | null,
      org: org as string | null,
      reason: reason as string,
      untilMs: untilMs as number,
    }),
  },
  invite: {
    fields: (row) => [row.label, row.issuedAtMs, row.expiresAtMs],
    row: ([label, issuedAtMs, expiresAtMs]) => ({
      label: label as string,
      issuedAtMs: issuedAtMs as number,
      expiresAtMs: expiresAtMs as number,
    }),
  },
  target: {
    fields: (row) => [row.headSeq, row.ackedThrough, row.queueItems, row.queueBytes],
    row: ([headSeq, ackedThrough, queueItems, queueBytes]) => ({
      headSeq: headSeq as number,
      ackedThrough: ackedThrough as number,
      queueItems: queueItems as number,
      queueBytes: queueBytes as number,
    }),
  },
  share: usageCodec(),
  account: usageCodec(),
  sender: {
    fields: (row) => [row.dedupRows],
    row: ([dedupRows]) => ({ dedupRows: dedupRows as number }),
  },
  move: {
    fields: (row) => [keyBytes(row.newPubkey), row.nextSeq, row.left],
    row: ([newPubkey, nextSeq, left]) => ({
      newPubkey: keyFrom(newPubkey),
      nextSeq: nextSeq as number,
      left: left as number,
    }),
  },
  queue: {
    fields: (row) => {
      const own = row.payloadTarget === row.targetPubkey && row.payloadSeq === row.seq;
      const payload = own ? [] : [keyBytes(row.payloadTarget), row.payloadSeq];
      const { itemId, senderPubkey, wireHash, bytes, acceptedAtMs, expiresAtMs } = row;
      const kind = ITEM_KINDS.indexOf(row.kind);
      return [kind, itemId, keyBytes(senderPubkey), hashBytes(wireHash), bytes, acceptedAtMs, expiresAtMs, ...payload];
    },
    row: ([kind, itemId, sender, wireHash, bytes, acceptedAtMs, expiresAtMs, payloadTarget, payloadSeq], key) => {
      const targetPubkey = key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey;
      const seq = Number(key.slice(PUBLIC_KEY_CHARACTERS));
      return {
        targetPubkey,
        seq,
        kind: listed(ITEM_KINDS, kind),
        itemId: itemId as ItemId,
        senderPubkey: keyFrom(sender),
        wireHash: hashFrom(wireHash),
        bytes: bytes as number,
        acceptedAtMs: acceptedAtMs as number,
        expiresAtMs: expiresAtMs as number,
        payloadTarget: payloadTarget === undefined ? targetPubkey : keyFrom(payloadTarget),
        payloadSeq: payloadSeq === undefined ? seq : (payloadSeq as number),
      };
    },
  },
  dedup: {
    fields: (row) => {
      const { wireHash, seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, queuedTarget, queuedSeq } = row;
      const unmoved = queuedTarget === row.targetPubkey && queuedSeq === seq;
      const moved = unmoved ? [] : [keyBytes(queuedTarget), queuedSeq];
      return [hashBytes(wireHash), seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, ...moved];
    },
    row: ([wireHash, seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, queuedTarget, queuedSeq], key) => {
      const targetPubkey = key.slice(PUBLIC_KEY_CHARACTERS, 2 * PUBLIC_KEY_CHARACTERS) as PublicKey;
      return {
        senderPubkey: key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey,
        targetPubkey,
        itemId: key.slice(2 * PUBLIC_KEY_CHARACTERS) as ItemId,
        wireHash: hashFrom(wireHash),
        seq: seq as number,
        bytes: bytes as number,
        acceptedAtMs: acceptedAtMs as number,
        dedupUntilMs: dedupUntilMs as number,
        queuedTarget: queuedTarget === undefined ? targetPubkey : keyFrom(queuedTarget),
        queuedSeq: (queuedSeq ?? seq) as number,
        lsn: lsn as number,
        expired: expired as boolean,
      };
    },
  },
};

export function encodeRow<T extends TableName>(table: T, row: Tables[T]): Buffer {
  return pack([VERSION, ...codecs[table].fields(row)]);
}

/** Thrown for bytes that are no row, or one of a layout that this software does not know. */
export class DamagedRow extends Error {}

/** Throws `DamagedRow`. */
export function decodeRow<T extends TableName>(table: T, key: string, bytes: Buffer): Tables[T] {
  let unpacked: unknown[];
  try {
    unpacked = unpackArray(bytes);
  } catch (error) {
    throw new DamagedRow(`a ${table} row cannot be read`, { cause: error });
  }
  const [version, ...fields] = unpacked;
  if (version !== VERSION) throw new DamagedRow(`a ${table} row has layout ${VERSION}, not ${String(version)}`);
  try {
    return codecs[table].row(fields, key);
  } catch (error) {
    throw new DamagedRow(`a ${table} row cannot be read`, { cause: error });
  }
}

function usageCodec(): Codec<Tables['share']> {
  return {
    fields: (row) => [row.items, row.bytes],
    row: ([items, bytes]) => ({ items: items as number, bytes: bytes as number }),
  };
}
