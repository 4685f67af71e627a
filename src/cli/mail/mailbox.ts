/**
 * `poste inbox`: the mail that an agent, or the owner, received: lists, whole messages, and with `--follow` mail as it
 * comes, also when the daemon restarts meanwhile. Text of others is made printable and marked as theirs.
 */
import { join } from 'node:path';
import { Command } from 'commander';
import type { InboxInput, InboxResult, MessageSummary, SearchResult } from '../../host/contract/mail.ts';
import { fullSummary } from '../../host/contract/usual-mail.ts';
import { READ_MAX, INBOX_WAIT_MS_MAX, LIST_LIMIT_MAX, SEARCH_LIMIT_DEFAULT } from '../../host/contract/limits.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { printable } from '../../protocol/printable.ts';
import { Attendance } from '../lib/attendance.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask, mailboxCommand, silenceOf } from '../lib/daemon-call.ts';
import { CommandFailed, EXIT, stopping, usageFailure } from '../lib/exit.ts';
import { jsonLine } from '../lib/format.ts';
import { print, writeAll } from '../lib/output.ts';
import { formatMoment, screenOf, applyStyle } from '../lib/screen.ts';
import { PatientDaemon } from '../lib/patient-daemon.ts';
import {
  type MessageNumbers,
  messageMeant,
  messagesMeant,
  MESSAGE_NAMES,
  numbersShown,
  shownMessage,
} from './message-names.ts';
import { cutTo } from '../lib/table.ts';
import { nameAgents } from './agents.ts';
import { seconds, wholeNumber, withoutUndefined } from '../lib/values.ts';
import { foundText, inboxText, kindText } from './mail-text.ts';
import { type PageFlags, withPageFlags } from './send.ts';
import { printWhenListed } from './wait-for-mail.ts';

const INBOX_NOTES = `
At a terminal this is your own mailbox, unless --as or POSTE_AGENT names an agent. In a pipe, and in a command that the
program of an agent runs, one of them must name whose mailbox it is.

Reading marks messages as read, unless you add --peek. An ack says that you have dealt with a message. --follow prints a
line for each message, or a JSON document with --json, goes on when the daemon restarts, and ends at ctrl-c with 130.
Its reader is live meanwhile, and what it prints counts as notified. --wait ends with 0 as soon as there is mail, and
with 75 when none came. Do not pass the link of --web on a command line, where every user of the machine can read it
and use it first.

Examples:
  $ poste inbox
  $ poste inbox --as reviewer
  $ poste inbox read --as reviewer 3
  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000
  $ poste inbox search --as reviewer flaky test from:builder
  $ poste inbox list --as owner --state all --json
  $ poste inbox --follow --as reviewer
  $ poste inbox --wait 600 --as ci --reply-to 06EXAMPLE0000000000000000
  $ poste inbox --web`;

export function inboxCommand(context: CommandContext): Command {
  const inbox = new Command('inbox').addHelpText('after', INBOX_NOTES);
  inbox.addCommand(listCommand(context), { isDefault: true });
  mailboxCommand(context, 'read')
    .childOf(inbox, 'Read messages.')
    .argument('<message...>', `each by ${MESSAGE_NAMES}; at most ${READ_MAX}`)
    .option('--peek', 'do not mark them as read')
    .option('--offset <n>', 'show the body of one message from this character on', wholeNumber(0))
    .notes('\nExample:\n  $ poste inbox read --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages, { peek, offset, ...flags }) => {
      if (offset !== undefined && messages.length > 1)
        throw usageFailure('--offset goes with one message: leave out the others');
      const message_ids = await messagesMeant(context, messages, flags);
      await show(context, { action: 'read', message_ids, ...withoutUndefined({ peek, body_offset: offset }) }, flags);
    });
  mailboxCommand(context, 'ack')
    .childOf(inbox, 'Acknowledge messages: you have dealt with them.')
    .argument('<message...>', `each by ${MESSAGE_NAMES}; at most ${READ_MAX}`)
    .notes('\nExample:\n  $ poste inbox ack --as reviewer 06EXAMPLE0000000000000000')
    .action(async (messages, flags) => {
      await show(context, { action: 'ack', message_ids: await messagesMeant(context, messages, flags) }, flags);
    });
  withPageFlags(mailboxCommand(context, 'thread').argument('<thread>', `a message in it by ${MESSAGE_NAMES}`))
    .childOf(inbox, 'Show a conversation, the oldest message first.')
    .notes('\nExample:\n  $ poste inbox thread --as reviewer 06EXAMPLE0000000000000000')
    .action(async (thread, { limit, cursor, ...flags }) => {
      const [id] = await messagesMeant(context, [thread] as const, flags);
      await show(context, { action: 'thread', thread: id, ...withoutUndefined({ limit, cursor }) }, flags);
    });
  const words = 'words and filters; every one must match, and case does not matter';
  withPageFlags(mailboxCommand(context, 'search').argument('<text...>', words))
    .childOf(inbox, 'Search sender, subject and body, and show the newest message first.')
    .notes(SEARCH_NOTES)
    .action(async (words, flags) => {
      const result = await searchPages(context, words.join(' '), flags);
      const shown = result.summaries.map(({ message_id }) => message_id);
      const numbers = await numbersShown(context, shown, flags);
      print(context, flags, result, () => foundText(screenOf(context), flags.as ?? '', result, numbers));
    });
  return inbox;
}

