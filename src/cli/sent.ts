/** `poste sent`: what an agent, or the owner, sent, and how far it came. */
import { Command } from 'commander';
import type { SentInput, SentResult } from '../host/documents/sent.ts';
import { ask } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import {
  type MailboxFlags,
  type PageFlags,
  actingFlagsOf,
  given,
  withMailboxFlags,
  withPageFlags,
} from './mailbox-flags.ts';
import { deliveryText, sentListText } from './delivery-text.ts';
import { jsonLine } from './text.ts';

const NOTES = `
Without a message it lists what was sent, the newest first, with what is known of each recipient. With one it shows
the message's way to each of them, step by step. A step is known by the word of the recipient's host.

Examples:
  $ poste sent --as builder
  $ poste sent --as builder 06EXAMPLE0000000000000000
  $ poste sent --owner --limit 50 --json`;

export function sentCommand(): Command {
  const command = new Command('sent')
    .description('Show what was sent, and how far it came.')
    .argument('[message]', 'the id of a message that was sent: its way to each recipient');
  return withMailboxFlags(withPageFlags(command))
    .addHelpText('after', NOTES)
    .action(async (message: string | undefined, flags: MailboxFlags & PageFlags) => {
      const result = await ask('mail-sent', inputOf(message, flags), actingFlagsOf(flags));
      process.stdout.write(flags.json ? jsonLine(result) : textOf(result, message !== undefined));
    });
}

function inputOf(message: string | undefined, { limit, cursor }: PageFlags): SentInput {
  if (message === undefined) return given({ limit, cursor });
  if (limit !== undefined || cursor !== undefined) {
    throw new CommandFailed('usage', 'USAGE', '--limit and --cursor are for the list: leave out the message');
  }
  return { message_id: message };
}

function textOf({ messages, next_cursor }: SentResult, isOne: boolean): string {
  if (isOne) return messages.map(deliveryText).join('');
  if (messages.length === 0) return 'Nothing was sent.\n';
  const more = next_cursor === null ? '' : `\nMore: --cursor ${next_cursor}\n`;
  return `${sentListText(messages)}${more}`;
}
