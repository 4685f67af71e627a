/** How far sent messages came, as a terminal shows it. */
import type { SentMessage } from '../host/documents/sent.ts';
import { printable } from '../protocol/printable.ts';
import { table, timeText } from './text.ts';

type Recipient = SentMessage['recipients'][number];

const STATE_WORDS: Readonly<Record<Recipient['state'], string>> = {
  pending: 'queued for its host',
  delivered: 'in its mailbox',
  notified: 'told of it',
  read: 'read',
  acked: 'done with it',
  quarantined: 'kept in quarantine by its host',
  undelivered: 'not delivered',
  unconfirmed: 'taken by its host, and never confirmed',
  cancelled: 'cancelled',
};

/** A line for each recipient of each message. */
export function sentListText(messages: readonly SentMessage[]): string {
  const rows = messages.flatMap((message) =>
    message.recipients.map((recipient, at) => ({ message, recipient, isFirst: at === 0 })),
  );
  type Row = (typeof rows)[number];
  return table<Row>(
    [
      { title: 'MESSAGE', cell: ({ message, isFirst }) => (isFirst ? printable(message.message_id) : '') },
      { title: 'SENT', cell: ({ message, isFirst }) => (isFirst ? timeText(message.created_at) : '') },
      { title: 'TO', cell: ({ recipient }) => printable(recipient.recipient) },
      { title: 'STATE', cell: ({ recipient }) => recipient.state },
      { title: 'SINCE', cell: ({ recipient }) => timeText(recipient.at) },
      { title: 'SUBJECT', cell: ({ message, isFirst }) => (isFirst ? printable(message.subject) : '') },
    ],
    rows,
  );
}

/** One message and its way to each recipient. */
export function deliveryText({ message_id, thread, subject, kind, created_at, recipients }: SentMessage): string {
  const head = [
    ['message', message_id],
    ['thread', thread],
    ['sent', timeText(created_at)],
    ['kind', kind],
    ['subject', subject],
  ];
  const lines = head.map(([name = '', value = '']) => `${name.padEnd(8)} ${printable(value)}\n`);
  return `${lines.join('')}${recipients.map(timelineText).join('')}`;
}

/** What was learned of one recipient, the earliest first. */
export function timelineText({ recipient, steps }: Pick<Recipient, 'recipient' | 'steps'>): string {
  const lines = steps.map(({ state, at }) => `  ${timeText(at)}  ${state.padEnd(11)}  ${STATE_WORDS[state]}\n`);
  return `to ${printable(recipient)}\n${lines.join('')}`;
}
