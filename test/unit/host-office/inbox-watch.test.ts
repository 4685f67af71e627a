import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { removeAgent } from '../../../src/host/office/agents.ts';
import { useInbox } from '../../../src/host/office/inbox.ts';
import { watchInbox } from '../../../src/host/office/inbox-watch.ts';
import { ManualTimers } from '../../support/manual-time.ts';
import { accepted, idOf, officeOf, refused, send } from '../../support/mail-office.ts';

const WAIT_MS = 50_000;

test('a wait ends with its time, with what changes, and when whoever asked has gone; nothing of it is left', async () => {
  const office = await officeOf(['eve', 'bob']);
  const bob = await idOf(office, 'bob');
  const timers = new ManualTimers();
  const gone = new AbortController();
  const watch = (mark?: string): ReturnType<typeof watchInbox> =>
    watchInbox(office, timers, bob, { wait_ms: WAIT_MS, ...(mark !== undefined && { mark }) }, gone.signal);
  const first = accepted(await watch());
  expect(first).toMatchObject({ unread: 0, summaries: [] });

  const late = watch(first.mark);
  timers.pass(WAIT_MS);
  expect(await late).toEqual(first);

  const changing = watch(first.mark);
  accepted(await send(office, 'bob', { to: ['eve'] }));
  accepted(await send(office, 'eve', { to: ['bob'], subject: 'one' }));
  const one = accepted(await changing);
  expect(one).toMatchObject({ unread: 1, total: 1, summaries: [{ subject: 'one' }] });

  const reading = watch(one.mark);
  const message_ids = one.summaries.map(({ message_id }) => message_id);
  accepted(await useInbox(office, bob, { action: 'read', message_ids }));
  expect(accepted(await reading)).toMatchObject({ unread: 0, total: 1 });

  const cut = watch(accepted(await watch()).mark);
  gone.abort();
  expect(accepted(await cut)).toMatchObject({ unread: 0 });
  expect(getEventListeners(gone.signal, 'abort')).toEqual([]);
  expect(timers.underWay(WAIT_MS)).toBe(0);
});

test('the same number of other messages is another mark', async () => {
  const office = await officeOf(['eve', 'bob']);
  const bob = await idOf(office, 'bob');
  const ask = (): ReturnType<typeof watchInbox> =>
    watchInbox(office, new ManualTimers(), bob, {}, new AbortController().signal);
  const { message_id } = accepted(await send(office, 'eve', { to: ['bob'] }));
  const before = accepted(await ask());
  accepted(await useInbox(office, bob, { action: 'mark_read', message_ids: [message_id] }));
  accepted(await send(office, 'eve', { to: ['bob'] }));
  const after = accepted(await ask());
  expect([before.unread, after.unread]).toEqual([1, 1]);
  expect(after.mark).not.toBe(before.mark);
  accepted(await removeAgent(office, { name: 'bob' }));
  expect(refused(await ask())).toMatchObject({ code: 'NO_SUCH_AGENT' });
});
