/** Counts what of the outbox is at the relays of this host. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayStatusResult } from '../contract/relays.ts';
import { liveCopies } from '../core/relay-copies.ts';
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

export async function heldAt(reader: Reader, relayPubkey: PublicKey): Promise<HeldThere> {
  const counts = { held: 0, alone: 0, also: new Set<PublicKey>() };
  for await (const { row } of reader.range('peer', [])) {
    for await (const open of openRows(reader, row.peerId)) {
      if (open.kind !== 'envelope' || open.state !== 'relay-accepted') continue;
      const at = liveCopies(open).map(({ acceptance }) => acceptance.relayPubkey);
      if (!at.includes(relayPubkey)) continue;
      counts.held++;
      if (at.length === 1) counts.alone++;
      for (const pubkey of at) if (pubkey !== relayPubkey) counts.also.add(pubkey);
    }
  }
  return counts;
}
