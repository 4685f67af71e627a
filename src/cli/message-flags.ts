/** What `poste send` and `poste reply` share: where the body comes from, and what else a message may say. */
import { readFileSync } from 'node:fs';
import { text as textOf } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { MESSAGE_KINDS, ORIGINS } from '../host/core/rows.ts';
import { BODY_CHARACTERS_MAX, type SendInput } from '../host/documents/mail.ts';
import { type ActingFlags, withActingFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';

export interface MessageFlags extends ActingFlags {
  body?: string;
  bodyFile?: string;
  kind?: SendInput['kind'];
  needsReply?: boolean;
  ref?: string[];
  idempotencyKey?: string;
  origin?: SendInput['origin'];
}

export function withMessageFlags(command: Command): Command {
  const described = command
    .addOption(new Option('--body <text>', 'what it says').conflicts('bodyFile'))
    .option('--body-file <file>', 'the file that holds what it says; - reads standard input')
    .addOption(new Option('--kind <kind>', 'what kind of message it is').choices(MESSAGE_KINDS))
    .option('--needs-reply', 'an answer is needed')
    .option('--ref <ref...>', 'what it refers to: paths, links, commits')
    .option('--idempotency-key <key>', 'the same key twice sends only once')
    .addOption(new Option('--origin <origin>', 'external when the content comes from outside').choices(ORIGINS));
  return withActingFlags(described, 'print the result as one JSON document');
}

/** The members of the input that both commands have. Throws `CommandFailed`. */
export async function messageOf(
  flags: MessageFlags,
): Promise<Pick<SendInput, 'body' | 'kind' | 'needs_reply' | 'refs' | 'idempotency_key' | 'origin'>> {
  const { kind, needsReply, ref, idempotencyKey, origin } = flags;
  return {
    body: await bodyOf(flags),
    ...(kind && { kind }),
    ...(needsReply && { needs_reply: true }),
    ...(ref && { refs: ref }),
    ...(idempotencyKey !== undefined && { idempotency_key: idempotencyKey }),
    ...(origin && { origin }),
  };
}

async function bodyOf({ body, bodyFile }: MessageFlags): Promise<string> {
  if (body !== undefined) return body;
  if (bodyFile === undefined) {
    throw new CommandFailed(
      'usage',
      'USAGE',
      'there is no body: give it with --body, --body-file, or --body-file - and standard input',
    );
  }
  const text = bodyFile === '-' ? await textOf(process.stdin) : contentsOf(bodyFile);
  if (text.length > 2 * BODY_CHARACTERS_MAX) {
    throw new CommandFailed('usage', 'BAD_INPUT', `body has at most ${BODY_CHARACTERS_MAX} characters`, {
      field: 'body',
    });
  }
  return text;
}

function contentsOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandFailed(
      'notFound',
      'BODY_UNREADABLE',
      `${file} cannot be read (${code ?? 'unknown error'}): name another file with --body-file`,
    );
  }
}
