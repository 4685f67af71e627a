/** `poste send`: begins a conversation. */
import { Command } from 'commander';
import { ask } from './daemon-call.ts';
import { sentText } from './mail-text.ts';
import { type MessageFlags, messageOf, withMessageFlags } from './message-flags.ts';
import { jsonLine } from './text.ts';

interface SendFlags extends MessageFlags {
  to: string[];
  subject: string;
  replyTo?: string;
}

const NOTES = `
Accepted means stored here, or queued for another host; it is no delivery. An address is an agent's name, agent@host,
role:<role>, * for everyone, or owner. request, task, decision and alert wake an idle recipient; message and reply only
with --needs-reply or an @mention; status never.

Examples:
  $ poste send --as builder --to reviewer --subject 'Ready' --body 'Branch fix-7 is ready.'
  $ git log -1 | poste send --as builder --to role:review --subject 'Please review' --body-file - --kind request --needs-reply
  $ POSTE_AGENT=builder poste send --to '*' owner --subject 'Done' --body 'All green.' --json`;

export function sendCommand(): Command {
  const command = new Command('send')
    .description('Send a message in the name of an agent.')
    .requiredOption('--to <address...>', 'whom it goes to, at most 20')
    .requiredOption('--subject <text>', 'at most 200 characters')
    .option('--reply-to <message>', 'the message whose thread it goes on with');
  return withMessageFlags(command)
    .addHelpText('after', NOTES)
    .action(async (flags: SendFlags) => {
      const { to, subject, replyTo } = flags;
      const rest = await messageOf(flags);
      const input = { to, subject, ...rest, ...(replyTo !== undefined && { reply_to: replyTo }) };
      const result = await ask('mail-send', input, flags);
      process.stdout.write(flags.json ? jsonLine(result) : sentText(result));
    });
}