/** The file that leads the browser to the owner's page, in the folder of the host's data. */
const PAGE_FILE = 'open-mail.html';

/** Opens the owner's mailbox in the browser of a person; elsewhere, and where there is none, prints a link to it. */
async function openPage(context: CommandContext, { as, ...flags }: ActingFlags, command: Command): Promise<void> {
  // The default of --as is no conflict: POSTE_AGENT may be set while the owner reads their own mail.
  if (as !== OWNER_NAME && command.getOptionValueSource('as') === 'cli')
    throw usageFailure('--web means your own mailbox: leave out --as');
  const issued = await ask(context, 'web-link', {}, flags);
  if (flags.json) {
    context.stdout.write(jsonLine(issued));
    return;
  }
  const file = join(ownPaths(context).dataFolder, PAGE_FILE);
  const isPerson = screenOf(context).columns !== undefined;
  const { openInBrowser } = await import('../lib/browser.ts');
  const isOpened = isPerson && (await openInBrowser(context, issued.url, file));
  if (isOpened) context.stderr.write('Your mailbox opens in the browser. If it does not, paste this link there:\n');
  context.stdout.write(`${issued.url}\n`);
  context.stderr.write('The link opens your mailbox in a browser on this machine. It works once, within a minute.\n');
}

function listCommand(context: CommandContext): Command {
  const whole = ['web', 'state', 'limit', 'cursor'] as const;
  const wait = 'wait so long for mail where none is there; exits with 75 when none came';
  const answers = 'only the answers to this message, read ones too';
  const draft = mailboxCommand(context, 'list')
    .description('List messages, the newest first.')
    .option('--state <state>', 'which messages (default: unread)', { choices: ['unread', 'unacked', 'all'] })
    .option('--web', 'open your own mailbox in the browser, or print a link to it that works once')
    .option('--follow', 'print what is unread, and then mail as it comes, until ctrl-c', { conflicts: whole })
    .option('--wait <seconds>', wait, { parse: seconds, conflicts: ['web', 'follow', 'cursor'] })
    .option('--reply-to <message>', answers, { conflicts: ['web', 'follow'] });
  return withPageFlags(draft)
    .notes('\nExample:\n  $ poste inbox list --as reviewer --state all')
    .action(async (flags, self) => {
      const { state, limit, cursor, wait, replyTo } = flags;
      if (flags.web) return openPage(context, flags, self);
      if (flags.follow) return follow(context, flags);
      const input = {
        action: 'list' as const,
        ...withoutUndefined({ state, limit, cursor, reply_to: await messageMeant(context, replyTo, flags) }),
      };
      if (wait === undefined) {
        const { summaries = [] } = await show(context, input, flags);
        if (summaries.length === 0) await nameAgents(context, self, 'Read the mail of one with: poste inbox');
        return undefined;
      }
      return printWhenListed(context, { ...flags, wait }, input, (result) => shownText(context, result, flags));
    });
}

const SEARCH_NOTES = `
A word finds the words that begin with it, "two words" in quotes those words alone, in that order. Filters, all of which
must be true as well: from:alice, to:bob@laptop, kind:task, subject:build, is:unread, is:unacked, is:needs-reply,
after:2026-03-01, before:2026-03-31 (days begin in UTC).

Examples:
  $ poste inbox search --as reviewer flaky test
  $ poste inbox search --as reviewer '"flaky test"' from:builder is:unread`;

/** A full page, or all there is: an answer that read as much as one may is continued. */
async function searchPages(
  context: CommandContext,
  text: string,
  flags: ActingFlags & PageFlags,
): Promise<SearchResult> {
  const { limit = SEARCH_LIMIT_DEFAULT } = flags;
  const summaries: MessageSummary[] = [];
  for (let { cursor } = flags; ; ) {
    const asked = { text, limit: limit - summaries.length, ...withoutUndefined({ cursor }) };
    const result = await ask(context, 'mail-search', asked, flags);
    summaries.push(...result.summaries);
    if (result.next_cursor === null || summaries.length >= limit) return { ...result, summaries };
    cursor = result.next_cursor;
  }
}

/** Throws `CommandFailed` when a message that was named is not there. */
async function show(context: CommandContext, input: InboxInput, flags: ActingFlags): Promise<InboxResult> {
  const result = await ask(context, 'mail-inbox', input, flags);
  context.stdout.write(await shownText(context, result, flags));
  const missing = result.not_found ?? [];
  if (missing.length === 0) return result;
  const message = `not in this mailbox: ${missing.join(', ')}; poste inbox --state all lists what is`;
  throw new CommandFailed('notFound', 'NO_SUCH_MESSAGE', message, { not_found: missing });
}

