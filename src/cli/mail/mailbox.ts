/** `poste inbox` and `poste sent`: the mail that an agent, or the owner, received and sent. */
import { join } from 'node:path';
import { Command, Option } from 'commander';
import type {
  InboxInput,
  InboxResult,
  SearchResult,
  SentInput,
  SentMessage,
  SentResult,
} from '../../host/contract/mail.ts';
import { UNTRUSTED_TEXT } from '../../host/core/untrusted-text.ts';
import { READ_MAX } from '../../host/contract/limits.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { countText } from '../../host/core/spans.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask, given, actingCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatFields, jsonLine } from '../lib/format.ts';
import { formatMoment, formatTime, type Screen, screenOf, styled } from '../lib/screen.ts';
import { shortIds, table } from '../lib/table.ts';
import { wholeNumber } from '../lib/values.ts';
import { follow } from './follow.ts';
import { messageText, summariesText } from './format-mail.ts';
import { messageMeant, messagesMeant } from './message-meant.ts';

export interface PageFlags {
  limit?: number;
  cursor?: string;
}

/** `--limit` and `--cursor`. */
export function withPageFlags(command: Command): Command {
  return command
    .option('--limit <n>', 'list at most this many', wholeNumber(1))
    .option('--cursor <cursor>', 'continue after the cursor of an earlier answer');
}

const INBOX_NOTES = `
Reading marks messages as read, unless you add --peek. An ack says that you have dealt with a message. --follow prints a
line for each message, or a JSON document with --json, goes on when the daemon restarts, and ends at ctrl-c with 130. Do
not pass the link of --web on a command line, where every user of the machine can read it and use it first.

Examples:
  $ poste inbox --as reviewer
  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox search --as reviewer flaky test
  $ poste inbox list --as owner --state all --json
  $ poste inbox --follow --as reviewer
  $ poste inbox --web`;

export function inboxCommand(context: CommandContext): Command {
  return new Command('inbox')
    .addCommand(listCommand(context), { isDefault: true })
    .addCommand(readCommand(context))
    .addCommand(ackCommand(context))
    .addCommand(threadCommand(context))
    .addCommand(searchCommand(context))
    .addHelpText('after', INBOX_NOTES);
}

/** The file that leads the browser to the owner's page, in the folder of the host's data. */
const PAGE_FILE = 'open-mail.html';

/** Opens the owner's mailbox in the browser of a person; elsewhere, and where there is none, prints a link to it. */
async function openPage(context: CommandContext, { as, ...flags }: ActingFlags, command: Command): Promise<void> {
  // The default of --as is no conflict: POSTE_AGENT may be set while the owner reads their own mail.
  if (as !== OWNER_NAME && command.getOptionValueSource('as') === 'cli')
    throw new CommandFailed('usage', 'USAGE', '--web means your own mailbox: leave out --as');
  const issued = await ask(context, 'web-link', {}, flags);
  if (flags.json) {
    context.stdout.write(jsonLine(issued));
    return;
  }
  const file = join(ownPaths(context).dataFolder, PAGE_FILE);
  const isPerson = screenOf(context).columns !== undefined;
  const { openInBrowser } = await import('../lib/browser.ts');
  const isOpened = isPerson && (await openInBrowser(context, issued.url, file));
  if (isOpened) context.stderr.write('Your mailbox opens in the browser. If it does not, paste this link there:\n');
  context.stdout.write(`${issued.url}\n`);
  context.stderr.write('The link opens your mailbox in a browser on this machine. It works once, within a minute.\n');
}

interface ListFlags extends ActingFlags, PageFlags, Pick<InboxInput, 'state'> {
  web?: boolean;
  follow?: boolean;
}

function listCommand(context: CommandContext): Command {
  return withPageFlags(
    actingCommand(context, 'list')
      .description('List messages, the newest first.')
      .addOption(
        new Option('--state <state>', 'which messages (default: unread)').choices(['unread', 'unacked', 'all']),
      )
      .option('--web', 'open your own mailbox in the browser, or print a link to it that works once')
      .addOption(
        new Option('--follow', 'print what is unread, and then mail as it comes, until ctrl-c').conflicts([
          'web',
          'state',
          'limit',
          'cursor',
        ]),
      ),
  )
    .addHelpText('after', '\nExample:\n  $ poste inbox list --as reviewer --state all')
    .action(async (flags: ListFlags, self: Command) => {
      const { state, limit, cursor } = flags;
      if (flags.web) await openPage(context, flags, self);
      else if (flags.follow) await follow(context, flags);
      else await show(context, { action: 'list', ...given({ state, limit, cursor }) }, flags);
    });
}

