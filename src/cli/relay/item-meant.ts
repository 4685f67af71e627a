/** Which item of a log a person means. */
import type { OfflineStore } from '../../relay/replay/offline.ts';
import { readEntries } from '../../relay/replay/records.ts';
import { DamagedRecord } from '../../relay/store/record.ts';
import { type Candidate, idMeant } from '../lib/short-id.ts';

/** Fewer begin too many ids. */
const CHARACTERS_MIN = 6;

/** The whole id of an item of which the text is the first characters; what means none comes back as it is. */
export async function itemMeant(offline: OfflineStore, text: string): Promise<string> {
  if (text.length < CHARACTERS_MIN) return text;
  const candidates: Candidate[] = [];
  try {
    for await (const run of readEntries(offline)) {
      for (const { event, lsn } of run) {
        if (event.type !== 'ItemAccepted' || !event.itemId.startsWith(text)) continue;
        if (event.itemId === text) return text;
        candidates.push({ id: event.itemId, about: `record ${lsn}` });
      }
    }
  } catch (error) {
    // What the log holds before its damage can still be shown.
    if (!(error instanceof DamagedRecord)) throw error;
  }
  return idMeant(text, candidates) ?? text;
}
