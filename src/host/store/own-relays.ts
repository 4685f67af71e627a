/** The relays that this host uses: the first, which is a home, and those beside it. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayRole, RelayRow } from '../core/relay-rows.ts';
import type { Reader, Transaction } from './host-store.ts';

export interface OwnRelay {
  row: RelayRow;
  /** Its place in the owner's order: 0 for the first home. */
  rank: number;
  role: RelayRole;
}

/** All of them, in the owner's order. */
export async function ownRelays(reader: Reader): Promise<OwnRelay[]> {
  const first = reader.get('relay');
  const found: OwnRelay[] = first ? [{ row: first, rank: 0, role: 'home' }] : [];
  for await (const { row: further } of reader.range('relayMore', [])) {
    const { rank, role, ...row } = further;
    found.push({ row, rank, role });
  }
  return found.toSorted((a, b) => a.rank - b.rank);
}

/** Undefined when this host uses no relay of this key. */
export function relayRowOf(reader: Reader, relayPubkey: PublicKey): RelayRow | undefined {
  const first = reader.get('relay');
  return first?.pubkey === relayPubkey ? first : reader.get('relayMore', relayPubkey);
}

/** Writes the row of a relay that is in use already. */
export function putRelayRow(tx: Transaction, row: RelayRow): void {
  if (tx.get('relay')?.pubkey === row.pubkey) tx.put('relay', [], row);
  else {
    const further = tx.get('relayMore', row.pubkey);
    if (further) tx.put('relayMore', [row.pubkey], { ...row, rank: further.rank, role: further.role });
  }
}