function readCommand(context: CommandContext): Command {
  return actingCommand(context, 'read')
    .description('Read messages.')
    .argument('<message...>', `their ids, or the first characters of each; at most ${READ_MAX}`)
    .option('--peek', 'do not mark them as read')
    .option('--offset <n>', 'show the body of one message from this character on', wholeNumber(0))
    .addHelpText('after', '\nExample:\n  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages: string[], flags: ActingFlags & { peek?: boolean; offset?: number }) => {
      const { peek, offset } = flags;
      const message_ids = await messagesMeant(context, messages, flags);
      await show(context, { action: 'read', message_ids, ...given({ peek, body_offset: offset }) }, flags);
    });
}

function ackCommand(context: CommandContext): Command {
  return actingCommand(context, 'ack')
    .description('Acknowledge messages: you have dealt with them.')
    .argument('<message...>', `their ids, or the first characters of each; at most ${READ_MAX}`)
    .addHelpText('after', '\nExample:\n  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages: string[], flags: ActingFlags) => {
      const message_ids = await messagesMeant(context, messages, flags);
      await show(context, { action: 'ack', message_ids }, flags);
    });
}

function threadCommand(context: CommandContext): Command {
  return withPageFlags(
    actingCommand(context, 'thread')
      .description('Show a conversation, the oldest message first.')
      .argument('<thread>', 'the id of the thread, or of a message in it, or the first characters'),
  )
    .addHelpText('after', '\nExample:\n  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000')
    .action(async (id: string, flags: ActingFlags & PageFlags) => {
      const { limit, cursor } = flags;
      const thread = await messageMeant(context, id, flags, 'thread');
      await show(context, { action: 'thread', thread, ...given({ limit, cursor }) }, flags);
    });
}

function searchCommand(context: CommandContext): Command {
  return withPageFlags(
    actingCommand(context, 'search')
      .description('Search sender, subject and body, and show the newest message first.')
      .argument('<word...>', 'every word must occur; case does not matter'),
  )
    .addHelpText('after', '\nExample:\n  $ poste inbox search --as reviewer flaky test')
    .action(async (words: string[], flags: ActingFlags & PageFlags) => {
      const { limit, cursor } = flags;
      const asked = { text: words.join(' '), ...given({ limit, cursor }) };
      const result = await ask(context, 'mail-search', asked, flags);
      context.stdout.write(flags.json ? jsonLine(result) : foundText(screenOf(context), flags.as ?? '', result));
    });
}

async function show(context: CommandContext, input: InboxInput, flags: ActingFlags): Promise<void> {
  const result = await ask(context, 'mail-inbox', input, flags);
  context.stdout.write(flags.json ? jsonLine(result) : inboxText(screenOf(context), result, flags.as ?? ''));
  const missing = result.not_found ?? [];
  if (missing.length === 0) return;
  throw new CommandFailed(
    'notFound',
    'NO_SUCH_MESSAGE',
    `not in this mailbox: ${missing.join(', ')}; poste inbox --state all lists what is`,
    {
      not_found: missing,
    },
  );
}

