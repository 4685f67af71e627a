/** `poste send`, `poste reply` and `poste sent`: a new message, an answer to one, and what became of them. */
import type { Command } from 'commander';
import type { SendInput, SendResult } from '../../host/contract/mail.ts';
import type { SentInput, SentMessage, SentResult } from '../../host/contract/sent-mail.ts';
import { BODY_CHARACTERS_MAX, LIST_LIMIT_MAX } from '../../host/contract/limits.ts';
import { MESSAGE_KINDS, ORIGINS } from '../../host/core/rows.ts';
import type { CommandDraft, FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, actingCommand, ask, mailboxCommand } from '../lib/daemon-call.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { givenText } from '../lib/input.ts';
import { formatFields } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { countText } from '../../host/core/spans.ts';
import { printable, printableText } from '../../protocol/printable.ts';
import { formatTime, type Screen, screenOf } from '../lib/screen.ts';
import { type MessageNumbers, messageMeant, messagesMeant, MESSAGE_NAMES, numbersShown } from './message-names.ts';
import { table } from '../lib/table.ts';
import { nameAgents } from './agents.ts';
import { messageColumn } from './mail-text.ts';
import { wholeNumber, withoutUndefined } from '../lib/values.ts';

const SEND_NOTES = `
"Accepted" means that this host stored the message, or queued it for another host; it is not a delivery yet. An address
is an agent's name, agent@host, role:<role>, * for everyone, or owner. The kinds request, task, decision and alert wake
an idle recipient; message and reply only with --needs-reply, an @mention, or as the answer to
a message of its own with --needs-reply; status never.

--as owner writes in your own name. Every user of this machine can read a command line: --body - reads the body from
standard input.

Examples:
  $ poste send --as owner --to builder --subject 'Branch fix-7' --body 'Please merge it.'
  $ echo 'Branch fix-7 is ready.' | poste send --as builder --to reviewer --subject 'Ready' --body -
  $ git log -1 | poste send --as builder --to role:review --subject 'Please review' --body - --kind request \
--needs-reply
  $ echo 'All green.' | POSTE_AGENT=builder poste send --to '*' owner --subject 'Done' --body - --json`;

export function sendCommand(context: CommandContext): Command {
  const draft = actingCommand(context, 'send')
    .option('--to <address...>', 'the recipients, at most 20', { isNeeded: true })
    .option('--subject <text>', 'the subject, at most 200 characters', { isNeeded: true })
    .option('--reply-to <message>', `a message by ${MESSAGE_NAMES}: this one joins its thread`);
  return withMessageFlags(draft)
    .notes(SEND_NOTES)
    .answers(async ({ to, subject, replyTo, ...flags }) => {
      const rest = await messageOf(context, flags);
      const reply = withoutUndefined({ reply_to: await messageMeant(context, replyTo, flags) });
      return ask(context, 'mail-send', { to, subject, ...rest, ...reply }, flags);
    })
    .prints(sentText);
}

const REPLY_NOTES = `
The answer goes to the sender of the message, in the same thread.

Examples:
  $ poste reply --as owner 3 --body 'Go ahead.'
  $ echo 'Looks good.' | poste reply --as reviewer 06EXAMPLE0000000000000000 --body -
  $ poste reply --as reviewer 06EXAMPLE0000000000000000 --to-all --body-file review.md`;

export function replyCommand(context: CommandContext): Command {
  const draft = actingCommand(context, 'reply')
    .argument('<message>', MESSAGE_NAMES)
    .option('--subject <text>', 'the subject (default: that of the message)')
    .option('--to-all', 'send it to the other recipients of the message too');
  return withMessageFlags(draft)
    .notes(REPLY_NOTES)
    .answers(async (named, { subject, toAll, ...flags }) => {
      const rest = await messageOf(context, flags);
      const [message_id] = await messagesMeant(context, [named] as const, flags);
      return ask(
        context,
        'mail-reply',
        { message_id, ...rest, ...withoutUndefined({ subject, to_all: toAll }) },
        flags,
      );
    })
    .prints(sentText);
}

function withMessageFlags<Args extends readonly unknown[], Flags extends ActingFlags>(
  draft: CommandDraft<Args, Flags>,
) {
  return draft
    .option('--body <text>', 'the body of the message; - reads standard input', { conflicts: ['bodyFile'] })
    .option('--body-file <file>', 'a file with the body of the message')
    .option('--kind <kind>', 'the kind of the message', { choices: MESSAGE_KINDS })
    .option('--needs-reply', 'ask for an answer')
    .option('--ref <ref...>', 'what the message refers to: paths, links, commits')
    .option('--idempotency-key <key>', 'a key of your choice: a repeated send with the same key sends nothing')
    .option('--origin <origin>', 'external if you pass on content from outside', { choices: ORIGINS });
}

type MessageFlags = FlagsOf<typeof withMessageFlags>;

/** The part of the input that both commands have. Throws `CommandFailed`. */
async function messageOf(
  context: CommandContext,
  flags: MessageFlags,
): Promise<Pick<SendInput, 'body' | 'kind' | 'needs_reply' | 'refs' | 'idempotency_key' | 'origin'>> {
  const { kind, needsReply, ref, idempotencyKey, origin } = flags;
  const rest = { kind, needs_reply: needsReply, refs: ref, idempotency_key: idempotencyKey, origin };
  return { body: await bodyOf(context, flags), ...withoutUndefined(rest) };
}

