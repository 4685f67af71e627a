/** Actions that nobody waits for: each is begun some turns after the one before it, on a disk that takes its time. */
import * as fc from 'fast-check';
import { type Delay, microtasks, turns } from './slow-disk.ts';

interface Started<A> {
  action: A;
  /** The number of microtasks until the next action is started. */
  microtasks: number;
  turns: number;
}

export type Story<A> = readonly Started<A>[];

export function storyOf<A>(action: fc.Arbitrary<A>): fc.Arbitrary<Story<A>> {
  return fc.array(fc.record({ action, microtasks: fc.nat(6), turns: fc.constantFrom(0, 0, 0, 1, 2) }), {
    minLength: 1,
    maxLength: 40,
    size: 'max',
  });
}

/** The delays of a disk that does not fail. */
export const healthy: fc.Arbitrary<Delay[]> = fc.array(
  fc.record({ turnsBefore: fc.nat(3), turnsAfter: fc.nat(3), fails: fc.constant('no' as const) }),
  { minLength: 1, maxLength: 5 },
);

/** Begins every action at its time; answers how each ended. */
export async function play<A>(
  story: Story<A>,
  begin: (action: A) => Promise<void>,
): Promise<PromiseSettledResult<void>[]> {
  const running: Promise<void>[] = [];
  for (const started of story) {
    const run = begin(started.action);
    // It may fail before anybody looks; it is looked at in the end.
    run.catch(() => undefined);
    running.push(run);
    await microtasks(started.microtasks);
    await turns(started.turns);
  }
  return Promise.allSettled(running);
}
