/** Counts what of the outbox is at the relays of this host. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayStatusResult } from '../contract/relays.ts';
import { liveCopies } from '../core/outbox-row.ts';
import { openRows } from '../outbox/outbox.ts';
import type { Reader } from '../store/host-store.ts';

export async function outboxCounts(reader: Reader): Promise<RelayStatusResult['outbox']> {
  const counts = { pending: 0, relay_accepted: 0, receipts_pending: 0 };
  for await (const { row } of reader.range('peer', [])) {
    for await (const { kind, state } of openRows(reader, row.peerId)) {
      if (kind === 'receipt') counts.receipts_pending += state === 'pending' ? 1 : 0;
      else if (state === 'pending') counts.pending++;
      else if (state === 'relay-accepted') counts.relay_accepted++;
    }
  }
  return counts;
}

/** Messages that a relay took, as far as is known, and that no host has confirmed. */
export interface HeldThere {
  held: number;
  /** Of these, the ones that no other relay has. */
  alone: number;
  /** The relays that have the others. */
  also: ReadonlySet<PublicKey>;
}

/** By relay; nothing of one that has none. */
export async function heldByRelays(reader: Reader): Promise<ReadonlyMap<PublicKey, HeldThere>> {
  const counts = new Map<PublicKey, { held: number; alone: number; also: Set<PublicKey> }>();
  for await (const { row } of reader.range('peer', [])) {
    for await (const open of openRows(reader, row.peerId)) {
      if (open.kind !== 'envelope' || open.state !== 'relay-accepted') continue;
      const at = liveCopies(open).map(({ acceptance }) => acceptance.relayPubkey);
      for (const pubkey of at) {
        const there = counts.get(pubkey) ?? { held: 0, alone: 0, also: new Set() };
        counts.set(pubkey, there);
        there.held++;
        if (at.length === 1) there.alone++;
        for (const other of at) if (other !== pubkey) there.also.add(other);
      }
    }
  }
  return counts;
}

export async function heldAt(reader: Reader, relayPubkey: PublicKey): Promise<HeldThere> {
  return (await heldByRelays(reader)).get(relayPubkey) ?? { held: 0, alone: 0, also: new Set() };
}
