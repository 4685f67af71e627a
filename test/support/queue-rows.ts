/** Queue rows of an envelope from Alice. */
import { sha256Hex } from '../../src/protocol/encodings.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { QueueRow } from '../../src/relay/core/rows.ts';
import { alice } from './hosts.ts';

export function queueRowAt(targetPubkey: PublicKey, seq: number, wire: Buffer): QueueRow {
  return {
    targetPubkey,
    seq,
    kind: 'envelope',
    itemId: `m${seq}` as ItemId,
    senderPubkey: alice.key,
    wireHash: sha256Hex(wire),
    bytes: wire.length,
    acceptedAtMs: 0,
    expiresAtMs: 0,
    payloadTarget: targetPubkey,
    payloadSeq: seq,
  };
}

/** The row as events make it: without the run in which its wire bytes lie. */
export function withoutRun({ payloadBound: _run, ...row }: QueueRow): QueueRow {
  return row;
}
