/**
 * The log's events about items and what is known of them, as arrays and back.
 *
 * DO NOT CHANGE a tag or the order of its fields: add a version.
 */
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { EventCodecs } from './event-codec.ts';
import { hashBytes, hashFrom, keyBytes, keyFrom, listed } from './packing.ts';

type ItemEvent =
  | 'ItemAccepted'
  | 'ItemsAcked'
  | 'ItemsExpired'
  | 'ItemsMoved'
  | 'ItemLost'
  | 'DedupPurged'
  | 'SeqFloorsRaised';

export const itemEventCodecs: Pick<EventCodecs, ItemEvent> = {
  ItemAccepted: {
    tag: 20,
    fields: (event) => [
      keyBytes(event.senderPubkey),
      event.itemId,
      PUSHED_KINDS.indexOf(event.kind),
      event.targets.map((target) => [
        keyBytes(target.hostPubkey),
        target.seq,
        hashBytes(target.wireHash),
        target.bytes,
      ]),
      event.acceptedAtMs,
      event.expiresAtMs,
      event.dedupUntilMs,
    ],
    event: (fields) => {
      const [sender, itemId, kind, targets, acceptedAtMs, expiresAtMs, dedupUntilMs] = fields as [
        unknown,
        ItemId,
        number,
        [unknown, number, unknown, number][],
        number,
        number,
        number,
      ];
      return {
        type: 'ItemAccepted',
        senderPubkey: keyFrom(sender),
        itemId,
        kind: listed(PUSHED_KINDS, kind),
        targets: targets.map(([key, seq, wireHash, bytes]) => ({
          hostPubkey: keyFrom(key),
          seq,
          wireHash: hashFrom(wireHash),
          bytes,
        })),
        acceptedAtMs,
        expiresAtMs,
        dedupUntilMs,
      };
    },
  },
  ItemsAcked: {
    tag: 21,
    fields: (event) => [
      keyBytes(event.targetPubkey),
      event.through,
      event.items,
      event.bytes,
      event.notices,
      event.account,
      event.shares.map((share) => [keyBytes(share.senderPubkey), share.items, share.bytes]),
      event.atMs,
    ],
    event: (fields) => {
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
    },
  },
  ItemsExpired: {
    tag: 22,
    fields: (event) => [
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
    ],
    event: (fields) => {
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
          return {
            seq,
            kind: listed(ITEM_KINDS, kind),
            itemId,
            senderPubkey: keyFrom(sender),
            pushedTo: keyFrom(pushedTo),
            bytes,
          };
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
    },
  },
  DedupPurged: {
    tag: 24,
    fields: (event) => [
      event.beforeMs,
      event.senders.map(({ senderPubkey, rows }) => [keyBytes(senderPubkey), rows]),
      event.atMs,
    ],
    event: (fields) => {
      const [beforeMs, senders, atMs] = fields as [number, [unknown, number][], number];
      return {
        type: 'DedupPurged',
        beforeMs,
        senders: senders.map(([sender, rows]) => ({ senderPubkey: keyFrom(sender), rows })),
        atMs,
      };
    },
  },
  ItemLost: {
    tag: 23,
    fields: (event) => [
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
    ],
    event: (fields) => {
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
      return {
        type: 'ItemLost',
        targetPubkey: keyFrom(key),
        seq,
        kind: listed(ITEM_KINDS, kind),
        senderPubkey: keyFrom(sender),
        itemId,
        pushedTo: keyFrom(pushedTo),
        bytes,
        account,
        reason,
        atMs,
      };
    },
  },
  ItemsMoved: {
    tag: 25,
    fields: (event) => [
      keyBytes(event.oldPubkey),
      keyBytes(event.newPubkey),
      event.fromSeqs,
      event.firstSeq,
      event.left,
      event.atMs,
    ],
    event: (fields) => {
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
    },
  },
  SeqFloorsRaised: {
    tag: 26,
    fields: (event) => [event.floors.map(({ targetPubkey, headSeq }) => [keyBytes(targetPubkey), headSeq]), event.atMs],
    event: (fields) => {
      const [floors, atMs] = fields as [[unknown, number][], number];
      return {
        type: 'SeqFloorsRaised',
        floors: floors.map(([key, headSeq]) => ({ targetPubkey: keyFrom(key), headSeq })),
        atMs,
      };
    },
  },
};
