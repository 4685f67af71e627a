/** `poste inbox`: the mailbox of an agent, or of the owner. */
import { Command, Option } from 'commander';
import { type InboxInput, type InboxResult, READ_MAX } from '../host/documents/mail.ts';
import type { SearchResult } from '../host/documents/search.ts';
import { ask } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { messageText, summariesText } from './mail-text.ts';
import {
  type MailboxFlags,
  type PageFlags,
  actingFlagsOf,
  given,
  withMailboxFlags,
  withPageFlags,
} from './mailbox-flags.ts';
import { jsonLine, timeText } from './text.ts';
import { wholeNumber } from './values.ts';

const NOTES = `
Reading marks as read, unless --peek is given; an ack says that a message is dealt with. Paste the link of --web into
the browser: what is on a command line, every user of the machine may read, and use first.

Examples:
  $ poste inbox --as reviewer
  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox search --as reviewer flaky test
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
    .addCommand(searchCommand())
    .addHelpText('after', NOTES);
}

/** For a person in a browser. */
async function showLink(flags: MailboxFlags): Promise<void> {
  const { as: _unasked, ...asked } = flags;
  const issued = await ask('web-link', {}, asked);
  process.stdout.write(flags.json ? jsonLine(issued) : `${issued.url}\n`);
  if (!flags.json) process.stderr.write('It opens your mailbox in a browser of this machine, once, within a minute.\n');
}

function listCommand(): Command {
  const command = new Command('list')
    .description('List messages, the newest first.')
    .addOption(new Option('--state <state>', 'which (default: unread)').choices(['unread', 'unacked', 'all']))
    .option('--web', 'print a link that opens your own mailbox in a browser, once');
  return withMailboxFlags(withPageFlags(command))
    .addHelpText('after', '\nExample:\n  $ poste inbox list --as reviewer --state all')
    .action(async (flags: MailboxFlags & PageFlags & Pick<InboxInput, 'state'> & { web?: boolean }) => {
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
  return withMailboxFlags(command)
    .addHelpText('after', '\nExample:\n  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages: string[], flags: MailboxFlags & { peek?: boolean; offset?: number }) => {
      const { peek, offset } = flags;
      await show({ action: 'read', message_ids: messages, ...given({ peek, body_offset: offset }) }, flags);
    });
}

function markCommand(name: string, action: 'mark_read' | 'ack', description: string): Command {
  const command = new Command(name).description(description).argument('<message...>', `their ids, at most ${READ_MAX}`);
  return withMailboxFlags(command)
    .addHelpText('after', `\nExample:\n  $ poste inbox ${name} --as reviewer 06EXAMPLE0000000000000000`)
    .action(async (messages: string[], flags: MailboxFlags) => show({ action, message_ids: messages }, flags));
}

function threadCommand(): Command {
  const command = new Command('thread')
    .description('Show a conversation, the oldest message first.')
    .argument('<thread>', 'the id of the thread');
  return withMailboxFlags(withPageFlags(command))
    .addHelpText('after', '\nExample:\n  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000')
    .action(async (thread: string, flags: MailboxFlags & PageFlags) => {
      const { limit, cursor } = flags;
      await show({ action: 'thread', thread, ...given({ limit, cursor }) }, flags);
    });
}

function searchCommand(): Command {
  const command = new Command('search')
    .description('Look for words in the sender, the subject and the body, the newest message first.')
    .argument('<word...>', 'words that are all to be there; upper and lower case are the same');
  return withMailboxFlags(withPageFlags(command))
    .addHelpText('after', '\nExample:\n  $ poste inbox search --as reviewer flaky test')
    .action(async (words: string[], flags: MailboxFlags & PageFlags) => {
      const { limit, cursor } = flags;
      const asked = { text: words.join(' '), ...given({ limit, cursor }) };
      const result = await ask('mail-search', asked, actingFlagsOf(flags));
      process.stdout.write(flags.json ? jsonLine(result) : foundText(result));
    });
}

async function show(input: InboxInput, flags: MailboxFlags): Promise<void> {
  const acting = actingFlagsOf(flags);
  const result = await ask('mail-inbox', input, acting);
  process.stdout.write(flags.json ? jsonLine(result) : textOf(result, acting.as ?? ''));
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

function foundText({ notice, summaries, looked_at, looked_back_to, next_cursor }: SearchResult): string {
  const found = summaries.length === 0 ? 'Nothing was found.\n' : `${notice}\n\n${summariesText(summaries)}`;
  if (next_cursor === null || looked_back_to === null) return found;
  const back = `${looked_at} messages were looked at, back to ${timeText(looked_back_to)}`;
  return `${found}\n${back}. Further back: --cursor ${next_cursor}\n`;
}
