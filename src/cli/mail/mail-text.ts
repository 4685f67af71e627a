/** Mail as text for a person or an agent: lists, and whole messages, whose words cannot look like output of ours. */
import type { InboxResult, SearchResult } from '../../host/contract/mail.ts';
import { type FullMessage, type FullSummary, fullMessage, fullSummary } from '../../host/contract/usual-mail.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { countText } from '../../host/core/spans.ts';
import { UNTRUSTED_TEXT } from '../../host/core/untrusted-text.ts';
import { printable, printableText } from '../../protocol/printable.ts';
import { formatFields } from '../lib/format.ts';
import { applyStyle, formatTime, type Screen, type Style } from '../lib/screen.ts';
import { type MessageNumbers, shownMessage } from './message-names.ts';
import { type Column, cutTo, table, textWidth } from '../lib/table.ts';

export function inboxText(screen: Screen, result: InboxResult, as: string, numbers: MessageNumbers): string {
  const { unread, total, changed = [], next_cursor } = result;
  const summaries = (result.summaries ?? []).map((summary) => fullSummary(summary, as));
  const messages = (result.messages ?? []).map((message) => fullMessage(message, as));
  const parts = [`${as}: ${unread} unread of ${total}.\n`];
  // The words of others come under the sentence that says whose they are.
  if (summaries.length + messages.length > 0) parts.push(agentNotice(screen, as));
  if (summaries.length > 0) parts.push(`\n${summariesText(screen, summaries, numbers)}`);
  for (const message of messages) parts.push(`\n${messageText(screen, message, numbers)}`);
  if (!result.messages && !result.summaries) parts.push(changedText(changed.length));
  if (next_cursor !== undefined) parts.push(`\nMore: --cursor ${next_cursor}\n`);
  const [first] = [...summaries, ...messages];
  if (first) parts.push(nextStep(screen, as, shownMessage(first.message_id, numbers), messages.length > 0));
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
function nextStep(screen: Screen, as: string, id: string, isRead: boolean): string {
  if (screen.columns === undefined) return '';
  const asWhom = printable(as);
  const command = isRead ? `poste reply --as ${asWhom} ${id} --body -` : `poste inbox read --as ${asWhom} ${id}`;
  return applyStyle(screen, 'dim', `\n${isRead ? 'Answer' : 'Read'} with: ${command}\n`);
}

export function foundText(
  screen: Screen,
  as: string,
  { summaries, next_cursor }: SearchResult,
  numbers: MessageNumbers,
): string {
  if (summaries.length === 0) return 'No message matches.\n';
  const full = summaries.map((summary) => fullSummary(summary, as));
  const more = next_cursor === null ? '' : `\nMore: --cursor ${next_cursor}\n`;
  return `${agentNotice(screen, as)}${summariesText(screen, full, numbers)}${more}`;
}

/** Narrower terminals have two lines for a message. */
const ONE_LINE_COLUMNS_MIN = 60;

/**
 * Shows every column in a pipe, for programs, and on a terminal those that tell messages apart: the subject needs the
 * room.
 */
export function summariesText(
  screen: Screen,
  summaries: readonly FullSummary[],
  numbers: MessageNumbers = new Map(),
): string {
  const { columns: width } = screen;
  const isTerminal = width !== undefined;
  if (isTerminal && width < ONE_LINE_COLUMNS_MIN) return twoLines(screen, summaries, numbers);
  const state: Column<FullSummary> = { title: 'STATE', cell: ({ state: is }) => is, style: stateStyle };
  const columns: (Column<FullSummary> | false)[] = [
    messageColumn(screen, numbers, ({ message_id }) => message_id),
    (!isTerminal || new Set(summaries.map((one) => one.state)).size > 1) && state,
    isTerminal && summaries.some(({ needs_reply }) => needs_reply) && REPLY_MARK,
    { title: 'KIND', cell: isTerminal ? shortKind : kindText },
    { title: 'FROM', cell: ({ from }) => from },
    { title: 'STORED', time: ({ stored_at }) => stored_at },
    { title: 'SUBJECT', cell: ({ subject }) => subject, style: subjectStyle },
  ];
  const shown = columns.filter((column) => column !== false);
  return table(screen, summaries, shown);
}

const REPLY_MARK: Column<FullSummary> = { title: '!', cell: replyMark, style: () => 'red' };

/** A line that says which message it is, and below it the subject. */
function twoLines(screen: Screen, summaries: readonly FullSummary[], numbers: MessageNumbers): string {
  const lines = summaries.map((summary) => {
    const { from, subject, stored_at, message_id } = summary;
    const number = shownMessage(message_id, numbers);
    const time = formatTime(screen, stored_at);
    const mark = replyMark(summary);
    const room = (screen.columns ?? 0) - textWidth(`${number}  ${mark}  ${time}`);
    const sender = cutTo(printable(from), Math.max(ROOM_MIN, room));
    const head = [applyStyle(screen, 'yellow', number), applyStyle(screen, 'red', mark), sender].filter(Boolean);
    const shown = cutTo(printable(subject), Math.max(ROOM_MIN, (screen.columns ?? 0) - INDENT.length));
    const below = applyStyle(screen, subjectStyle(summary), shown);
    return `${head.join(' ')}  ${applyStyle(screen, 'dim', time)}\n${INDENT}${below}\n`;
  });
  return lines.join('');
}

const INDENT = '    ';
const ROOM_MIN = 6;

/** The column of a list that names its messages: by numbers on a terminal, by whole ids in a pipe. */
export function messageColumn<Row>(
  { columns }: Screen,
  numbers: MessageNumbers,
  idOf: (row: Row) => string,
): Column<Row> {
  if (columns === undefined || numbers.size === 0) return { title: 'MESSAGE', id: idOf };
  const cell = (row: Row): string => (idOf(row) === '' ? '' : shownMessage(idOf(row), numbers));
  return { title: '#', cell, isNumber: true, style: () => 'yellow' };
}

function stateStyle({ state }: FullSummary): Style {
  return state === 'unread' ? 'green' : 'dim';
}

function subjectStyle({ state }: FullSummary): Style | undefined {
  return state === 'unread' ? 'bold' : undefined;
}

function replyMark({ needs_reply }: FullSummary): string {
  return needs_reply ? '!' : '';
}

function shortKind({ kind, origin }: FullSummary): string {
  return kindText({ kind, origin, needs_reply: false });
}

export function kindText({ kind, needs_reply, origin }: Pick<FullSummary, 'kind' | 'needs_reply' | 'origin'>): string {
  return [kind, ...(needs_reply ? ['needs reply'] : []), ...(origin === 'external' ? ['from outside'] : [])].join(', ');
}

/** A whole message. Every line of its body starts with a bar, so that it cannot look like output of ours. */
export function messageText(screen: Screen, message: FullMessage, numbers: MessageNumbers = new Map()): string {
  const { message_id, from, to, subject, kind, needs_reply, origin, created_at, refs, body } = message;
  const { recipients, recipient_count } = message.outcome;
  const head = [
    ['message', numbers.has(message_id) ? `${shownMessage(message_id, numbers)}, ${message_id}` : message_id],
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
