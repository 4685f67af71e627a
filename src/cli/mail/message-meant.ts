/** Which message a person means: the daemon knows the ids that begin with what was given. */
import type { FindMessageInput } from '../../host/contract/mail.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask } from '../lib/daemon-call.ts';
import { idMeant } from '../lib/short-id.ts';

/** As long as the ids that this host makes: then it is whole. */
const ID_CHARACTERS = 26;

/** The whole id of a message or a thread. What means none comes back as it is, for the daemon to refuse. */
export async function messageMeant(
  context: CommandContext,
  text: string,
  flags: ActingFlags,
  of: NonNullable<FindMessageInput['of']> = 'message',
): Promise<string> {
  if (text.length >= ID_CHARACTERS || text === '') return text;
  const { found } = await ask(context, 'find-message', { text, of }, flags);
  const candidates = found.map(({ id, from, subject }) => ({ id, about: `from ${from}: ${subject}` }));
  return idMeant(text, candidates) ?? text;
}

export async function messagesMeant(
  context: CommandContext,
  texts: readonly string[],
  flags: ActingFlags,
): Promise<string[]> {
  const whole: string[] = [];
  for (const text of texts) whole.push(await messageMeant(context, text, flags));
  return whole;
}
