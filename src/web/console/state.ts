/** What the console knows: the place in it, and how the relay does. Views read these signals. */
import { signal } from '@preact/signals';
import type { ConsoleOverview, ConsoleSample } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { follow } from '../shared/live.ts';
import { hashParts } from '../shared/place.ts';
import { failed, notice } from '../shared/session.ts';

const SAMPLES_KEPT = 450;
/** What no stream brings. */
const OVERVIEW_EVERY_MS = 10_000;
/** While the relay still reads its log. */
const STILL_READING_MS = 1_000;

export const overview = signal<ConsoleOverview | undefined>(undefined);
export const samples = signal<readonly ConsoleSample[]>([]);
export const place = signal(placeOf(location.hash));

export interface Place {
  view: 'overview' | 'hosts' | 'host' | 'log' | 'item';
  /** A key, or a record. */
  subject: string;
  query: URLSearchParams;
}

addEventListener('hashchange', () => {
  place.value = placeOf(location.hash);
  notice.value = '';
});

function placeOf(hash: string): Place {
  const { view, subject, query } = hashParts(hash);
  if (view === 'hosts' && subject !== '') return { view: 'host', subject, query };
  if (view === 'hosts' || view === 'log') return { view, subject: '', query };
  if (view === 'items') return { view: 'item', subject, query };
  return { view: 'overview', subject: '', query };
}

export function hostPlace(key: string): string {
  return `#/hosts/${encodeURIComponent(key)}`;
}

export function itemPlace(lsn: number): string {
  return `#/items/${lsn}`;
}

let soon: ReturnType<typeof setTimeout> | undefined;

export async function loadOverview(): Promise<void> {
  const before = new Set(samples.value);
  try {
    const loaded = await read<ConsoleOverview>('overview');
    const known = new Set(loaded.samples.map(({ at }) => at));
    // Those that the stream brought while this was under way.
    const newer = samples.value.filter((one) => !before.has(one) && !known.has(one.at));
    overview.value = loaded;
    samples.value = [...loaded.samples, ...newer].slice(-SAMPLES_KEPT);
    clearTimeout(soon);
    if (loaded.epochs_read === 'under way') soon = setTimeout(() => void loadOverview(), STILL_READING_MS);
  } catch (error) {
    failed(error);
  }
}

/** Begins to follow the relay. To be called once. */
export function followRelay(): void {
  follow({
    events: { sample: (data) => addSample(data as ConsoleSample) },
    refresh: loadOverview,
    refreshEveryMs: OVERVIEW_EVERY_MS,
  });
}

function addSample(sample: ConsoleSample): void {
  // The overview may have brought it already.
  if (samples.value.at(-1)?.at !== sample.at) samples.value = [...samples.value, sample].slice(-SAMPLES_KEPT);
}
