import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { removeAgent } from '../../../../src/host/agents/agents.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { watchInbox } from '../../../../src/host/mail/inbox-waits.ts';
import type { MessageRef } from '../../../../src/host/core/rows.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { accepted, idOf, contextOf, refused, send } from '../../../support/mail-context.ts';

const WAIT_MS = 50_000;

test('a wait ends with its time, with what changes, and when the caller has gone; nothing of it is left', async () => {
  const context = await contextOf(['eve', 'bob']);
  const bob = await idOf(context, 'bob');
  const timers = new ManualTimers();
  const gone = new AbortController();
  const watch = (mark?: string): ReturnType<typeof watchInbox> =>
    watchInbox(context, timers, bob, { wait_ms: WAIT_MS, ...(mark !== undefined && { mark }) }, gone.signal);
  const first = accepted(await watch());
  expect(first).toMatchObject({ unread: 0, summaries: [] });

  const late = watch(first.mark);
  timers.pass(WAIT_MS);
  expect(await late).toEqual(first);

  const changing = watch(first.mark);
  accepted(await send(context, 'bob', { to: ['eve'] }));
  accepted(await send(context, 'eve', { to: ['bob'], subject: 'one' }));
  const one = accepted(await changing);
  expect(one).toMatchObject({ unread: 1, total: 1, summaries: [{ subject: 'one' }] });

  const reading = watch(one.mark);
  const message_ids = one.summaries.map(({ message_id }) => message_id);
  accepted(await useInbox(context, bob, { action: 'read', message_ids }));
  expect(accepted(await reading)).toMatchObject({ unread: 0, total: 1 });

  const cut = watch(accepted(await watch()).mark);
  gone.abort();
  expect(accepted(await cut)).toMatchObject({ unread: 0 });
  expect(getEventListeners(gone.signal, 'abort')).toEqual([]);
  expect(timers.underWay(WAIT_MS)).toBe(0);
});

test('the same number of other messages is another mark', async () => {
  const context = await contextOf(['eve', 'bob']);
  const bob = await idOf(context, 'bob');
  const ask = (): ReturnType<typeof watchInbox> =>
    watchInbox(context, new ManualTimers(), bob, {}, new AbortController().signal);
  const { message_id } = accepted(await send(context, 'eve', { to: ['bob'] }));
  const before = accepted(await ask());
  accepted(await useInbox(context, bob, { action: 'mark_read', message_ids: [message_id] }));
  accepted(await send(context, 'eve', { to: ['bob'] }));
  const after = accepted(await ask());
  expect([before.unread, after.unread]).toEqual([1, 1]);
  expect(after.mark).not.toBe(before.mark);
  accepted(await removeAgent(context, { name: 'bob' }));
  expect(refused(await ask())).toMatchObject({ code: 'NO_SUCH_AGENT' });
});

test('a watch shows the oldest first when that is asked for, under the same mark', async () => {
  const context = await contextOf(['eve', 'bob']);
  const bob = await idOf(context, 'bob');
  const subjects = Array.from({ length: 25 }, (_, at) => `mail ${at}`);
  for (const subject of subjects) accepted(await send(context, 'eve', { to: ['bob'], subject }));
  const ask = async (oldest_first: boolean) =>
    accepted(await watchInbox(context, new ManualTimers(), bob, { oldest_first }, new AbortController().signal));
  const [newest, oldest] = [await ask(false), await ask(true)];
  expect(oldest.summaries.map(({ subject }) => subject)).toEqual(subjects.slice(0, 20));
  expect(newest.summaries.map(({ subject }) => subject)).toEqual(subjects.slice(5).toReversed());
  expect(oldest.mark).toBe(newest.mark);
});

test('a list that peeks leaves new mail unnotified', async () => {
  const context = await contextOf(['eve', 'bob']);
  const bob = await idOf(context, 'bob');
  const { message_id } = accepted(await send(context, 'eve', { to: ['bob'] }));
  const sentState = () => context.store.read((reader) => reader.get('sent', message_id as MessageRef)?.recipients[0]);
  accepted(await useInbox(context, bob, { peek: true }));
  expect(await sentState()).toMatchObject({ state: 'delivered' });
  accepted(await useInbox(context, bob, {}));
  expect(await sentState()).toMatchObject({ state: 'notified' });
});
