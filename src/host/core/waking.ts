/**
 * Decides whether a message wakes an idle recipient ("What the service does", 3): kinds `request`, `task`, `decision`
 * and `alert` do; `message` and `reply` only with `needs_reply`, when the body mentions the recipient, or, beyond the
 * rule, when it answers a message of the recipient's own that had `needs_reply`; `status` never.
 *
 * A mention is `@name` or `@name@host` with the name of the recipient and the name of its host, without case. Names are
 * ASCII, so any other letter ends one, as in languages that write no spaces. Before the `@` stands nothing that begins
 * an e-mail address, and no end of a path; a letter of a script that writes no spaces may stand there. After the name
 * stands no `@`, and no `/` with a word behind it (`@name/package`); mentions joined by `/` all count. Full stops,
 * hyphens and underscores at the end of a sentence do not belong to the name unless the recipient is called so. Quotes
 * and code count like any text.
 */
import { foldHostName } from '../../protocol/names.ts';
import { foldName } from './address.ts';
import type { AgentId, MessageKind, MessageRow } from './rows.ts';

interface WakingMessage {
  kind: MessageKind;
  needsReply: boolean;
}

export interface Mentionable {
  /** The recipient's present name, and its name when the message was written. */
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

/** `mentioned` returns what the body mentions, and is called only if that matters. `answered`: the message answered. */
export function wakesRecipient(
  message: WakingMessage,
  mentioned: () => Mentioned,
  recipient: Mentionable & { agentId: AgentId | null },
  answered?: Pick<MessageRow, 'needsReply' | 'fromAgent'>,
): boolean {
  const waking = WAKING[message.kind];
  if (waking !== 'when asked') return waking === 'always';
  const hasAsked = answered?.needsReply === true && answered.fromAgent === recipient.agentId;
  return message.needsReply || hasAsked || isMentioned(mentioned(), recipient);
}

/** Returns how the sender of a message that woke nobody wakes its recipients; undefined for a kind that wakes. */
export function adviceToWake(kind: MessageKind): string | undefined {
  switch (WAKING[kind]) {
    case 'always':
      return undefined;
    case 'when asked':
      return `Kind ${kind} wakes nobody by itself: for that use needs_reply, an @mention, or kind request or task.`;
    case 'never':
      return `Kind ${kind} wakes nobody: for that use kind request or task.`;
  }
}

/** The mentions of a body: `name` and `name@host`, without case, as written and without what closes a sentence. */
export type Mentioned = ReadonlySet<string>;

const AGENT = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
const HOST = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?';
const MENTION = `@${AGENT}(?:@${HOST}[._-]*)?`;
/** Letters of scripts that write spaces between words, and what may follow them: before an `@`, an e-mail address. */
const SPACED = String.raw`\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}`;
/** One mention, or several joined by `/`. The end that it asks for keeps it from taking a part for a name. */
const MENTIONS = new RegExp(
  String.raw`(?=@)(?<![${SPACED}][_%+-]*|[/@])${MENTION}(?:/${MENTION})*(?![A-Za-z0-9._@-]|/[A-Za-z0-9])`,
  'gu',
);
const CLOSING = /[._-]+$/;

/** A body is scanned once, however many recipients it has. */
export function mentionsIn(body: string): Mentioned {
  const found = new Set<string>();
  // Most bodies mention nobody, which a search for one character tells a hundred times as fast.
  if (!body.includes('@')) return found;
  for (const [mentions] of body.matchAll(MENTIONS)) {
    for (const mention of mentions.split('/')) {
      const [name = '', host] = mention.slice(1).split('@');
      const folded = foldName(name);
      for (const meant of [folded, folded.replace(CLOSING, '')])
        found.add(mentionOf(meant, host?.replace(CLOSING, '')));
    }
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
