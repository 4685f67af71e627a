/** Where items are, as the rows have it: what a trace asks before it reads the log. */
import { rowKey } from '../../core/rows.ts';
import type { Engine } from '../../engine/engine.ts';
import type { RelayStore } from '../../store/relay-store.ts';
import type { TraceOptions } from './item-trace.ts';

export function itemPlaces(
  engine: Engine,
  store: RelayStore,
): Pick<TraceOptions, 'isWaiting' | 'queuedAt' | 'rotatedAtMs'> {
  return {
    isWaiting: (target, seq) =>
      seq > engine.head(target).ackedThrough && store.get('queue', rowKey.queue(target, seq)) !== undefined,
    queuedAt: (sender, target, itemId) => {
      const row = store.get('dedup', rowKey.dedup(sender, target, itemId));
      return row && { target: row.queuedTarget, seq: row.queuedSeq, lsn: row.lsn };
    },
    rotatedAtMs: (key) => {
      const row = engine.enrolment(key);
      return (row?.rotatedTo && row.revokedAtMs) || undefined;
    },
  };
}
