/**
 * Whether a message wakes an idle recipient ("What the service does", 3): kinds `request`, `task`, `decision` and
 * `alert` do; `message` and `reply` only with `needs_reply` or when the body mentions the recipient; `status` never.
 *
 * A mention is `@name` or `@name@host` with the name of the recipient and the name of its host, without case. Before
 * the `@` stands nothing, or a character that no word, e-mail address or path ends with; after the name stands no
 * letter, digit or `@`, nor a `/` with a word behind it (`@name/package`). Full stops, hyphens and underscores at the
 * end of a sentence do not belong to the name unless the recipient is called so. Quotes and code count like any text.
 */
import { foldHostName } from '../../protocol/names.ts';
import { foldName } from './address.ts';
import type { MessageKind } from './rows.ts';

export interface WakingMessage {
  kind: MessageKind;
  needsReply: boolean;
}

export interface Mentionable {
  /** What the recipient is called, and was called when the message was written. */
  names: readonly string[];
  host: string;
}

const WAKING: Readonly<Record<MessageKind, 'always' | 'when asked' | 'never'>> = {
  request: 'always',
  task: 'always',
  decision: 'always',
  alert: 'always',
  message: 'when asked',
  reply: 'when asked',
  status: 'never',
};

/** `mentioned` is what the body mentions; asked for only where it matters. */
export function wakesRecipient(message: WakingMessage, mentioned: () => Mentioned, recipient: Mentionable): boolean {
  const waking = WAKING[message.kind];
  if (waking !== 'when asked') return waking === 'always';
  return message.needsReply || isMentioned(mentioned(), recipient);
}

/** What a body mentions: `name` and `name@host`, without case, as written and without what closes a sentence. */
export type Mentioned = ReadonlySet<string>;

const MENTION =
  /(?<![\p{L}\p{N}._%+/@-])@(?<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@(?<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?))?(?![\p{L}\p{N}@]|\/[\p{L}\p{N}])/gu;
const CLOSING = /[._-]+$/;

/** A body is looked through once, however many it goes to. */
export function mentionsIn(body: string): Mentioned {
  const found = new Set<string>();
  for (const { groups } of body.matchAll(MENTION)) {
    const name = foldName(groups?.['name'] ?? '');
    const host = groups?.['host'];
    for (const meant of [name, name.replace(CLOSING, '')]) found.add(mentionOf(meant, host));
  }
  return found;
}

export function isMentioned(mentioned: Mentioned, { names, host }: Mentionable): boolean {
  return names.some(
    (name) => mentioned.has(mentionOf(foldName(name))) || mentioned.has(mentionOf(foldName(name), host)),
  );
}

function mentionOf(foldedName: string, host?: string): string {
  return host === undefined ? foldedName : `${foldedName}@${foldHostName(host)}`;
}
