import { expect, test } from 'vitest';
import { messageText, summariesText } from '../../../../src/cli/mail/mailbox.ts';
import { deliveryText, sentListText } from '../../../../src/cli/mail/send.ts';
import type { WholeMessage } from '../../../../src/host/contract/mail.ts';
import type { SentMessage } from '../../../../src/host/contract/sent-mail.ts';
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

test('a message of the agent itself says how far it came', () => {
  const recipients = [{ to: 'bob@here', state: 'read', at: 1 } as const];
  expect(messageText(PIPE, { ...MESSAGE, recipients })).toContain('to       bob@here (read)\n');
  const many = messageText(PIPE, { ...MESSAGE, recipients, recipient_count: 30 });
  expect(many).toContain('to       bob@here (read) and 29 more\n');
});

const AT = 1_763_675_303_000;
const MINUTE_MS = 60_000;

const SENT: SentMessage = {
  message_id: 'm1',
  thread: 't1',
  subject: 'Ready \u001b[2J',
  kind: 'request',
  needs_reply: true,
  created_at: AT,
  recipients: [
    {
      recipient: 'bob@there',
      state: 'read',
      at: AT + MINUTE_MS,
      steps: [
        { state: 'stored', at: AT },
        { state: 'read', at: AT + MINUTE_MS },
      ],
    },
    { recipient: 'carol@here', state: 'delivered', at: AT, steps: [{ state: 'delivered', at: AT }] },
  ],
};

test('a list has a line for each recipient, and says what is common once', () => {
  const lines = sentListText(PIPE, [SENT]).split('\n');
  expect(lines[1]).toMatch(
    /^m1 +2025-11-20T21:48:23.000Z +bob@there +read +2025-11-20T21:49:23.000Z +Ready \\u\{1b\}\[2J$/,
  );
  expect(lines[2]).toMatch(/^ +carol@here +delivered +2025-11-20T21:48:23.000Z$/);
  expect(lines).toHaveLength(4);
});

test('one message is shown with its way to each recipient, in order', () => {
  expect(deliveryText(PIPE, SENT)).toBe(
    [
      'message  m1',
      'thread   t1',
      'sent     2025-11-20T21:48:23.000Z',
      'kind     request',
      'subject  Ready \\u{1b}[2J',
      'to bob@there',
      '  2025-11-20T21:48:23.000Z  stored       waits here for its host',
      '  2025-11-20T21:49:23.000Z  read         read',
      'to carol@here',
      '  2025-11-20T21:48:23.000Z  delivered    stored in its mailbox',
      '',
    ].join('\n'),
  );
});