async function bodyOf(context: CommandContext, { body, bodyFile = body }: MessageFlags): Promise<string> {
  if (body !== undefined && body !== '-') return body;
  if (bodyFile === undefined) {
    throw usageFailure('no body given: use --body - for standard input, --body-file FILE, or --body TEXT');
  }
  const advice = 'name another file with --body-file';
  const text = await givenText(context, bodyFile, { code: 'BODY_UNREADABLE', advice });
  if (text.length > 2 * BODY_CHARACTERS_MAX) {
    throw new CommandFailed('usage', 'BAD_INPUT', `the body is too long: at most ${BODY_CHARACTERS_MAX} characters`, {
      field: 'body',
    });
  }
  return text;
}

/** Tells the outcome of a message, recipient by recipient. */
export function sentText(result: SendResult): string {
  const lines = result.recipients.map(
    ({ recipient, status, detail }) => `  ${recipient}: ${status} (${withOptions(detail)})\n`,
  );
  const before = result.duplicate ? ' earlier, under the same idempotency key; nothing was sent now' : '';
  const accepted = `Accepted ${result.message_id}${before}.\n${lines.join('')}${listsText(result)}`;
  return printableText(accepted);
}

/** The advice that wakes names members of the tools: people have options for them. */
function withOptions(detail: string): string {
  return detail
    .replace(' use needs_reply,', ' use --needs-reply,')
    .replace(/ kind request or task\.$/, ' --kind request or task.');
}

/** The age from which the sender to a group is warned that a host's list of agents is old. */
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

export type PageFlags = FlagsOf<typeof withPageFlags>;

/** `--limit` and `--cursor`. */
export function withPageFlags<Args extends readonly unknown[], Flags extends object>(draft: CommandDraft<Args, Flags>) {
  return draft
    .option('--limit <n>', `list at most this many, up to ${LIST_LIMIT_MAX}`, wholeNumber(1, LIST_LIMIT_MAX))
    .option('--cursor <cursor>', 'continue after the cursor of an earlier answer');
}

const SENT_NOTES = `
Without a message, lists what was sent, the newest first, with the state at each recipient. With a message, shows its
delivery to each recipient, step by step. The steps are those that the recipient's host reported.

Examples:
  $ poste sent
  $ poste sent --as builder
  $ poste sent --as builder 3
  $ poste sent --as owner --limit 50 --json`;

export function sentCommand(context: CommandContext): Command {
  const about = `a sent message by ${MESSAGE_NAMES}: show its delivery to each recipient`;
  return withPageFlags(mailboxCommand(context, 'sent').argument('[message]', about))
    .notes(SENT_NOTES)
    .action(async (named, flags, self) => {
      const message = await messageMeant(context, named, flags);
      const result = await ask(context, 'mail-sent', inputOf(message, flags), flags);
      const ids = result.messages.map(({ message_id }) => message_id);
      const numbers = await numbersShown(context, ids, flags);
      print(context, flags, result, () => sentResultText(screenOf(context), result, numbers, message !== undefined));
      if (result.messages.length === 0) await nameAgents(context, self, 'See what one sent with: poste sent');
    });
}

function inputOf(message: string | undefined, { limit, cursor }: PageFlags): SentInput {
  if (message === undefined) return withoutUndefined({ limit, cursor });
  if (limit !== undefined || cursor !== undefined) {
    throw usageFailure('--limit and --cursor page through the list: leave out the message');
  }
  return { message_id: message };
}

function sentResultText(
  screen: Screen,
  { messages, next_cursor }: SentResult,
  numbers: MessageNumbers,
  isOne: boolean,
): string {
  if (isOne) return messages.map((message) => deliveryText(screen, message)).join('');
  if (messages.length === 0) return 'Nothing was sent.\n';
  const more = next_cursor === null ? '' : `\nMore: --cursor ${next_cursor}\n`;
  return `${sentListText(screen, messages, numbers)}${more}`;
}

type Recipient = SentMessage['recipients'][number];

const STATE_WORDS: Readonly<Record<Recipient['state'], string>> = {
  stored: 'waits here for its host',
  relay: 'the relay has it for its host',
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
export function sentListText(
  screen: Screen,
  messages: readonly SentMessage[],
  numbers: MessageNumbers = new Map(),
): string {
  const rows = messages.flatMap((message) =>
    message.recipients.map((recipient, at) => ({ message, recipient, isFirst: at === 0 })),
  );
  type Row = (typeof rows)[number];
  return table<Row>(screen, rows, [
    messageColumn(screen, numbers, ({ message, isFirst }) => (isFirst ? message.message_id : '')),
    { title: 'SENT', cell: ({ message, isFirst }) => (isFirst ? formatTime(screen, message.created_at) : '') },
    { title: 'TO', cell: ({ recipient }) => recipient.recipient },
    { title: 'STATE', cell: ({ recipient }) => recipient.state },
    { title: 'SINCE', time: ({ recipient }) => recipient.at },
    { title: 'SUBJECT', cell: ({ message, isFirst }) => (isFirst ? message.subject : '') },
  ]);
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
function timelineText(screen: Screen, { recipient, steps }: Pick<Recipient, 'recipient' | 'steps'>): string {
  const times = steps.map(({ at }) => formatTime(screen, at));
  const width = Math.max(...times.map((time) => time.length));
  const lines = steps.map(
    ({ state }, at) => `  ${times[at]?.padEnd(width)}  ${state.padEnd(11)}  ${STATE_WORDS[state]}\n`,
  );
  return `to ${printable(recipient)}\n${lines.join('')}`;
}
