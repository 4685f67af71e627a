/** `poste reply`: answers a message. */
import { Command } from 'commander';
import { ask } from './daemon-call.ts';
import { sentText } from './mail-text.ts';
import { type MessageFlags, messageOf, withMessageFlags } from './message-flags.ts';
import { jsonLine } from './text.ts';

interface ReplyFlags extends MessageFlags {
  subject?: string;
  toAll?: boolean;
}

const NOTES = `
It goes to whoever sent the message, in the same thread.

Examples:
  $ poste reply --as reviewer 06EXAMPLE0000000000000000 --body 'Looks good.'
  $ poste reply --as reviewer 06EXAMPLE0000000000000000 --to-all --body-file review.md`;

export function replyCommand(): Command {
  const command = new Command('reply')
    .description('Answer a message in the name of an agent.')
    .argument('<message>', 'the id of the message')
    .option('--subject <text>', 'another subject than that of the message')
    .option('--to-all', 'also to everybody else whom the message went to');
  return withMessageFlags(command)
    .addHelpText('after', NOTES)
    .action(async (message: string, flags: ReplyFlags) => {
      const { subject, toAll } = flags;
      const rest = await messageOf(flags);
      const input = {
        message_id: message,
        ...rest,
        ...(subject !== undefined && { subject }),
        ...(toAll && { to_all: true }),
      };
      const result = await ask('mail-reply', input, flags);
      process.stdout.write(flags.json ? jsonLine(result) : sentText(result));
    });
}
