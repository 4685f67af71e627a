/** What the page knows: the session, the place in it, and how the relay does. Views read these signals. */
import { signal } from '@preact/signals';
import type { ConsoleOverview, ConsoleSample } from '../protocol/operator-documents.ts';
import { Problem, read } from './api.ts';

const SAMPLES_KEPT = 450;
/** What no stream brings. */
const OVERVIEW_EVERY_MS = 10_000;
/** While the relay still reads its log. */
const STILL_READING_MS = 1_000;

export type SessionState = 'opening' | 'open' | 'none';

export const session = signal<SessionState>('opening');
/** Why there is no session, when somebody tried. */
export const doorNote = signal('');
export const connection = signal<'connecting' | 'live' | 'lost'>('connecting');
export const overview = signal<ConsoleOverview | undefined>(undefined);
export const samples = signal<readonly ConsoleSample[]>([]);
/** Said aloud and shown for whoever acted. */
export const notice = signal('');

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
  const [path = '', asked = ''] = hash.replace(/^#\/?/, '').split('?');
  const [view = '', subject = ''] = path.split('/');
  const query = new URLSearchParams(asked);
  if (view === 'hosts' && subject !== '') return { view: 'host', subject: decoded(subject), query };
  if (view === 'hosts' || view === 'log') return { view, subject: '', query };
  if (view === 'items') return { view: 'item', subject: decoded(subject), query };
  return { view: 'overview', subject: '', query };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

export function hostPlace(key: string): string {
  return `#/hosts/${encodeURIComponent(key)}`;
}

export function itemPlace(lsn: number): string {
  return `#/items/${lsn}`;
}

/** Shows what went wrong where somebody can do something about it. */
export function failed(error: unknown): string {
  if (!(error instanceof Problem)) throw error;
  if (error.code === 'NO_SESSION') session.value = 'none';
  return error.message;
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

let stream: EventSource | undefined;

/**
 * Follows the relay while the page can be seen: a browser has few connections to one place, and those of hidden pages
 * would be missing for the others. To be called once.
 */
export function follow(): void {
  listen();
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') listen();
    else rest();
  });
  setInterval(() => {
    if (stream) void loadOverview();
  }, OVERVIEW_EVERY_MS);
}

/** The browser opens a lost stream again by itself, but not one that was refused. */
function listen(): void {
  if (stream || session.value !== 'open' || document.visibilityState !== 'visible') return;
  const opened = new EventSource('/console/live');
  stream = opened;
  opened.addEventListener('open', () => {
    connection.value = 'live';
    void loadOverview();
  });
  opened.addEventListener('sample', (event: MessageEvent<string>) => {
    const sample = JSON.parse(event.data) as ConsoleSample;
    // The overview may have brought it already.
    if (samples.value.at(-1)?.at !== sample.at) samples.value = [...samples.value, sample].slice(-SAMPLES_KEPT);
  });
  opened.addEventListener('error', () => {
    connection.value = 'lost';
    if (opened.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    // The session may be over.
    void loadOverview().then(() => setTimeout(listen, OVERVIEW_EVERY_MS));
  });
}

function rest(): void {
  stream?.close();
  stream = undefined;
  connection.value = 'connecting';
}
