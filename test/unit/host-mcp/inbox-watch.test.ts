import { expect, test } from 'vitest';
import type { DaemonLink } from '../../../src/host/mcp/daemon-link.ts';
import { InboxWatch } from '../../../src/host/mcp/inbox-watch.ts';
import { deferred } from '../../support/deferred.ts';

/** A link whose answers the test gives, in their order; the last one never comes. */
function linkOf(answers: readonly (() => Promise<unknown>)[]): Pick<DaemonLink, 'callRunning'> & { asked: unknown[] } {
  const asked: unknown[] = [];
  const callRunning = (_name: string, input: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<unknown> => {
    const answer = answers[asked.push(input) - 1];
    return (
      answer?.() ?? new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)))
    );
  };
  return { asked, callRunning: callRunning as DaemonLink['callRunning'] };
}

const unread = (mark: string, count: number) => () => Promise.resolve({ mark, unread: count });
const away = (): Promise<never> => Promise.reject(new Error('no daemon'));

test('a daemon that is away is asked again, and what changed meanwhile is told when it is back', async () => {
  const told = deferred();
  const link = linkOf([unread('0-0', 0), away, away, unread('4-1', 1)]);
  const watch = new InboxWatch(link, told.resolve, 1);
  watch.begin();
  watch.begin();
  await told.promise;
  await expect.poll(() => link.asked.length).toBe(5);
  await watch.end();
  const marks = link.asked.map((input) => (input as { mark?: string }).mark);
  expect(marks).toEqual([undefined, '0-0', '0-0', '0-0', '4-1']);
});

test('ends while it pauses, and begins again where it was', async () => {
  const link = linkOf([unread('2-2', 2), away]);
  let told = 0;
  const watch = new InboxWatch(link, () => told++, 600_000);
  watch.begin();
  await expect.poll(() => link.asked.length).toBe(2);
  await watch.end();
  watch.begin();
  await expect.poll(() => link.asked.length).toBe(3);
  await watch.end();
  expect(link.asked.at(-1)).toMatchObject({ mark: '2-2' });
  expect(told).toBe(1);
});