async function shownText(context: CommandContext, result: InboxResult, flags: ActingFlags): Promise<string> {
  if (flags.json) return jsonLine(result);
  const shown = [...(result.summaries ?? []), ...(result.messages ?? [])].map(({ message_id }) => message_id);
  return inboxText(screenOf(context), result, flags.as ?? '', await numbersShown(context, shown, flags));
}

/**
 * Prints what is unread, and then all mail that comes; ends at ctrl-c, with 130. Its reader is live meanwhile, and what
 * is printed counts as notified.
 */
export async function follow(context: CommandContext, flags: ActingFlags): Promise<void> {
  const signal = stopping(context);
  const daemon = new PatientDaemon(context, flags, signal);
  const mailbox = new FollowedMailbox(daemon);
  try {
    const first = await mailbox.begin();
    const attendance = await Attendance.begin({ daemon, name: 'follow', isAlone: false, signal });
    try {
      const show = async (summaries: readonly MessageSummary[]): Promise<void> => {
        for (let at = 0; at < summaries.length; at += LIST_LIMIT_MAX) {
          const part = summaries.slice(at, at + LIST_LIMIT_MAX);
          const ids = part.map(({ message_id }) => message_id);
          const numbers = await numbersShown(context, ids, flags);
          await writeAll(context.stdout, part.map((summary) => lineOf(context, summary, numbers, flags)).join(''));
          await attendance.report({ has: ids });
        }
      };
      if (screenOf(context).columns !== undefined) context.stderr.write('Waiting for mail; ctrl-c ends it.\n');
      await show(first);
      while (!signal.aborted) await show(await Promise.race([mailbox.next(), attendance.lost]));
    } finally {
      await attendance.end();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  context.exitCode = EXIT.interrupted;
}

class FollowedMailbox {
  readonly #daemon: PatientDaemon;
  /** The newest message that is known; null in an empty mailbox. */
  #newest: MessageSummary | null = null;
  #mark: string | undefined;

  constructor(daemon: PatientDaemon) {
    this.#daemon = daemon;
  }

  /** The unread messages, the oldest first. Throws also when no daemon runs. */
  async begin(): Promise<MessageSummary[]> {
    const { mark, summaries } = await this.#daemon.askNow('watch-inbox', {});
    this.#mark = mark;
    // Any message that comes from here on is newer than this, unread or not.
    const { summaries: newest = [] } = await this.#page(undefined, 1);
    this.#newest = newest[0] ?? null;
    const known = new Set(summaries.map(({ message_id }) => message_id));
    const last = newest.find((one) => fullSummary(one, '').state === 'unread' && !known.has(one.message_id));
    return last ? [...summaries.toReversed(), last] : summaries.toReversed();
  }

  /** The messages that came since, the oldest first; none when the time of one wait is over. */
  async next(): Promise<MessageSummary[]> {
    const asked = { wait_ms: INBOX_WAIT_MS_MAX, ...(this.#mark !== undefined && { mark: this.#mark }) };
    const { mark } = await this.#daemon.ask('watch-inbox', asked, silenceOf(INBOX_WAIT_MS_MAX));
    if (mark === this.#mark) return [];
    this.#mark = mark;
    return this.#come();
  }

  async #come(): Promise<MessageSummary[]> {
    const known = this.#newest;
    const come: MessageSummary[] = [];
    let cursor: string | undefined;
    for (let isOver = false; !isOver; ) {
      const { summaries = [], next_cursor: next } = await this.#page(cursor, LIST_LIMIT_MAX);
      for (const summary of summaries) {
        isOver = known !== null && (summary.message_id === known.message_id || storedAt(summary) < storedAt(known));
        if (isOver) break;
        come.push(summary);
      }
      cursor = next;
      isOver ||= cursor === undefined;
    }
    this.#newest = come[0] ?? known;
    return come.toReversed();
  }

  /** A page of the whole mailbox, the newest first. Marks nothing: that is for what was printed. */
  #page(cursor: string | undefined, limit: number): Promise<InboxResult> {
    const asked = { action: 'list', state: 'all', limit, peek: true, ...(cursor !== undefined && { cursor }) } as const;
    return this.#daemon.ask('mail-inbox', asked);
  }
}

/** The time of this host's clock, as text that sorts as time does. */
function storedAt(summary: MessageSummary): string {
  return fullSummary(summary, '').stored_at;
}

function lineOf(
  context: CommandContext,
  given: MessageSummary,
  numbers: MessageNumbers,
  { as = '', json }: ActingFlags,
): string {
  if (json) return jsonLine(given);
  const summary = fullSummary(given, as);
  const screen = screenOf(context);
  const { message_id, from, subject, stored_at } = summary;
  const id = screen.columns === undefined ? message_id : shownMessage(message_id, numbers);
  const time = formatMoment(screen, stored_at);
  const text = printable(`${from}: ${subject} (${kindText(summary)})`);
  const room = screen.columns === undefined ? Infinity : screen.columns - time.length - id.length - 4;
  return `${applyStyle(screen, 'dim', time)}  ${applyStyle(screen, 'yellow', id)}  ${cutTo(text, room)}\n`;
}
