/** Asks again and again, for helpers of tests: in a test itself `expect.poll` says what differs. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { PATIENCE_MS } from './patience.ts';

const EVERY_MS = 50;

/** The first answer that is as wanted, or the last one when none was in time. */
export async function eventually<T>(ask: () => Promise<T>, isWanted: (answer: T) => boolean): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (isWanted(answer) || performance.now() > deadline) return answer;
    await elapsed(EVERY_MS);
  }
}
