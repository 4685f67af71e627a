/**
 * Cleans up when a test is over, also where tests run side by side: vitest's own hook knows only the test that began
 * last.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type TestContext, onTestFinished } from 'vitest';

type Cleanup = () => Promise<void> | void;
type Register = (work: Cleanup) => void;

const ofThisTest = new AsyncLocalStorage<Register>();

/** Does `work` when the test that calls this is over; what was registered last is done first. */
export function atTestEnd(work: Cleanup): void {
  const register: Register = ofThisTest.getStore() ?? onTestFinished;
  register(work);
}

/** The body of a test that runs beside others: what it registers with `atTestEnd` is its own. */
export function besideOthers<T>(body: (each: T, context: TestContext) => Promise<void>) {
  return (each: T, context: TestContext): Promise<void> =>
    ofThisTest.run(
      (work) => context.onTestFinished(work),
      () => body(each, context),
    );
}

/** Does `work`, and what it registered with `atTestEnd` when it is over, not only when the test is. */
export async function withOwnEnd<T>(work: () => Promise<T>): Promise<T> {
  const registered: Cleanup[] = [];
  try {
    return await ofThisTest.run((cleanup) => void registered.push(cleanup), work);
  } finally {
    for (const cleanup of registered.toReversed()) await cleanup();
  }
}
