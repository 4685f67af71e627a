/** `poste inbox`: the mailbox of an agent, or of the owner. */
import { Command, Option } from 'commander';
import { type InboxInput, type InboxResult, READ_MAX } from '../host/documents/mail.ts';
import { type ActingFlags, ask, withActingFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { messageText, summariesText } from './mail-text.ts';
import { jsonLine } from './text.ts';
import { wholeNumber } from './values.ts';

interface InboxFlags extends ActingFlags {
  owner?: boolean;
  web?: boolean;
}

const NOTES = `
Reading marks as read, unless --peek is given; an ack says that a message is dealt with. Paste the link of --web into
the browser: what is on a command line, every user of the machine may read, and use first.

Examples:
  $ poste inbox --as reviewer
  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox list --owner --state all --json
  $ poste inbox --web`;

export function inboxCommand(): Command {
  return new Command('inbox')
    .description("Read an agent's mail, or with --owner your own.")
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(readCommand())
    .addCommand(markCommand('mark-read', 'mark_read', 'Mark messages as read without reading them.'))
    .addCommand(markCommand('ack', 'ack', 'Say that messages are dealt with.'))
    .addCommand(threadCommand())
    .addHelpText('after', NOTES);
}

function withInboxFlags(command: Command): Command {
  const ours = command.option('--owner', 'your own mailbox').hook('preAction', refuseTwoNames);
  return withActingFlags(ours, 'print the answer as one JSON document');
}

/** For a person in a browser. */
async function showLink(flags: InboxFlags): Promise<void> {
  const { as: _unasked, ...asked } = flags;
  const issued = await ask('web-link', {}, asked);
  process.stdout.write(flags.json ? jsonLine(issued) : `${issued.url}\n`);
  if (!flags.json) process.stderr.write('It opens your mailbox in a browser of this machine, once, within a minute.\n');
}

/** `POSTE_AGENT` may be set where the owner asks for their own mail. */
function refuseTwoNames(command: Command): void {
  const { owner, web } = command.opts<InboxFlags>();
  if ((owner || web) && command.getOptionValueSource('as') === 'cli') {
    throw new CommandFailed('usage', 'USAGE', `${web ? '--web' : '--owner'} means your own mailbox: leave out --as`);
  }
}

function listCommand(): Command {
  const command = new Command('list')
    .description('List messages, the newest first.')
    .addOption(new Option('--state <state>', 'which (default: unread)').choices(['unread', 'unacked', 'all']))
    .option('--limit <n>', 'at most so many', wholeNumber(1))
    .option('--cursor <cursor>', 'go on after an earlier list')
    .option('--web', 'print a link that opens your own mailbox in a browser, once');
  return withInboxFlags(command)
    .addHelpText('after', '\nExample:\n  $ poste inbox list --as reviewer --state all')
    .action(async (flags: InboxFlags & Pick<InboxInput, 'state' | 'limit' | 'cursor'>) => {
      const { state, limit, cursor } = flags;
      if (flags.web) await showLink(flags);
      else await show({ action: 'list', ...given({ state, limit, cursor }) }, flags);
    });
}

function readCommand(): Command {
  const command = new Command('read')
    .description('Read messages.')
    .argument('<message...>', `their ids, at most ${READ_MAX}`)
    .option('--peek', 'leave them unread')
    .option('--offset <n>', 'go on with the body of one message', wholeNumber(0));
  return withInboxFlags(command)
    .addHelpText('after', '\nExample:\n  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages: string[], flags: InboxFlags & { peek?: boolean; offset?: number }) => {
      const { peek, offset } = flags;
      await show({ action: 'read', message_ids: messages, ...given({ peek, body_offset: offset }) }, flags);
    });
}

function markCommand(name: string, action: 'mark_read' | 'ack', description: string): Command {
  const command = new Command(name).description(description).argument('<message...>', `their ids, at most ${READ_MAX}`);
  return withInboxFlags(command)
    .addHelpText('after', `\nExample:\n  $ poste inbox ${name} --as reviewer 06EXAMPLE0000000000000000`)
    .action(async (messages: string[], flags: InboxFlags) => show({ action, message_ids: messages }, flags));
}

function threadCommand(): Command {
  const command = new Command('thread')
    .description('Show a conversation, the oldest message first.')
    .argument('<thread>', 'the id of the thread')
    .option('--limit <n>', 'at most so many', wholeNumber(1))
    .option('--cursor <cursor>', 'go on after an earlier part');
  return withInboxFlags(command)
    .addHelpText('after', '\nExample:\n  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000')
    .action(async (thread: string, flags: InboxFlags & Pick<InboxInput, 'limit' | 'cursor'>) => {
      const { limit, cursor } = flags;
      await show({ action: 'thread', thread, ...given({ limit, cursor }) }, flags);
    });
}

/** Without the members that were not given. */
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

async function show(input: InboxInput, flags: InboxFlags): Promise<void> {
  const as = flags.owner ? 'owner' : flags.as;
  const result = await ask('mail-inbox', input, { ...flags, ...(as !== undefined && { as }) });
  process.stdout.write(flags.json ? jsonLine(result) : textOf(result, as ?? ''));
  const missing = result.not_found ?? [];
  if (missing.length === 0) return;
  throw new CommandFailed('notFound', 'NO_SUCH_MESSAGE', `not in this mailbox: ${missing.join(', ')}`, {
    not_found: missing,
  });
}

function textOf(result: InboxResult, as: string): string {
  const { notice, unread, total, summaries, messages, changed, next_cursor } = result;
  const parts = [`${as}: ${unread} unread of ${total}.\n`];
  // The words of others come under the sentence that says whose they are.
  if ((summaries?.length ?? 0) + (messages?.length ?? 0) > 0) parts.push(`${notice}\n`);
  if (summaries && summaries.length > 0) parts.push(`\n${summariesText(summaries)}`);
  for (const message of messages ?? []) parts.push(`\n${messageText(message)}`);
  if (!messages && changed) parts.push(`${changed.length} changed.\n`);
  if (next_cursor !== null) parts.push(`\nMore: --cursor ${next_cursor}\n`);
  return parts.join('');
}
