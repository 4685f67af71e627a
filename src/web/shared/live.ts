/** Follows what happens by server-sent events, as long as the page can be seen. */
import { signal } from '@preact/signals';
import { session } from './session.ts';

const LOST_RETRY_MS = 10_000;

export const connection = signal<'connecting' | 'live' | 'lost'>('connecting');

export interface Followed {
  /** What is done with the data of each event, by its name. */
  events: Readonly<Record<string, (data: unknown) => void>>;
  /** Asks for what no event brings: when the stream opens, every so often while it is open, and when it is lost. */
  refresh: () => Promise<void>;
  refreshEveryMs: number;
}

let stream: EventSource | undefined;

/**
 * A browser has few connections to one place, and those of hidden pages would be missing for the others. To be called
 * once.
 */
export function follow(followed: Followed): void {
  listen(followed);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') listen(followed);
    else rest();
  });
  setInterval(() => {
    if (stream) void followed.refresh();
  }, followed.refreshEveryMs);
}

/** The browser opens a lost stream again by itself, but not one that was refused. */
function listen(followed: Followed): void {
  if (stream || session.value !== 'open' || document.visibilityState !== 'visible') return;
  const opened = new EventSource('live');
  stream = opened;
  opened.addEventListener('open', () => {
    connection.value = 'live';
    void followed.refresh();
  });
  for (const [name, take] of Object.entries(followed.events)) {
    opened.addEventListener(name, (event: MessageEvent<string>) => take(JSON.parse(event.data)));
  }
  opened.addEventListener('error', () => {
    connection.value = 'lost';
    if (opened.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    // The session may be over.
    void followed.refresh().then(() => setTimeout(() => listen(followed), LOST_RETRY_MS));
  });
}

function rest(): void {
  stream?.close();
  stream = undefined;
  connection.value = 'connecting';
}
