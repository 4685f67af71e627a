/** Mail as text for a person or an agent: lists, and whole messages, whose words cannot look like output of ours. */
import type { InboxResult, SearchResult } from '../../host/contract/mail.ts';
import { type FullMessage, type FullSummary, fullMessage, fullSummary } from '../../host/contract/usual-mail.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { countText } from '../../host/core/spans.ts';
import { UNTRUSTED_TEXT } from '../../host/core/untrusted-text.ts';
import { printable, printableText } from '../../protocol/printable.ts';
import { formatFields } from '../lib/format.ts';
import { applyStyle, formatMoment, formatTime, type Screen } from '../lib/screen.ts';
import { shortIds, table } from '../lib/table.ts';

export function inboxText(screen: Screen, result: InboxResult, as: string): string {
  const { unread, total, changed = [], next_cursor } = result;
  const summaries = (result.summaries ?? []).map((summary) => fullSummary(summary, as));
  const messages = (result.messages ?? []).map((message) => fullMessage(message, as));
  const parts = [`${as}: ${unread} unread of ${total}.\n`];
  // The words of others come under the sentence that says whose they are.
  if (summaries.length + messages.length > 0) parts.push(agentNotice(screen, as));
  if (summaries.length > 0) parts.push(`\n${summariesText(screen, summaries)}`);
  for (const message of messages) parts.push(`\n${messageText(screen, message)}`);
  if (!result.messages && !result.summaries) parts.push(changedText(changed.length));
  if (next_cursor !== undefined) parts.push(`\nMore: --cursor ${next_cursor}\n`);
  const [first] = [...summaries, ...messages];
  if (first) parts.push(nextStep(screen, as, first.message_id, messages.length > 0));
  return parts.join('');
}

/** An agent may read what is no terminal; a person knows whose words a mail holds. */
function agentNotice({ columns }: Screen, as: string): string {
  return columns === undefined && as !== OWNER_NAME ? `${UNTRUSTED_TEXT}\n` : '';
}

function changedText(count: number): string {
  if (count === 0) return 'Nothing changed.\n';
  return `${countText(count, 'message')} acked.\n`;
}

/** The command that a person may type next. */
function nextStep(screen: Screen, as: string, messageId: string, isRead: boolean): string {
  if (screen.columns === undefined) return '';
  const [id = ''] = shortIds([messageId]);
  const asWhom = printable(as);
  const command = isRead ? `poste reply --as ${asWhom} ${id} --body -` : `poste inbox read --as ${asWhom} ${id}`;
  return applyStyle(screen, 'dim', `\n${isRead ? 'Answer' : 'Read'} with: ${command}\n`);
}

export function foundText(screen: Screen, as: string, result: SearchResult): string {
  const { summaries, looked_at, looked_back_to, next_cursor } = result;
  const found =
    summaries.length === 0
      ? 'No message matches.\n'
      : `${agentNotice(screen, as)}${summariesText(
          screen,
          summaries.map((summary) => fullSummary(summary, as)),
        )}`;
  if (next_cursor === null || looked_back_to === null) return found;
  const back = `Searched ${countText(looked_at, 'message')}, back to ${formatMoment(screen, looked_back_to)}`;
  return `${found}\n${back}. Older ones: --cursor ${next_cursor}\n`;
}

export function summariesText(screen: Screen, summaries: readonly FullSummary[]): string {
  return table<FullSummary>(
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

export function kindText({ kind, needs_reply, origin }: Pick<FullSummary, 'kind' | 'needs_reply' | 'origin'>): string {
  return [kind, ...(needs_reply ? ['needs reply'] : []), ...(origin === 'external' ? ['from outside'] : [])].join(', ');
}

/** A whole message. Every line of its body starts with a bar, so that it cannot look like output of ours. */
export function messageText(screen: Screen, message: FullMessage): string {
  const { message_id, from, to, subject, kind, needs_reply, origin, created_at, refs, body } = message;
  const { recipients, recipient_count } = message.outcome;
  const head = [
    ['message', message_id],
    ['from', `${from}${origin === 'external' ? ' (content from outside)' : ''}`],
    ['to', recipients ? recipientsText(recipients, recipient_count) : to.join(', ')],
    ['sent', formatTime(screen, created_at)],
    ['kind', needs_reply ? `${kind}, needs a reply` : kind],
    ['subject', subject],
    ...refs.map((ref) => ['ref', ref]),
  ];
  const bar = applyStyle(screen, 'dim', '|');
  const shown = printableText(body).replace(/^.*$/gm, (line) => `${bar} ${line}`);
  const rest = message.next_body_offset === null ? '' : `(continues: --offset ${message.next_body_offset})\n`;
  return `${formatFields(head, 8, '')}${shown}\n${rest}`;
}

function recipientsText(
  recipients: NonNullable<FullMessage['outcome']['recipients']>,
  count = recipients.length,
): string {
  const shown = recipients.map(({ to, state }) => `${to} (${state})`).join(', ');
  return count > recipients.length ? `${shown} and ${count - recipients.length} more` : shown;
}
