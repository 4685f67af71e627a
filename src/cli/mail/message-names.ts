/**
 * Messages as people name them on a terminal: by their numbers in a mailbox, which lists show instead of ids. The
 * daemon has the numbers, so that one always means the same message; ids and parts of them go to it as they are.
 */
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask } from '../lib/daemon-call.ts';
import { screenOf } from '../lib/screen.ts';
import { shortIds } from '../lib/table.ts';

/** Help names a message by this. */
export const MESSAGE_NAMES = 'its number in a list, its id, or the first or last characters of its id';

/** Ids of this host begin with 0, and no mailbox has so many messages. */
const MESSAGE_NUMBER = /^[1-9][0-9]{0,8}$/;

/** The texts, with the ids of messages in the place of their numbers in the mailbox. Throws `CommandFailed`. */
export async function messagesMeant<Texts extends readonly string[]>(
  context: CommandContext,
  texts: Texts,
  flags: ActingFlags,
): Promise<{ [At in keyof Texts]: string }> {
  const numbers = texts.filter((text) => MESSAGE_NUMBER.test(text)).map(Number);
  const { messages } =
    numbers.length === 0 ? { messages: [] } : await ask(context, 'message-numbers', { numbers }, flags);
  const ids = new Map(messages.map(({ number, message_id }) => [String(number), message_id]));
  // A number that is none may still be the end of an id: the daemon says what is unknown.
  return texts.map((text) => ids.get(text) ?? text) as { [At in keyof Texts]: string };
}

/** The same for a text that need not be given. */
export async function messageMeant(
  context: CommandContext,
  text: string | undefined,
  flags: ActingFlags,
): Promise<string | undefined> {
  return text === undefined ? undefined : (await messagesMeant(context, [text], flags))[0];
}

/** The number, by its id, of each message in the mailbox that is listed. A terminal shows it in the place of the id. */
export type MessageNumbers = ReadonlyMap<string, number>;

/** The numbers of these messages for a list on a terminal; none for a pipe, where ids are whole. */
export async function numbersShown(
  context: CommandContext,
  message_ids: readonly string[],
  flags: ActingFlags,
): Promise<MessageNumbers> {
  if (flags.json || screenOf(context).columns === undefined || message_ids.length === 0) return new Map();
  const { messages } = await ask(context, 'message-numbers', { message_ids: [...message_ids] }, flags);
  return new Map(messages.map(({ number, message_id }) => [message_id, number]));
}

/** A message as a person may name it: by its number, or by the first characters of its id where it has none. */
export function shownMessage(id: string, numbers: MessageNumbers): string {
  const number = numbers.get(id);
  return number === undefined ? (shortIds([id])[0] ?? id) : String(number);
}