export function inboxText(screen: Screen, result: InboxResult, as: string): string {
  const { unread, total, summaries = [], messages = [], changed, next_cursor } = result;
  const parts = [`${as}: ${unread} unread of ${total}.\n`];
  // The words of others come under the sentence that says whose they are.
  if (summaries.length + messages.length > 0) parts.push(agentNotice(screen, as));
  if (summaries.length > 0) parts.push(`\n${summariesText(screen, summaries)}`);
  for (const message of messages) parts.push(`\n${messageText(screen, message)}`);
  if (!result.messages && changed) parts.push(changedText(changed.length));
  if (next_cursor !== null) parts.push(`\nMore: --cursor ${next_cursor}\n`);
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

/** What a person may type next. */
function nextStep(screen: Screen, as: string, messageId: string, isRead: boolean): string {
  if (screen.columns === undefined) return '';
  const [id = ''] = shortIds([messageId]);
  const asWhom = printable(as);
  const command = isRead ? `poste reply --as ${asWhom} ${id} --body -` : `poste inbox read --as ${asWhom} ${id}`;
  return styled(screen, 'dim', `\n${isRead ? 'Answer' : 'Read'} with: ${command}\n`);
}

function foundText(screen: Screen, as: string, result: SearchResult): string {
  const { summaries, looked_at, looked_back_to, next_cursor } = result;
  const found =
    summaries.length === 0 ? 'No message matches.\n' : `${agentNotice(screen, as)}${summariesText(screen, summaries)}`;
  if (next_cursor === null || looked_back_to === null) return found;
  const back = `Searched ${countText(looked_at, 'message')}, back to ${formatMoment(screen, looked_back_to)}`;
  return `${found}\n${back}. Older ones: --cursor ${next_cursor}\n`;
}

const SENT_NOTES = `
Without a message, lists what was sent, the newest first, with the state at each recipient. With a message, shows its
delivery to each recipient, step by step. The steps are those that the recipient's host reported.

Examples:
  $ poste sent --as builder
  $ poste sent --as builder 06EXAMPLE0000000000000000
  $ poste sent --as owner --limit 50 --json`;

export function sentCommand(context: CommandContext): Command {
  return withPageFlags(
    actingCommand(context, 'sent').argument(
      '[message]',
      'the id of a sent message, or its first characters: show its delivery to each recipient',
    ),
  )
    .addHelpText('after', SENT_NOTES)
    .action(async (message: string | undefined, flags: ActingFlags & PageFlags) => {
      const asked = inputOf(message, flags);
      const { message_id: id } = asked;
      const named = id === undefined ? asked : { message_id: await messageMeant(context, id, flags) };
      const result = await ask(context, 'mail-sent', named, flags);
      context.stdout.write(
        flags.json ? jsonLine(result) : sentResultText(screenOf(context), result, message !== undefined),
      );
    });
}

function inputOf(message: string | undefined, { limit, cursor }: PageFlags): SentInput {
  if (message === undefined) return given({ limit, cursor });
  if (limit !== undefined || cursor !== undefined) {
    throw new CommandFailed('usage', 'USAGE', '--limit and --cursor page through the list: leave out the message');
  }
  return { message_id: message };
}

function sentResultText(screen: Screen, { messages, next_cursor }: SentResult, isOne: boolean): string {
  if (isOne) return messages.map((message) => deliveryText(screen, message)).join('');
  if (messages.length === 0) return 'Nothing was sent.\n';
  const more = next_cursor === null ? '' : `\nMore: --cursor ${next_cursor}\n`;
  return `${sentListText(screen, messages)}${more}`;
}

type Recipient = SentMessage['recipients'][number];

const STATE_WORDS: Readonly<Record<Recipient['state'], string>> = {
  pending: 'waits for its host',
  delivered: 'stored in its mailbox',
  notified: 'notified of it',
  read: 'read',
  acked: 'acknowledged as done',
  quarantined: 'quarantined by its host',
  undelivered: 'not delivered',
  unconfirmed: 'accepted by its host, but never confirmed',
  cancelled: 'cancelled',
};

/** A line for each recipient of each message. */
export function sentListText(screen: Screen, messages: readonly SentMessage[]): string {
  const rows = messages.flatMap((message) =>
    message.recipients.map((recipient, at) => ({ message, recipient, isFirst: at === 0 })),
  );
  type Row = (typeof rows)[number];
  return table<Row>(
    screen,
    [
      { title: 'MESSAGE', id: ({ message, isFirst }) => (isFirst ? message.message_id : '') },
      { title: 'SENT', cell: ({ message, isFirst }) => (isFirst ? formatTime(screen, message.created_at) : '') },
      { title: 'TO', cell: ({ recipient }) => recipient.recipient },
      { title: 'STATE', cell: ({ recipient }) => recipient.state },
      { title: 'SINCE', time: ({ recipient }) => recipient.at },
      { title: 'SUBJECT', cell: ({ message, isFirst }) => (isFirst ? message.subject : '') },
    ],
    rows,
  );
}

/** One message and its way to each recipient. */
export function deliveryText(screen: Screen, message: SentMessage): string {
  const { message_id, thread, subject, kind, created_at, recipients } = message;
  const head = [
    ['message', message_id],
    ['thread', thread],
    ['sent', formatTime(screen, created_at)],
    ['kind', kind],
    ['subject', subject],
  ];
  return `${formatFields(head, 8, '')}${recipients.map((recipient) => timelineText(screen, recipient)).join('')}`;
}

/** The steps that are known of one recipient, the earliest first. */
export function timelineText(screen: Screen, { recipient, steps }: Pick<Recipient, 'recipient' | 'steps'>): string {
  const times = steps.map(({ at }) => formatTime(screen, at));
  const width = Math.max(...times.map((time) => time.length));
  const lines = steps.map(
    ({ state }, at) => `  ${times[at]?.padEnd(width)}  ${state.padEnd(11)}  ${STATE_WORDS[state]}\n`,
  );
  return `to ${printable(recipient)}\n${lines.join('')}`;
}
