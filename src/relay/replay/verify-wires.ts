/**
 * Verifies the wire bytes of everything that waits: each item has its own, with the hash that was accepted, and nothing
 * else is kept.
 */
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import { BOUND_BYTES } from '../store/item-run.ts';
import { PREFIX, firstKeyOf, prefixRange, seqOf } from '../store/keys.ts';
import { runsOf } from '../store/scan.ts';
import { WireCheck } from '../store/wire-check.ts';
import type { Findings, Progress } from './finding.ts';
import { type Verification, isOfStore } from './verification.ts';

const PASSED = [PREFIX.target, PREFIX.queue, PREFIX.payload];

/** Rows that cannot be read differ from the replay. */
export async function* verifyWires({ offline, findings, counted }: Verification): AsyncGenerator<Progress, void> {
  const check = new WireCheck(offline.level, {
    lost: (row, wire) => addLost(row, wire, findings),
    unnamed: (place) => addUnnamed(place, findings),
  });
  try {
    for (const prefix of PASSED)
      for await (const run of runsOf(offline.level, prefixRange(prefix))) {
        await check.pass(run);
        yield { stage: 'payloads', done: check.wires, of: undefined };
      }
    await check.end();
  } finally {
    await check.close();
  }
  counted.payloads = check.wires;
  counted.bytes += check.bytes;
}

function addLost(row: QueueRow, wire: Buffer | undefined, findings: Findings): void {
  const { kind, itemId, senderPubkey, targetPubkey, seq, payloadTarget, payloadSeq } = row;
  const item = `${kind} ${itemId} of ${displayFingerprint(senderPubkey)} for ${placeText(targetPubkey, seq)}`;
  const [code, what] = wire
    ? (['PAYLOAD_DIFFERS', 'are not the ones that were accepted: they are not served;'] as const)
    : (['PAYLOAD_MISSING', 'are gone:'] as const);
  const message =
    `the wire bytes of ${item} ${what} when it is pulled, the relay reports it lost and begins a new epoch, and its ` +
    'sender pushes it again';
  findings.add(code, message, { host_pubkey: payloadTarget, seq: payloadSeq });
}

function addUnnamed(place: Buffer, findings: Findings): void {
  if (!isOfStore(place.subarray(0, -BOUND_BYTES), findings)) return;
  const [target, seq] = [firstKeyOf(place), seqOf(place)];
  const message =
    `wire bytes lie for ${placeText(target, seq)} and no queued item names them: mail that should be deleted is ` +
    'still on disk';
  findings.add('PAYLOAD_UNEXPECTED', message, { host_pubkey: target, seq });
}

function placeText(target: PublicKey, seq: number): string {
  return `${displayFingerprint(target)} at seq ${seq}`;
}
