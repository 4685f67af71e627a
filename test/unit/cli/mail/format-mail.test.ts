import { expect, test } from 'vitest';
import { messageText, summariesText } from '../../../../src/cli/mail/format-mail.ts';
import type { WholeMessage } from '../../../../src/host/contract/mail.ts';
import { PIPE } from '../../../support/screens.ts';

const MESSAGE: WholeMessage = {
  message_id: 'm1',
  thread: 'm1',
  reply_to: null,
  from: 'eve@there',
  to: ['bob@here'],
  to_count: 1,
  subject: 'Look\u202e',
  kind: 'request',
  needs_reply: true,
  origin: 'external',
  created_at: 1_763_675_303_000,
  stored_at: 1_763_675_303_000,
  state: 'unread',
  forwarded_from: null,
  body_bytes: 3,
  refs: ['a ref'],
  body: 'a\n\tb',
  next_body_offset: null,
};

test('a list says what needs a reply and what comes from outside, and obeys no character of a peer', () => {
  expect(summariesText(PIPE, [MESSAGE]).split('\n')[1]).toMatch(
    /^m1 +unread +request, needs reply, from outside +eve@there +2025-11-20T21:48:23.000Z +Look\\u\{202e\}$/,
  );
});

test('a message has its head, its references, and every line of its body behind a bar', () => {
  const text = messageText(PIPE, MESSAGE);
  expect(text).toContain('from     eve@there (content from outside)\n');
  expect(text).toContain('kind     request, needs a reply\n');
  expect(text.endsWith('ref      a ref\n| a\n| \tb\n')).toBe(true);
});
