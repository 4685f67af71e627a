import { expect, test } from 'vitest';
import { Activity } from '../../../../src/relay/operator/activity.ts';
import { alice, bob, hostNamed } from '../../../support/hosts.ts';
import { ManualClock } from '../../../support/manual-time.ts';

const MINUTE_MS = 60_000;

test('refusals are counted by the minute and forgotten after an hour', () => {
  const clock = new ManualClock();
  const activity = new Activity(clock);
  activity.unread('malformed', 3);
  clock.move(MINUTE_MS);
  const lastAtMs = clock.wallMs;
  activity.unread('malformed', 2);
  activity.finished({ id: '', method: 'GET', route: 'none', status: 404, code: 'NOT_FOUND', durationMs: 1 });
  expect(activity.refusals()).toEqual([
    { what: 'item', reason: 'malformed', last_at: lastAtMs, last_minute: 2, last_hour: 5 },
    { what: 'request', reason: 'NOT_FOUND', last_at: lastAtMs, last_minute: 1, last_hour: 1 },
  ]);
  clock.move(59 * MINUTE_MS);
  expect(activity.refusals()).toMatchObject([
    { reason: 'malformed', last_minute: 0, last_hour: 2 },
    { reason: 'NOT_FOUND', last_hour: 1 },
  ]);
  clock.move(MINUTE_MS);
  expect(activity.refusals()).toEqual([]);
  clock.move(1000 * MINUTE_MS);
  activity.unread('malformed', 1);
  expect(activity.refusals()).toMatchObject([{ last_minute: 1, last_hour: 1 }]);
});

test('what is taken is counted from zero again, and commit times ascend', () => {
  const activity = new Activity(new ManualClock());
  activity.pushed([
    { type: 'ItemStored', status: 'accepted', targets: [], atMs: 1 },
    { type: 'ItemStored', status: 'duplicate', targets: [], atMs: 1 },
    { type: 'ItemRejected', rejection: 'conflict' },
  ]);
  for (const durationMs of [3, 1, 20]) activity.committed({ entries: [], changes: [], payloads: [], durationMs });
  const { commitMs, ...counted } = activity.take();
  expect(counted).toEqual({ accepted: 1, acked: 0, rejected: 1, requests: 0 });
  expect([...commitMs]).toEqual([1, 3, 20]);
  expect(activity.take()).toEqual({ accepted: 0, acked: 0, rejected: 0, requests: 0, commitMs: new Float64Array(0) });
});

test('the last pull of a host is remembered, with what it was shown last; of few hosts enough', () => {
  const clock = new ManualClock();
  const activity = new Activity(clock);
  activity.pulled(alice.key, 7);
  activity.pulled(alice.key, undefined);
  expect(activity.lastPull(alice.key)).toEqual({ atMs: clock.wallMs, through: 7 });
  expect(activity.lastPull(bob.key)).toBeUndefined();
  const { key } = hostNamed('x');
  const keys = Array.from({ length: 10_000 }, (_none, at) => key.replace(/^...../, String(at).padStart(5, '0')));
  for (const other of keys) activity.pulled(other as typeof alice.key, 1);
  expect(activity.lastPull(alice.key)).toBeUndefined();
  expect(activity.lastPull(keys[0] as typeof alice.key)).toBeDefined();
});
