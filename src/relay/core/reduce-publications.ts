/** What hosts publish about themselves: their sender lists and their encryption keys. The newest of each. */
import type { RelayEvent } from './event.ts';
import type { RowChange, RowReader } from './rows.ts';

export function reducePublications(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'SendersPublished': {
      const { hostPubkey, senders, iatMs } = event;
      return [{ table: 'senders', key: hostPubkey, row: { senders, iatMs } }];
    }
    case 'EncKeyPublished': {
      const { hostPubkey, encPub, advertisedAtMs, sig } = event;
      return [{ table: 'encKey', key: hostPubkey, row: { encPub, atMs: advertisedAtMs, sig } }];
    }
    case 'KeyRotated': {
      // The list follows its host. The encryption key does not: its advertisement names the old key.
      const { oldPubkey, newPubkey, movesSenders } = event;
      const row = movesSenders ? rows.get('senders', oldPubkey) : undefined;
      return [
        { table: 'senders', key: oldPubkey, row: null },
        { table: 'encKey', key: oldPubkey, row: null },
        ...(row ? [{ table: 'senders', key: newPubkey, row } as const] : []),
      ];
    }
    default:
      return [];
  }
}
