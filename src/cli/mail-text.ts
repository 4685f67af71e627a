/** Mail as a terminal shows it: text of others printable, and said to be theirs. */
import { printable } from '../protocol/printable.ts';
import type { MessageSummary, SendResult, WholeMessage } from '../host/documents/mail.ts';
import { table, timeText } from './text.ts';

/** What became of a message, recipient by recipient. */
export function sentText(result: SendResult): string {
  const lines = result.recipients.map(({ recipient, status, detail }) => `  ${recipient}: ${status} (${detail})\n`);
  const before = result.duplicate ? ' before, under the same idempotency key; nothing was sent now' : '';
  return `Accepted ${result.message_id}${before}.\n${lines.join('')}`;
}

export function summariesText(summaries: readonly MessageSummary[]): string {
  return table<MessageSummary>(
    [
      { title: 'MESSAGE', cell: ({ message_id }) => printable(message_id) },
      { title: 'STATE', cell: ({ state }) => state },
      { title: 'KIND', cell: (summary) => kindText(summary) },
      { title: 'FROM', cell: ({ from }) => printable(from) },
      { title: 'STORED', cell: ({ stored_at }) => timeText(stored_at) },
      { title: 'SUBJECT', cell: ({ subject }) => printable(subject) },
    ],
    summaries,
  );
}

function kindText({ kind, needs_reply, origin }: MessageSummary): string {
  return [kind, ...(needs_reply ? ['needs reply'] : []), ...(origin === 'external' ? ['from outside'] : [])].join(', ');
}

/** A whole message: its head, and every line of its body behind a bar, so that none passes for one of ours. */
export function messageText(message: WholeMessage): string {
  const { message_id, from, to, subject, kind, needs_reply, origin, created_at, refs, body } = message;
  const head = [
    ['message', message_id],
    ['from', `${from}${origin === 'external' ? ' (content from outside)' : ''}`],
    ['to', to.join(', ')],
    ['sent', timeText(created_at)],
    ['kind', needs_reply ? `${kind}, needs a reply` : kind],
    ['subject', subject],
    ...refs.map((ref) => ['ref', ref]),
  ];
  const lines = head.map(([name = '', value = '']) => `${name.padEnd(8)} ${printable(value)}\n`);
  const shown = body
    .split('\n')
    .map((line) => `| ${printableLine(line)}\n`)
    .join('');
  const rest = message.next_body_offset === null ? '' : `(goes on: --offset ${message.next_body_offset})\n`;
  return `${lines.join('')}${shown}${rest}`;
}

/** Tabs stay. */
function printableLine(line: string): string {
  return line
    .split('\t')
    .map((part) => printable(part))
    .join('\t');
}
