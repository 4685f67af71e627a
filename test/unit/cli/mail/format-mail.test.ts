import { expect, test } from 'vitest';
import { messageText, summariesText } from '../../../../src/cli/mail/mail-text.ts';
import { deliveryText, sentListText, sentText } from '../../../../src/cli/mail/send.ts';
import type { SentMessage } from '../../../../src/host/contract/sent-mail.ts';
import { fullMessage } from '../../../../src/host/contract/usual-mail.ts';
import { adviceToWake } from '../../../../src/host/core/waking.ts';
import { PIPE, terminal } from '../../../support/screens.ts';

const AT = '2025-11-20T21:48:23Z';
const LATER = '2025-11-20T21:49:23Z';

const MESSAGE = fullMessage(
  {
    message_id: 'm1',
    from: 'eve@there',
    subject: 'Look\u202e',
    kind: 'request',
    needs_reply: true,
    origin: 'external',
    created_at: AT,
    refs: ['a ref'],
    body: 'a\n\tb',
  },
  'bob',
);

test('a list says what needs a reply and what comes from outside, and obeys no character of a peer', () => {
  expect(summariesText(PIPE, [MESSAGE]).split('\n')[1]).toMatch(
    /^m1 +unread +request, needs reply, from outside +eve@there +2025-11-20T21:48:23Z +Look\\u\{202e\}$/,
  );
});

const TWO = [
  fullMessage(
    { message_id: 'm1', from: 'eve@there', subject: 'Look', needs_reply: true, created_at: AT, body: '' },
    'bob',
  ),
  fullMessage({ message_id: 'm2', from: 'ann@here', subject: 'Then', kind: 'status', created_at: AT, body: '' }, 'bob'),
];
const NUMBERS = new Map([
  ['m1', 12],
  ['m2', 3],
]);

test('on a terminal a list has numbers, a mark for what needs a reply, and no state that all have', () => {
  const moment = '2025-11-20 21:48';
  const later = terminal(80, { nowMs: Date.parse(AT) + 3 * 86_400_000 });
  expect(summariesText(later, TWO, NUMBERS)).toBe(
    [
      ' #  !  KIND     FROM       STORED            SUBJECT',
      `12  !  message  eve@there  ${moment}  Look`,
      ` 3     status   ann@here   ${moment}  Then`,
      '',
    ].join('\n'),
  );
  const mixed = summariesText(later, [TWO[0]!, { ...TWO[1]!, state: 'read' }], NUMBERS);
  expect(mixed).toMatch(/^ #  STATE   !  KIND .*\n12  unread  !  message .*\n 3  read       status /);
  expect(summariesText(later, [TWO[1]!], NUMBERS)).not.toContain('!');
  expect(summariesText(PIPE, TWO, new Map()).split('\n')[0]).toMatch(/^MESSAGE +STATE +KIND +FROM +STORED +SUBJECT$/);
});

test('a narrow terminal has two lines for a message, neither wider than it', () => {
  const subject = 'A subject that is longer than the terminal is wide, and goes on';
  const screen = terminal(40, { nowMs: Date.parse(AT) + 60_000 });
  const text = summariesText(screen, [{ ...TWO[0]!, from: `${'e'.repeat(50)}@there`, subject }, TWO[1]!], NUMBERS);
  const lines = text.split('\n');
  expect(lines).toEqual([
    expect.stringMatching(/^12 ! e+… {2}1 min ago$/) as string,
    expect.stringMatching(/^ {4}A subject that is longer .*…$/) as string,
    '3 ann@here  1 min ago',
    '    Then',
    '',
  ]);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(40);
});

test('a message has its head, its references, and every line of its body behind a bar', () => {
  const text = messageText(PIPE, MESSAGE);
  expect(text).toContain('from     eve@there (content from outside)\n');
  expect(text).toContain('to       bob\nsent     2025-11-20T21:48:23Z\nkind     request, needs a reply\n');
  expect(text.endsWith('ref      a ref\n| a\n| \tb\n')).toBe(true);
});

test('a message of the agent itself says how far it came', () => {
  const recipients = [{ to: 'bob@here', state: 'read', at: AT } as const];
  expect(messageText(PIPE, { ...MESSAGE, outcome: { recipients } })).toContain('to       bob@here (read)\n');
  const many = messageText(PIPE, { ...MESSAGE, outcome: { recipients, recipient_count: 30 } });
  expect(many).toContain('to       bob@here (read) and 29 more\n');
});

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
      at: LATER,
      steps: [
        { state: 'stored', at: AT },
        { state: 'read', at: LATER },
      ],
    },
    { recipient: 'carol@here', state: 'delivered', at: AT, steps: [{ state: 'delivered', at: AT }] },
  ],
};

test('a list has a line for each recipient, and says what is common once', () => {
  const lines = sentListText(PIPE, [SENT]).split('\n');
  expect(lines[1]).toMatch(/^m1 +2025-11-20T21:48:23Z +bob@there +read +2025-11-20T21:49:23Z +Ready \\u\{1b\}\[2J$/);
  expect(lines[2]).toMatch(/^ +carol@here +delivered +2025-11-20T21:48:23Z$/);
  expect(lines).toHaveLength(4);
});

test('one message is shown with its way to each recipient, in order', () => {
  expect(deliveryText(PIPE, SENT)).toBe(
    [
      'message  m1',
      'thread   t1',
      'sent     2025-11-20T21:48:23Z',
      'kind     request',
      'subject  Ready \\u{1b}[2J',
      'to bob@there',
      '  2025-11-20T21:48:23Z  stored       waits here for its host',
      '  2025-11-20T21:49:23Z  read         read',
      'to carol@here',
      '  2025-11-20T21:48:23Z  delivered    stored in its mailbox',
      '',
    ].join('\n'),
  );
});

test.each([
  ['message', 'for that use --needs-reply, an @mention, or --kind request or task.'],
  ['status', 'for that use --kind request or task.'],
] as const)('a %s that wakes nobody names options of the command', (kind, advice) => {
  const detail = `Stored. ${adviceToWake(kind) ?? ''}`;
  const recipient = { recipient: 'bob@here', addressed_as: ['bob'], status: 'offline' as const, detail };
  const text = sentText({ message_id: 'm1', thread: 'm1', duplicate: false, recipients: [recipient] });
  expect(text).toContain(advice);
  expect(text).not.toContain('needs_reply');
});
