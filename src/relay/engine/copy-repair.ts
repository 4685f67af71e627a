/** Makes waiting items whole whose wire bytes this node lost or altered, from another copy of the log. */
import { hasHash } from '../../protocol/digest.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Payload } from '../store/durable-log.ts';

export type ItemPlace = Pick<QueueRow, 'targetPubkey' | 'seq'>;

export interface RepairedItem {
  row: QueueRow;
  wire: Buffer;
}

export function repairedPayload({ row: { payloadTarget, payloadSeq }, wire }: RepairedItem): Payload {
  return { targetPubkey: payloadTarget, seq: payloadSeq, wire };
}

interface Copies {
  /** The row of an item that waits; `undefined` when it is gone. */
  queued: (target: PublicKey, seq: number) => QueueRow | undefined;
  /** The wire bytes of rows, as another copy has them. */
  wireBytes: (rows: readonly QueueRow[]) => Promise<(Buffer | undefined)[]>;
  /** Puts wire bytes back at the places of their items. */
  repair: (items: readonly RepairedItem[]) => Promise<void>;
}

/**
 * Returns how many are whole again, and those of which no copy has the bytes. A copy that cannot be asked now says
 * nothing about any: they are asked for again when they are found again.
 */
export async function repairFromCopies(
  places: readonly ItemPlace[],
  { queued, wireBytes, repair }: Copies,
): Promise<{ repaired: number; left: QueueRow[] }> {
  const rows = places.flatMap(({ targetPubkey, seq }) => queued(targetPubkey, seq) ?? []);
  if (rows.length === 0) return { repaired: 0, left: [] };
  const wires = await wireBytes(rows).catch(() => undefined);
  if (!wires) return { repaired: 0, left: [] };
  const whole: RepairedItem[] = [];
  const left: QueueRow[] = [];
  for (const [at, row] of rows.entries()) {
    const wire = wires[at];
    if (hasHash(wire, row.wireHash)) whole.push({ row, wire });
    else left.push(row);
  }
  if (whole.length > 0) await repair(whole);
  return { repaired: whole.length, left };
}
