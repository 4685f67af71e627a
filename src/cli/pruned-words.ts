/** What a log that was pruned does not tell any more, in words. */
import { timeWords } from '../relay/audit/event-words.ts';
import type { OfflineStore } from '../relay/store/offline.ts';

/** Begins a sentence. */
export function prunedWords({ store }: OfflineStore): string {
  const { throughLsn, atMs } = store.pruned;
  return `the log was pruned through record ${throughLsn}, written ${timeWords(atMs)}`;
}

/** A sentence for whoever looked for what may have been before; empty where nothing was pruned. */
export function prunedNotice(offline: OfflineStore): string {
  if (offline.store.pruned.throughLsn === 0) return '';
  return `poste: ${prunedWords(offline)}; what came before is in archives of the log and in older backups.\n`;
}
