/**
 * Holds what `fetch` and node:http bring back from a relay to the OpenAPI document, in every test file
 * (vitest.config.ts): tests use the one, the client of src/host the other. An answer that is not documented fails the
 * test, whatever that made of it.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { afterAll, afterEach } from 'vitest';
import { NO_RELAY_HEADER, passedOn } from './flaky-proxy.ts';

const RELAY_PATH = /\/v[12]\/relay\/|^\/(?:livez|readyz|healthz|metrics|openapi\.json)$/;

const plainFetch = globalThis.fetch;
const faults: unknown[] = [];

async function checkedFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await plainFetch(input, init);
  const { url, method } = new Request(input, { ...init, body: null });
  const { pathname, search } = new URL(url);
  if (!RELAY_PATH.test(pathname) || response.headers.has(NO_RELAY_HEADER)) return response;
  // Loaded when it is needed: most test files ask no relay anything.
  const { expectDocumented } = await import('./documented-answers.ts');
  const body = method === 'HEAD' ? undefined : Buffer.from(await response.clone().arrayBuffer());
  const headers = new Map(response.headers);
  try {
    expectDocumented({ method, target: pathname + search }, { status: response.status, headers, body });
  } catch (error) {
    faults.push(error);
    throw error;
  }
  return response;
}

globalThis.fetch = checkedFetch;

const ANSWERED = 'http.client.response.finish';
/** Checks under way. */
const checks = new Set<Promise<void>>();

/** Every answer to node:http in this process, before its caller sees it. */
function answered(message: unknown): void {
  const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
  // What a proxy passes on is checked where it arrives.
  if (passedOn.has(request) || request.socket?.remoteAddress === undefined) return;
  if (!RELAY_PATH.test(request.path.split('?')[0] ?? '') || NO_RELAY_HEADER in response.headers) return;
  const chunks: Buffer[] = [];
  response.on('data', (chunk: Buffer) => void chunks.push(chunk));
  response.once('end', () => {
    const check = checkAnswer(request, response, Buffer.concat(chunks)).finally(() => checks.delete(check));
    checks.add(check);
  });
}

async function checkAnswer(
  { method, path: target }: ClientRequest,
  response: IncomingMessage,
  body: Buffer,
): Promise<void> {
  const { expectDocumented } = await import('./documented-answers.ts');
  const headers = new Map(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
  try {
    expectDocumented({ method, target }, { status: response.statusCode ?? 0, headers, body });
  } catch (error) {
    faults.push(error);
  }
}

subscribe(ANSWERED, answered);
// The files that a worker runs share what is global, and each begins with this one.
afterAll(() => {
  globalThis.fetch = plainFetch;
  unsubscribe(ANSWERED, answered);
});

afterEach(async () => {
  await Promise.all(checks);
  const [fault] = faults.splice(0);
  if (fault !== undefined) throw fault;
});
