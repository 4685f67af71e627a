/** The lives of the items of one id, read from the whole log of a stopped store. */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ItemAccepted, LogEntry } from '../core/event.ts';
import { ItemLife, type ItemState, type LifeStep } from '../core/item-life.ts';
import type { OfflineStore } from './offline.ts';
import type { Progress } from './finding.ts';
import { auditedRecords } from './records.ts';

/** One item for one target, from one acceptance on. */
export interface TracedItem {
  itemId: ItemId;
  kind: ItemAccepted['kind'];
  senderPubkey: PublicKey;
  /** The key it was pushed to. */
  targetPubkey: PublicKey;
  wireHash: Sha256Hex;
  bytes: number;
  expiresAtMs: number;
  state: ItemState;
  steps: LifeStep[];
}

export interface TraceChoice {
  itemId: string;
  /** Only of these senders. */
  senders?: ReadonlySet<PublicKey>;
  /** Only pushed to these keys. */
  targets?: ReadonlySet<PublicKey>;
}

/** Throws `DamagedRecord`. */
export async function* trace(offline: OfflineStore, choice: TraceChoice): AsyncGenerator<Progress, TracedItem[]> {
  const lives: ItemLife[] = [];
  for await (const run of auditedRecords(offline)) {
    for (const entry of run) {
      for (const life of lives) life.follow(entry);
      lives.push(...acceptedIn(entry, choice));
    }
    yield { stage: 'trace', done: run.at(-1)?.lsn ?? 0, of: offline.store.lastLsn };
  }
  return lives.map(tracedItem);
}

function acceptedIn({ lsn, event }: LogEntry, { itemId, senders, targets }: TraceChoice): ItemLife[] {
  if (event.type !== 'ItemAccepted' || event.itemId !== itemId) return [];
  if (senders && !senders.has(event.senderPubkey)) return [];
  const chosen = event.targets.filter(({ hostPubkey }) => !targets || targets.has(hostPubkey));
  return chosen.map((target) => new ItemLife(lsn, event, target));
}

function tracedItem({ accepted, target, state, steps }: ItemLife): TracedItem {
  const { itemId, kind, senderPubkey, expiresAtMs } = accepted;
  const { hostPubkey: targetPubkey, wireHash, bytes } = target;
  return { itemId, kind, senderPubkey, targetPubkey, wireHash, bytes, expiresAtMs, state, steps };
}
