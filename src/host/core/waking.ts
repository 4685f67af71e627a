/**
 * Whether a message wakes an idle recipient ("What the service does", 3): kinds `request`, `task`, `decision` and
 * `alert` do; `message` and `reply` only with `needs_reply` or when the body mentions the recipient; `status` never.
 *
 * A mention is `@name` or `@name@host` with the name of the recipient and the name of its host, without case. Before
 * the `@` stands nothing, or a character that no word, e-mail address or path ends with; after the name stands no
 * letter, digit or `@`, nor a `/` with a word behind it (`@name/package`). Full stops, hyphens and underscores at the
 * end of a sentence do not belong to the name unless the recipient is called so. Quotes and code count like any text.
 */
import { foldName, isSameHost } from './address.ts';
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

export function wakesRecipient(message: WakingMessage, body: string, recipient: Mentionable): boolean {
  const waking = WAKING[message.kind];
  if (waking !== 'when asked') return waking === 'always';
  return message.needsReply || mentions(body, recipient);
}

const MENTION =
  /(?<![\p{L}\p{N}._%+/@-])@(?<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@(?<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?))?(?![\p{L}\p{N}@]|\/[\p{L}\p{N}])/gu;
const CLOSING = /[._-]+$/;

export function mentions(body: string, { names, host }: Mentionable): boolean {
  const wanted = new Set(names.map(foldName));
  for (const { groups } of body.matchAll(MENTION)) {
    const name = foldName(groups?.['name'] ?? '');
    if (!wanted.has(name) && !wanted.has(name.replace(CLOSING, ''))) continue;
    if (groups?.['host'] === undefined || isSameHost(groups['host'], host)) return true;
  }
  return false;
}
