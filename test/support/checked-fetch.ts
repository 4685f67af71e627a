/**
 * Holds what `fetch` brings back from a relay to the OpenAPI document, in every test file (vitest.config.ts): the client
 * of src/host and the tests themselves use it. The test fails even where it takes the error for a lost connection.
 */
import { afterAll, afterEach } from 'vitest';
import { NO_RELAY_HEADER } from './flaky-proxy.ts';

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
// The files that a worker runs share what is global, and each begins with this one.
afterAll(() => {
  globalThis.fetch = plainFetch;
});

afterEach(() => {
  const [fault] = faults.splice(0);
  if (fault !== undefined) throw fault;
});
