/** Mail as answers carry it: what equals the usual is left out, and filled in again without a difference. */
import { describe, expect, test } from 'vitest';
import { type FullSummary, fullMessage, fullSummary, withoutUsual } from '../../../../src/host/contract/usual-mail.ts';

const READER = 'bob@here';

const USUAL: FullSummary = {
  message_id: 'm2',
  thread: 'm2',
  reply_to: null,
  from: 'eve@there',
  to: [READER],
  to_count: 1,
  subject: 's',
  kind: 'message',
  needs_reply: false,
  origin: 'agent',
  created_at: '2026-11-28T11:02:03Z',
  stored_at: '2026-11-28T11:02:03Z',
  state: 'unread',
  forwarded_from: null,
  body_bytes: null,
};

const ALWAYS = new Set(['message_id', 'from', 'subject', 'created_at']);

describe('a summary', () => {
  test.each<[change: Partial<FullSummary>, told: string[]]>([
    [{}, []],
    [{ thread: 'm1' }, ['thread']],
    [{ reply_to: 'm1', thread: 'm1', kind: 'reply' }, ['reply_to']],
    [{ reply_to: 'm1', thread: 'm0', kind: 'reply' }, ['thread', 'reply_to']],
    [{ reply_to: 'm1', thread: 'm1', kind: 'message' }, ['reply_to', 'kind']],
    [{ kind: 'reply' }, ['kind']],
    [{ to: [READER, 'carol@here'], to_count: 2 }, ['to']],
    [{ to: [READER, 'carol@here'], to_count: 30 }, ['to', 'to_count']],
    [{ state: 'sent', to: ['eve@there'] }, ['to', 'state']],
    [{ kind: 'task', needs_reply: true }, ['kind', 'needs_reply']],
    [{ origin: 'external' }, ['origin']],
    [{ stored_at: '2026-11-28T11:02:04Z' }, ['stored_at']],
    [{ state: 'read' }, ['state']],
    [{ forwarded_from: 'bert' }, ['forwarded_from']],
    [{ body_bytes: 1024 }, ['body_bytes']],
  ])('of a message with %j says %j, and nothing is lost', (change, told) => {
    const full = { ...USUAL, ...change };
    const summary = withoutUsual(full);
    expect(Object.keys(summary).filter((name) => !ALWAYS.has(name))).toEqual(told);
    expect(fullSummary(summary, READER)).toEqual(full);
  });

  test('says no size of a short body', () => {
    expect(withoutUsual({ ...USUAL, body_bytes: 1023 })).toEqual(withoutUsual(USUAL));
  });
});

test('a whole message has its references and the place where its body goes on', () => {
  const summary = withoutUsual(USUAL);
  expect(fullMessage({ ...summary, body: 'b' }, READER)).toEqual({
    ...USUAL,
    body: 'b',
    refs: [],
    next_body_offset: null,
    outcome: {},
  });
  const cut = { refs: ['r'], body: 'b', next_body_offset: 7 };
  expect(fullMessage({ ...summary, ...cut }, READER)).toEqual({ ...USUAL, ...cut, outcome: {} });
});

test('a message of the reader has its recipients with what became of it', () => {
  const recipients = [{ to: 'eve@there', state: 'read', at: USUAL.created_at } as const];
  const { to: _to, ...summary } = withoutUsual({ ...USUAL, state: 'sent', to: ['eve@there'] });
  const sent = fullMessage({ ...summary, body: 'b', recipients, recipient_count: 30 }, READER);
  expect(sent).toMatchObject({ to: ['eve@there'], to_count: 30, outcome: { recipients, recipient_count: 30 } });
});
