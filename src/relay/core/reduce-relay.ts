/** The relay row: which store this is and in which epoch; and the log of its restores. */
import type { RelayEvent } from './event.ts';
import { relayRow } from './facts.ts';
import { type RowChange, type RowReader, rowKey } from './rows.ts';

export function reduceRelay(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'RelayInitialised': {
      const { relayPubkey, epoch, schemaVersion, atMs } = event;
      const row = { relayPubkey, epoch, schemaVersion, initialisedAtMs: atMs, dedupPurgedMs: 0 };
      return [{ table: 'relay', key: rowKey.relay, row }];
    }
    case 'EpochRotated':
      return [{ table: 'relay', key: rowKey.relay, row: { ...relayRow(rows), epoch: event.epoch } }];
    case 'RelayRestored': {
      const { type: _type, earlier, ...restore } = event;
      return [...earlier, restore].map((row) => ({ table: 'restore', key: rowKey.restore(row), row }));
    }
    case 'SchemaMigrated': {
      const { schemaVersion } = event;
      return [{ table: 'relay', key: rowKey.relay, row: { ...relayRow(rows), schemaVersion } }];
    }
    case 'DedupPurged': {
      const before = relayRow(rows);
      const dedupPurgedMs = Math.max(before.dedupPurgedMs, event.beforeMs);
      return [{ table: 'relay', key: rowKey.relay, row: { ...before, dedupPurgedMs } }];
    }
    default:
      return [];
  }
}
