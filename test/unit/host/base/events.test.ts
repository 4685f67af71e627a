import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { EventBus, LISTENERS } from '../../../../src/host/base/context.ts';
import type { AgentId } from '../../../../src/host/core/rows.ts';

const HOST = join(import.meta.dirname, '../../../../src/host');
const agentId = 'a' as AgentId;

test('an event calls the listeners of its row, in the order of the row, and those that left no more', () => {
  const bus = new EventBus();
  const called: string[] = [];
  const call = (name: string) => (): void => void called.push(name);
  const people = { 'session-registered': call('page'), 'agents-changed': call('page'), 'peers-changed': call('page') };
  bus.subscribe('page', {
    ...people,
    'session-ended': call('page'),
    'mail-stored': call('page'),
    'mail-handled': call('page'),
    'sent-changed': call('page'),
  });
  const inbox = { 'mail-stored': call('inbox'), 'mail-handled': call('inbox') };
  const leave = bus.subscribe('inbox', inbox);
  bus.subscribe('inbox', inbox);
  bus.subscribe('sessions', { 'session-ended': call('sessions') });
  bus.emit({ type: 'mail-handled', agentId });
  expect(called.splice(0)).toEqual(['inbox', 'inbox', 'page']);
  leave();
  bus.emit({ type: 'mail-handled', agentId });
  bus.emit({ type: 'session-ended', agentId, sessionId: 's' });
  expect(called).toEqual(['inbox', 'page', 'sessions', 'page']);
});

test('a listener that takes too few events, too many or none of its own does not compile', () => {
  const bus = new EventBus();
  let calls = 0;
  const call = (): void => void calls++;
  // @ts-expect-error: `session-ended` is missing.
  bus.subscribe('sessions', {});
  // @ts-expect-error: the outbox does not hear of mail.
  bus.subscribe('outbox', { 'outbox-changed': call, 'mail-handled': call });
  // @ts-expect-error: no row has such a listener.
  bus.subscribe('nobody', { 'mail-handled': call });
  bus.emit({ type: 'mail-handled', agentId });
  expect(calls).toBe(0);
});

test('each listener of the table is subscribed by one file of the host', () => {
  const files = readdirSync(HOST, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const text = files.map((file) => readFileSync(join(HOST, file), 'utf8')).join('\n');
  const names = [...text.matchAll(/subscribe\('([a-z]+)', \{/g)].map(([, name]) => name);
  expect(names).toHaveLength(new Set(names).size);
  expect(new Set(names)).toEqual(new Set(Object.values(LISTENERS).flat()));
});
