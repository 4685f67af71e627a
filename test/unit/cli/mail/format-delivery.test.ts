import { expect, test } from 'vitest';
import { deliveryText, sentListText } from '../../../../src/cli/mail/mailbox.ts';
import type { SentMessage } from '../../../../src/host/contract/mail.ts';
import { PIPE } from '../../../support/screens.ts';

const AT = 1_763_675_303_000;
const MINUTE_MS = 60_000;

const MESSAGE: SentMessage = {
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
        { state: 'pending', at: AT },
        { state: 'read', at: AT + MINUTE_MS },
      ],
    },
    { recipient: 'carol@here', state: 'delivered', at: AT, steps: [{ state: 'delivered', at: AT }] },
  ],
};

test('a list has a line for each recipient, and says what is common once', () => {
  const lines = sentListText(PIPE, [MESSAGE]).split('\n');
  expect(lines[1]).toMatch(
    /^m1 +2025-11-20T21:48:23.000Z +bob@there +read +2025-11-20T21:49:23.000Z +Ready \\u\{1b\}\[2J$/,
  );
  expect(lines[2]).toMatch(/^ +carol@here +delivered +2025-11-20T21:48:23.000Z$/);
  expect(lines).toHaveLength(4);
});

test('one message is shown with its way to each recipient, in order', () => {
  expect(deliveryText(PIPE, MESSAGE)).toBe(
    [
      'message  m1',
      'thread   t1',
      'sent     2025-11-20T21:48:23.000Z',
      'kind     request',
      'subject  Ready \\u{1b}[2J',
      'to bob@there',
      '  2025-11-20T21:48:23.000Z  pending      waits for its host',
      '  2025-11-20T21:49:23.000Z  read         read',
      'to carol@here',
      '  2025-11-20T21:48:23.000Z  delivered    stored in its mailbox',
      '',
    ].join('\n'),
  );
});
