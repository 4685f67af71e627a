/** Events and other values as JSON documents, with the names that every other document has. */
import { type LogEntry, eventTimeMs } from '../core/event.ts';

/** With the names of every other document: `atMs` is `at`, `hostPubkey` is `host_pubkey`. */
export function eventDocument({ lsn, event }: LogEntry): Record<string, unknown> {
  const { type, ...members } = event;
  return { lsn, time: eventTimeMs(event), type, ...(documentOf(members) as object) };
}

/** Values as documents show them, all the way down. */
export function documentOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(documentOf);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [documentName(name), documentOf(one)]));
}

function documentName(name: string): string {
  const withoutUnit = name.replace(/Ms$/, '');
  return withoutUnit.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
