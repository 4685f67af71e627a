/** Receives live events as server-sent events while the page is visible, and hidden too if the page wants that. */
import { signal } from '@preact/signals';
import { liveText } from './api.ts';
import { session } from './session.ts';

/** A lost stream is not asked for during this time: at first, and at most when nothing came again and again. */
const RETRY_MS = { first: 500, max: 10_000 };
let retryMs = RETRY_MS.first;

export const connection = signal<'connecting' | 'live' | 'lost'>('connecting');

interface LiveOptions {
  /** Handlers of the events' data, by the name of the event. */
  events: Readonly<Record<string, (data: unknown) => void>>;
  /**
   * Loads what no event brings. It is called when the stream opens, regularly while it is open, and when it is lost.
   */
  refresh: () => Promise<void>;
  refreshEveryMs: number;
  /** Says whether the page wants events while it is hidden. One hidden page of a browser gets them. */
  staysWhenHidden?: () => boolean;
}

/** The hidden page that receives events holds it. */
const HIDDEN_LOCK = 'poste-live-hidden';

/** An event as `formatEvent` writes it; comments keep the stream open. */
const EVENT = /^event: (.*)\ndata: (.*)$/;

/** Ends the open stream. */
let stream: AbortController | undefined;

/**
 * Starts to receive events. Call it once. Hidden pages have no stream, but for one: a browser has few connections to
 * one server, and the visible pages need them.
 */
export function follow(options: LiveOptions): void {
  let endHidden: (() => void) | undefined;
  if (document.visibilityState === 'visible') openStream(options);
  document.addEventListener('visibilitychange', () => {
    endHidden?.();
    endHidden = undefined;
    if (document.visibilityState === 'visible') {
      openStream(options);
      return;
    }
    closeStream();
    if (options.staysWhenHidden?.()) endHidden = followHidden(options);
  });
  setInterval(() => {
    if (stream) void options.refresh();
  }, options.refreshEveryMs);
}

/** Receives events as soon as no other hidden page does. Returns the function that ends this. */
function followHidden(options: LiveOptions): () => void {
  const ending = new AbortController();
  const { signal: ended } = ending;
  const whenEnded = new Promise<void>((resolve) => ended.addEventListener('abort', () => resolve()));
  const hold = (): Promise<void> => {
    openStream(options);
    return whenEnded;
  };
  // Rejects when it is ended before the lock is free.
  navigator.locks.request(HIDDEN_LOCK, { signal: ended }, hold).catch(() => undefined);
  return () => ending.abort();
}

function openStream(options: LiveOptions): void {
  if (stream || session.value !== 'open') return;
  const opened = new AbortController();
  stream = opened;
  void receive(options, opened.signal).catch(() => {
    // A handler may have failed, and the server goes on.
    opened.abort();
    if (stream !== opened) return;
    connection.value = 'lost';
    stream = undefined;
    const waitMs = retryMs;
    retryMs = Math.min(2 * retryMs, RETRY_MS.max);
    const again = (): unknown => setTimeout(() => reopen(options), waitMs);
    // The session may have ended; the refresh finds out.
    void options.refresh().then(again, again);
  });
}

/** Hands on the events of a new stream. Throws when it is refused or lost. */
async function receive(options: LiveOptions, signal: AbortSignal): Promise<never> {
  const reader = (await liveText(signal)).getReader();
  connection.value = 'live';
  void options.refresh();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('the stream ended');
    retryMs = RETRY_MS.first;
    const events = (text + value).split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const [, name = '', data = ''] = EVENT.exec(event) ?? [];
      options.events[name]?.(JSON.parse(data));
    }
  }
}

/** A page that was hidden meanwhile opens its stream when it is visible again. */
function reopen(options: LiveOptions): void {
  if (document.visibilityState === 'visible' || options.staysWhenHidden?.()) openStream(options);
}

function closeStream(): void {
  stream?.abort();
  stream = undefined;
  connection.value = 'connecting';
}
