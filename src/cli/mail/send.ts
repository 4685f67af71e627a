/** `poste send` and `poste reply`: a new message, or an answer to one. */
import { type Command, Option } from 'commander';
import type { SendInput } from '../../host/contract/mail.ts';
import { BODY_CHARACTERS_MAX } from '../../host/contract/limits.ts';
import { MESSAGE_KINDS, ORIGINS } from '../../host/core/rows.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask, given, actingCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { givenText } from '../lib/input.ts';
import { jsonLine } from '../lib/format.ts';
import { sentText } from './format-mail.ts';
import { messageMeant } from './message-meant.ts';

interface SendFlags extends MessageFlags {
  to: string[];
  subject: string;
  replyTo?: string;
}

const SEND_NOTES = `
"Accepted" means that this host stored the message, or queued it for another host; it is not a delivery yet. An address
is an agent's name, agent@host, role:<role>, * for everyone, or owner. The kinds request, task, decision and alert wake
an idle recipient; message and reply only with --needs-reply, an @mention, or as the answer to
a message of its own with --needs-reply; status never.

Every user of this machine can read a command line: --body - reads the body from standard input.

Examples:
  $ echo 'Branch fix-7 is ready.' | poste send --as builder --to reviewer --subject 'Ready' --body -
  $ git log -1 | poste send --as builder --to role:review --subject 'Please review' --body - --kind request --needs-reply
  $ echo 'All green.' | POSTE_AGENT=builder poste send --to '*' owner --subject 'Done' --body - --json`;

export function sendCommand(context: CommandContext): Command {
  const command = actingCommand(context, 'send')
    .requiredOption('--to <address...>', 'the recipients, at most 20')
    .requiredOption('--subject <text>', 'the subject, at most 200 characters')
    .option('--reply-to <message>', 'the id of a message, or its first characters: this one joins its thread');
  return withMessageFlags(command)
    .addHelpText('after', SEND_NOTES)
    .action(async (flags: SendFlags) => {
      const { to, subject, replyTo } = flags;
      const rest = await messageOf(context, flags);
      const reply_to = replyTo === undefined ? undefined : await messageMeant(context, replyTo, flags);
      const input = { to, subject, ...rest, ...given({ reply_to }) };
      const result = await ask(context, 'mail-send', input, flags);
      context.stdout.write(flags.json ? jsonLine(result) : sentText(result));
    });
}

interface ReplyFlags extends MessageFlags {
  subject?: string;
  toAll?: boolean;
}

const REPLY_NOTES = `
The answer goes to the sender of the message, in the same thread.

Examples:
  $ echo 'Looks good.' | poste reply --as reviewer 06EXAMPLE0000000000000000 --body -
  $ poste reply --as reviewer 06EXAMPLE0000000000000000 --to-all --body-file review.md`;

export function replyCommand(context: CommandContext): Command {
  const command = actingCommand(context, 'reply')
    .argument('<message>', 'the id of the message, or its first characters')
    .option('--subject <text>', 'the subject (default: that of the message)')
    .option('--to-all', 'send it to the other recipients of the message too');
  return withMessageFlags(command)
    .addHelpText('after', REPLY_NOTES)
    .action(async (message: string, flags: ReplyFlags) => {
      const { subject, toAll } = flags;
      const rest = await messageOf(context, flags);
      const message_id = await messageMeant(context, message, flags);
      const input = { message_id, ...rest, ...given({ subject, to_all: toAll }) };
      const result = await ask(context, 'mail-reply', input, flags);
      context.stdout.write(flags.json ? jsonLine(result) : sentText(result));
    });
}

interface MessageFlags extends ActingFlags {
  body?: string;
  bodyFile?: string;
  kind?: SendInput['kind'];
  needsReply?: boolean;
  ref?: string[];
  idempotencyKey?: string;
  origin?: SendInput['origin'];
}

function withMessageFlags(command: Command): Command {
  return command
    .addOption(new Option('--body <text>', 'the body of the message; - reads standard input').conflicts('bodyFile'))
    .option('--body-file <file>', 'a file with the body of the message')
    .addOption(new Option('--kind <kind>', 'the kind of the message').choices(MESSAGE_KINDS))
    .option('--needs-reply', 'ask for an answer')
    .option('--ref <ref...>', 'what the message refers to: paths, links, commits')
    .option('--idempotency-key <key>', 'a key of your choice: a repeated send with the same key sends nothing')
    .addOption(new Option('--origin <origin>', 'external if you pass on content from outside').choices(ORIGINS));
}

/** The part of the input that both commands have. Throws `CommandFailed`. */
async function messageOf(
  context: CommandContext,
  flags: MessageFlags,
): Promise<Pick<SendInput, 'body' | 'kind' | 'needs_reply' | 'refs' | 'idempotency_key' | 'origin'>> {
  const { kind, needsReply, ref, idempotencyKey, origin } = flags;
  const rest = { kind, needs_reply: needsReply, refs: ref, idempotency_key: idempotencyKey, origin };
  return { body: await bodyOf(context, flags), ...given(rest) };
}

async function bodyOf(context: CommandContext, { body, bodyFile = body }: MessageFlags): Promise<string> {
  if (body !== undefined && body !== '-') return body;
  if (bodyFile === undefined) {
    throw new CommandFailed(
      'usage',
      'USAGE',
      'no body given: use --body - for standard input, --body-file FILE, or --body TEXT',
    );
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
