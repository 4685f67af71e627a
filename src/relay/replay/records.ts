/** The records of a log as events, checked and in order: all, those that a filter selects, the lives of one item. */
import type { PublicKey } from '../../protocol/public-key.ts';
import { eventTimeMs, type LogEntry, type ItemAccepted } from '../core/event.ts';
import { decodeRecord } from '../store/record.ts';
import { recordRuns } from '../store/record-run.ts';
import { describeEvent, hostsOf } from '../core/describe-event.ts';
import type { OfflineStore } from './offline.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { ItemId } from '../../protocol/names.ts';
import { ItemLife, type ItemState, type LifeStep } from '../core/describe-event.ts';
import type { Progress } from './finding.ts';

interface StoredEntry extends LogEntry {
  record: Buffer;
}

interface RecordRange {
  fromLsn?: number;
  throughLsn?: number;
}

/**
 * The records of the range that were not pruned, in runs. Throws `DamagedRecord` at the first record that is missing or
 * damaged, after the records before it.
 */
export async function* readEntries(
  { level, store }: OfflineStore,
  { fromLsn = 1, throughLsn = store.lastLsn }: RecordRange = {},
): AsyncGenerator<StoredEntry[]> {
  for await (const run of recordRuns(level, Math.max(fromLsn, store.firstLsn), throughLsn)) {
    const entries: StoredEntry[] = [];
    try {
      for (const [lsn, record] of run) entries.push({ lsn, event: decodeRecord(lsn, record).event, record });
    } catch (error) {
      yield entries;
      throw error;
    }
    yield entries;
  }
}

/** Every choice that is made must be met. */
export interface EventChoice {
  /** Names one of these keys. */
  hosts?: ReadonlySet<PublicKey>;
  itemId?: string;
  types?: ReadonlySet<string>;
  sinceMs?: number;
  untilMs?: number;
  fromLsn?: number;
  limit?: number;
}

/** Throws `DamagedRecord` at the first record that is not whole, after what was chosen before it. */
export async function* chosenEvents(offline: OfflineStore, choice: EventChoice): AsyncGenerator<LogEntry> {
  let left = choice.limit ?? Number.POSITIVE_INFINITY;
  for await (const run of readEntries(offline, { fromLsn: choice.fromLsn ?? 1 })) {
    for (const entry of run) {
      if (!isChosen(entry, choice)) continue;
      if (left-- <= 0) return;
      yield entry;
    }
  }
}

function isChosen({ event }: LogEntry, { hosts, itemId, types, sinceMs, untilMs }: EventChoice): boolean {
  if (types && !types.has(event.type)) return false;
  const timeMs = eventTimeMs(event);
  if (timeMs < (sinceMs ?? 0) || timeMs > (untilMs ?? Number.POSITIVE_INFINITY)) return false;
  if (itemId !== undefined && !describeEvent(event).itemIds.some((id) => id === itemId)) return false;
  return !hosts || [...hostsOf(event)].some((key) => hosts.has(key));
}

/**
 * Gives the members the names that they have in every other document: `atMs` is `at`, `hostPubkey` is `host_pubkey`.
 */
export function eventDocument({ lsn, event }: LogEntry): Record<string, unknown> {
  const { type, ...members } = event;
  return { lsn, time: eventTimeMs(event), type, ...documentOf(members) };
}

/** The value as documents show it, all the way down. */
export function documentOf(value: object): object {
  return shownValue(value) as object;
}

function shownValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shownValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [documentName(name), shownValue(one)]));
}

function documentName(name: string): string {
  const withoutUnit = name.replace(/Ms$/, '');
  return withoutUnit.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

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
  /** Items of other senders are left out. */
  senders?: ReadonlySet<PublicKey>;
  /** Items that were pushed to other keys are left out. */
  targets?: ReadonlySet<PublicKey>;
}

/** Throws `DamagedRecord`. */
export async function* trace(offline: OfflineStore, choice: TraceChoice): AsyncGenerator<Progress, TracedItem[]> {
  const lives: ItemLife[] = [];
  for await (const run of readEntries(offline)) {
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
