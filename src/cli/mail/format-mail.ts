/** Formats mail for a terminal: text of others is made printable and marked as theirs. */
import { countText } from '../../host/core/spans.ts';
import { printableText } from '../../protocol/printable.ts';
import type { MessageSummary, SendResult, WholeMessage } from '../../host/contract/mail.ts';
import { formatFields } from '../lib/format.ts';
import { formatTime, type Screen, styled } from '../lib/screen.ts';
import { table } from '../lib/table.ts';

/** What became of a message, recipient by recipient. */
export function sentText(result: SendResult): string {
  const lines = result.recipients.map(({ recipient, status, detail }) => `  ${recipient}: ${status} (${detail})\n`);
  const before = result.duplicate ? ' earlier, under the same idempotency key; nothing was sent now' : '';
  const accepted = `Accepted ${result.message_id}${before}.\n${lines.join('')}${listsText(result)}`;
  return printableText(accepted);
}

/** From this age on, the sender to a group is warned that a host's list of agents is old. */
const LIST_AGE_SHOWN_S = 60;

function listsText({ directories = [] }: SendResult): string {
  const lines = directories.map(({ host, age_seconds: age }) => {
    if (age === null) return `${host} has not sent its list of agents yet: none of them gets this.\n`;
    const minutes = Math.floor(age / 60);
    const old = `The list of agents at ${host} is ${countText(minutes, 'minute')} old`;
    return age < LIST_AGE_SHOWN_S ? '' : `${old}: an agent added since does not get this.\n`;
  });
  return lines.join('');
}

export function summariesText(screen: Screen, summaries: readonly MessageSummary[]): string {
  return table<MessageSummary>(
    screen,
    [
      { title: 'MESSAGE', id: ({ message_id }) => message_id },
      { title: 'STATE', cell: ({ state }) => state, style: ({ state }) => (state === 'unread' ? 'green' : 'dim') },
      { title: 'KIND', cell: (summary) => kindText(summary) },
      { title: 'FROM', cell: ({ from }) => from },
      { title: 'STORED', time: ({ stored_at }) => stored_at },
      {
        title: 'SUBJECT',
        cell: ({ subject }) => subject,
        style: ({ state }) => (state === 'unread' ? 'bold' : undefined),
      },
    ],
    summaries,
  );
}

export function kindText({
  kind,
  needs_reply,
  origin,
}: Pick<MessageSummary, 'kind' | 'needs_reply' | 'origin'>): string {
  return [kind, ...(needs_reply ? ['needs reply'] : []), ...(origin === 'external' ? ['from outside'] : [])].join(', ');
}

/** A whole message. Every line of its body starts with a bar, so that it cannot look like output of ours. */
export function messageText(screen: Screen, message: WholeMessage): string {
  const { message_id, from, to, subject, kind, needs_reply, origin, created_at, refs, body } = message;
  const head = [
    ['message', message_id],
    ['from', `${from}${origin === 'external' ? ' (content from outside)' : ''}`],
    ['to', to.join(', ')],
    ['sent', formatTime(screen, created_at)],
    ['kind', needs_reply ? `${kind}, needs a reply` : kind],
    ['subject', subject],
    ...refs.map((ref) => ['ref', ref]),
  ];
  const bar = styled(screen, 'dim', '|');
  const shown = printableText(body).replace(/^.*$/gm, (line) => `${bar} ${line}`);
  const rest = message.next_body_offset === null ? '' : `(continues: --offset ${message.next_body_offset})\n`;
  return `${formatFields(head, 8, '')}${shown}\n${rest}`;
}
