/** What hosts publish about themselves: their sender lists and their encryption keys. The newest of each. */
import type { RelayEvent } from './event.ts';
import type { RowChange } from './rows.ts';

export function reducePublications(event: RelayEvent): RowChange[] {
  switch (event.type) {
    case 'SendersPublished': {
      const { hostPubkey, senders, iatMs } = event;
      return [{ table: 'senders', key: hostPubkey, row: { senders, iatMs } }];
    }
    case 'EncKeyPublished': {
      const { hostPubkey, encPub, advertisedAtMs, sig } = event;
      return [{ table: 'encKey', key: hostPubkey, row: { encPub, atMs: advertisedAtMs, sig } }];
    }
    default:
      return [];
  }
}
