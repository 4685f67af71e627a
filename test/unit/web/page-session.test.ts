/**
 * Tests what a page does in its window: how it gets the token of another window, and when it asks for live events
 * again.
 */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';

/** The channel between the windows; what this window listens with can be counted. */
class Channel extends EventTarget {
  static opened: Channel;
  readonly listeners = new Set<unknown>();
  readonly told: unknown[] = [];

  constructor() {
    super();
    Channel.opened = this;
  }

  override addEventListener(type: string, listener: (event: Event) => void): void {
    this.listeners.add(listener);
    super.addEventListener(type, listener);
  }

  override removeEventListener(type: string, listener: (event: Event) => void): void {
    this.listeners.delete(listener);
    super.removeEventListener(type, listener);
  }

  postMessage(data: unknown): void {
    this.told.push(data);
  }

  hear(data: unknown): void {
    this.dispatchEvent(new MessageEvent('message', { data }));
  }
}

/** The part of the page's files that is used: they are typed for a browser, and this file is not. */
interface PageFiles {
  api: { resume: () => Promise<void> };
  live: {
    connection: { value: string };
    follow: (options: {
      events: Readonly<Record<string, (data: unknown) => void>>;
      refresh: () => Promise<void>;
      refreshEveryMs: number;
    }) => void;
  };
  session: { session: { value: string } };
}

async function loaded<Name extends keyof PageFiles>(name: Name): Promise<PageFiles[Name]> {
  return (await import(`../../../src/web/shared/${name}.ts`)) as PageFiles[Name];
}

const asked = vi.fn<(path: string, options: RequestInit) => Promise<Response>>();

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  asked.mockReset().mockImplementation(() => Promise.resolve(Response.json({})));
  const kept = new Map<string, string>();
  vi.stubGlobal('BroadcastChannel', Channel);
  vi.stubGlobal('fetch', asked);
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  });
  vi.stubGlobal('document', { visibilityState: 'visible', addEventListener: () => undefined });
  onTestFinished(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
});

test('a new window waits for a token, not for the question of another new one, and listens no longer', async () => {
  const { resume } = await loaded('api');
  const listening = Channel.opened.listeners.size;
  const resumed = resume();
  Channel.opened.hear('');
  Channel.opened.hear(7);
  await vi.advanceTimersByTimeAsync(100);
  expect(asked).not.toHaveBeenCalled();
  Channel.opened.hear('the token');
  await resumed;
  expect(asked.mock.calls.map(([, { headers }]) => headers)).toEqual([{ 'x-poste-csrf': 'the token' }]);
  expect(Channel.opened.listeners.size).toBe(listening);
});

test('a new window alone goes on without a token, and listens no longer', async () => {
  const { resume } = await loaded('api');
  const listening = Channel.opened.listeners.size;
  const resumed = resume();
  await vi.advanceTimersByTimeAsync(500);
  await resumed;
  expect(Channel.opened.told).toEqual(['']);
  expect(Channel.opened.listeners.size).toBe(listening);
});

test('a lost stream is ended, and asked for again after a time that grows until something comes', async () => {
  const { follow, connection } = await loaded('live');
  const { session } = await loaded('session');
  session.value = 'open';
  let isBroken = true;
  asked.mockImplementation(() => {
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        if (!isBroken) stream.enqueue(new TextEncoder().encode('event: mail\ndata: 1\n\n'));
        else stream.error(new Error('cut'));
      },
    });
    return Promise.resolve(new Response(body));
  });
  let failsAt = 1;
  const events = {
    mail: (): void => {
      if (failsAt-- > 0) throw new Error('a handler failed');
    },
  };
  let refreshes = 0;
  // The first refresh of an open stream is not waited for; that of a lost one is, and may fail.
  follow({
    events,
    refresh: () => (refreshes++ % 2 === 0 ? Promise.resolve() : Promise.reject(new Error('away'))),
    refreshEveryMs: 3_600_000,
  });
  const signals = (): (AbortSignal | null | undefined)[] => asked.mock.calls.map(([, { signal }]) => signal);
  await vi.advanceTimersByTimeAsync(0);
  expect([connection.value, signals().length, signals().at(-1)?.aborted]).toEqual(['lost', 1, true]);
  for (const [waitMs, times] of [
    [500, 2],
    [1000, 3],
    [2000, 4],
    [4000, 5],
    [8000, 6],
    [10_000, 7],
  ] as const) {
    await vi.advanceTimersByTimeAsync(waitMs - 1);
    expect(signals()).toHaveLength(times - 1);
    await vi.advanceTimersByTimeAsync(1);
    expect(signals()).toHaveLength(times);
  }
  // A stream that brought something and whose handler failed: it is ended, and the time is short again.
  isBroken = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect([connection.value, signals().length, signals().at(-1)?.aborted]).toEqual(['lost', 8, true]);
  await vi.advanceTimersByTimeAsync(500);
  expect([connection.value, signals().length, signals().at(-1)?.aborted]).toEqual(['live', 9, false]);
});
