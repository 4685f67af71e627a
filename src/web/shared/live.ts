/** Receives live events as server-sent events while the page is visible. */
import { signal } from '@preact/signals';
import { session } from './session.ts';

const LOST_RETRY_MS = 10_000;

export const connection = signal<'connecting' | 'live' | 'lost'>('connecting');

interface LiveOptions {
  /** Handlers of the events' data, by the name of the event. */
  events: Readonly<Record<string, (data: unknown) => void>>;
  /** Loads what no event brings. Called when the stream opens, regularly while it is open, and when it is lost. */
  refresh: () => Promise<void>;
  refreshEveryMs: number;
}

let stream: EventSource | undefined;

/**
 * Starts to receive events. Call it once. A hidden page closes its stream: a browser has few connections to one server,
 * and the visible pages need them.
 */
export function follow(options: LiveOptions): void {
  openStream(options);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') openStream(options);
    else closeStream();
  });
  setInterval(() => {
    if (stream) void options.refresh();
  }, options.refreshEveryMs);
}

/** A browser reopens a lost stream by itself, but not a refused one. */
function openStream(options: LiveOptions): void {
  if (stream || session.value !== 'open' || document.visibilityState !== 'visible') return;
  const opened = new EventSource('live');
  stream = opened;
  opened.addEventListener('open', () => {
    connection.value = 'live';
    void options.refresh();
  });
  for (const [name, handle] of Object.entries(options.events)) {
    opened.addEventListener(name, (event: MessageEvent<string>) => handle(JSON.parse(event.data)));
  }
  opened.addEventListener('error', () => {
    connection.value = 'lost';
    if (opened.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    // The session may have ended; the refresh finds out.
    void options.refresh().then(() => setTimeout(() => openStream(options), LOST_RETRY_MS));
  });
}

function closeStream(): void {
  stream?.close();
  stream = undefined;
  connection.value = 'connecting';
}
