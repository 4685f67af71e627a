/** The state of the console: its route, and the measurements of the relay. Views read these signals. */
import { signal } from '@preact/signals';
import type { ConsoleFollowing, ConsoleOverview, ConsoleSample } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { follow } from '../shared/live.ts';
import { currentRoute } from '../shared/route.ts';
import { failureText } from '../shared/session.ts';

const SAMPLES_KEPT = 450;
/** The time between two loads of what no event brings. */
const OVERVIEW_EVERY_MS = 10_000;
/** The time between two loads while the relay still reads its log. */
const STILL_READING_MS = 1_000;
/** The time between two questions to a relay that follows, whose lag no event brings. */
const FOLLOWING_MS = 2_000;

export const overview = signal<ConsoleOverview | ConsoleFollowing | undefined>(undefined);
export const samples = signal<readonly ConsoleSample[]>([]);

export interface Route {
  view: 'overview' | 'hosts' | 'host' | 'log' | 'item' | 'invites';
  /** The key of a host, or the record of an item. */
  subject: string;
  query: URLSearchParams;
}

export const route = currentRoute<Route>(({ view, subject, query }) => {
  if (view === 'hosts' && subject !== '') return { view: 'host', subject, query };
  if (view === 'hosts' || view === 'log' || view === 'invites') return { view, subject: '', query };
  if (view === 'items') return { view: 'item', subject, query };
  return { view: 'overview', subject: '', query };
});

export function hostHref(key: string): string {
  return `#/hosts/${encodeURIComponent(key)}`;
}

/** Stands for a name that only the operator knows. */
const ADDRESS_UNKNOWN = 'https://<the name of your relay>';

/** Returns what the owner of a host types, with the token in `tokenFile` when one is needed. */
export function setCommand({ addresses, fingerprint }: ConsoleOverview, tokenFile: string | undefined): string {
  const [address = ADDRESS_UNKNOWN] = addresses;
  const token = tokenFile === undefined ? '' : ` --token-file ${tokenFile}`;
  return `poste relay set ${address} --key ${fingerprint}${token}`;
}

export function itemHref(lsn: number): string {
  return `#/items/${lsn}`;
}

/** The time by the clock of the relay, as far as it is known. */
export function relayTime(): number {
  return samples.value.at(-1)?.at ?? overview.value?.now ?? Date.now();
}

let nextLoad: ReturnType<typeof setTimeout> | undefined;

export async function reloadOverview(): Promise<void> {
  const before = new Set(samples.value);
  try {
    const loaded = await read<ConsoleOverview | ConsoleFollowing>('overview');
    clearTimeout(nextLoad);
    if (loaded.role === 'following') {
      overview.value = loaded;
      nextLoad = setTimeout(() => void reloadOverview(), FOLLOWING_MS);
      return;
    }
    const known = new Set(loaded.samples.map(({ at }) => at));
    // Samples that the stream brought while this request was under way.
    const newer = samples.value.filter((one) => !before.has(one) && !known.has(one.at));
    overview.value = loaded;
    samples.value = [...loaded.samples, ...newer].slice(-SAMPLES_KEPT);
    if (loaded.epochs_read === 'under way') nextLoad = setTimeout(() => void reloadOverview(), STILL_READING_MS);
  } catch (error) {
    failureText(error);
  }
}

/** Starts to follow the relay. Call it once. */
export function followRelay(): void {
  follow({
    events: { sample: (data) => addSample(data as ConsoleSample) },
    refresh: reloadOverview,
    refreshEveryMs: OVERVIEW_EVERY_MS,
  });
}

function addSample(sample: ConsoleSample): void {
  // The overview may already contain it.
  if (samples.value.at(-1)?.at !== sample.at) samples.value = [...samples.value, sample].slice(-SAMPLES_KEPT);
}
