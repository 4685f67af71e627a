/** Tests how long the adapter of uWebSockets.js keeps an idle connection, over a server of the test's own. */
import { afterEach, expect, test, vi } from 'vitest';
import { IDLE_TIMEOUT_MS } from '../../../../src/http/exchange.ts';
import { listenUws } from '../../../../src/relay/http/uws-connection.ts';

/** uWebSockets.js closes an idle connection as early as this. */
const UWS_IDLE_MS = 8_000;

afterEach(() => void vi.useRealTimers());

/** A connection as uWebSockets.js shows it: what it does to its response, and how it gets a request. */
async function connection() {
  const done: string[] = [];
  let data: ((chunk: ArrayBuffer, isLast: boolean) => void) | undefined;
  let aborted: (() => void) | undefined;
  let opened: ((res: unknown, count: number) => void) | undefined;
  let requested: ((res: unknown, req: unknown) => void) | undefined;
  const res = {
    onAborted: (run: () => void) => void (aborted = run),
    onData: (run: typeof data) => void (data = run),
    getRemoteAddressAsText: () => new TextEncoder().encode('127.0.0.1').buffer,
    cork: (run: () => void) => run(),
    writeStatus: () => undefined,
    writeHeader: () => undefined,
    end: () => void done.push('end'),
    resume: () => void done.push('resume'),
  };
  const app = {
    filter: (run: typeof opened) => void (opened = run),
    any: (_path: string, run: typeof requested) => void (requested = run),
    listen: (_host: string, _port: number, _options: unknown, run: (socket: object) => void) => run({}),
  };
  const uws = { App: () => app, us_socket_local_port: () => 1, LIBUS_LISTEN_EXCLUSIVE_PORT: 1 };
  await listenUws({ uws: uws as never, version: '0' })({
    host: '127.0.0.1',
    port: 0,
    handler: (exchange) => exchange.reply({ status: 200, headers: {}, body: '' }),
  });
  opened?.(res, 1);
  const request = (): void => {
    requested?.(res, {
      forEach: () => undefined,
      getQuery: () => undefined,
      getUrl: () => '/',
      getCaseSensitiveMethod: () => 'GET',
    });
    data?.(new ArrayBuffer(0), true);
  };
  return { done, request, gone: () => aborted?.() };
}

test('an idle connection is kept once beyond the time of uWebSockets.js, as long as every server does', async () => {
  vi.useFakeTimers();
  const one = await connection();
  one.request();
  vi.advanceTimersByTime(IDLE_TIMEOUT_MS - UWS_IDLE_MS - 1);
  // Its time begins anew with each answer.
  one.request();
  vi.advanceTimersByTime(IDLE_TIMEOUT_MS - UWS_IDLE_MS - 1);
  expect(one.done).toEqual(['end', 'end']);
  vi.advanceTimersByTime(1);
  expect(one.done).toEqual(['end', 'end', 'resume']);
  vi.advanceTimersByTime(10 * IDLE_TIMEOUT_MS);
  expect(one.done).toHaveLength(3);
});

test('a connection that is gone is not touched', async () => {
  vi.useFakeTimers();
  const one = await connection();
  one.request();
  one.gone();
  vi.advanceTimersByTime(IDLE_TIMEOUT_MS);
  expect(one.done).toEqual(['end']);
});
