/** `poste inbox --follow`: mail as it comes, a line each, also when the daemon restarts meanwhile. */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { MessageSummary } from '../../host/contract/mail.ts';
import { INBOX_WAIT_MS_MAX, LIST_LIMIT_MAX } from '../../host/contract/limits.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask } from '../lib/daemon-call.ts';
import { CommandFailed, EXIT, stopping } from '../lib/exit.ts';
import { jsonLine } from '../lib/format.ts';
import { formatMoment, screenOf, styled } from '../lib/screen.ts';
import { cutTo, shortIds } from '../lib/table.ts';
import { kindText } from './format-mail.ts';

/** Longer than the daemon waits. */
const SILENCE_MS = INBOX_WAIT_MS_MAX + 15_000;
/** How long after a call to a daemon that is gone the next one follows. */
const RETRY_MS = 500;
/** A daemon that ended, ends, or is about to start. */
const GONE_CODES: ReadonlySet<string> = new Set(['DAEMON_NOT_RUNNING', 'DAEMON_GONE', 'DAEMON_SILENT', 'UNAVAILABLE']);

/** Prints what is unread, and then all mail that comes. Ends at ctrl-c, with 130. */
export async function follow(context: CommandContext, flags: ActingFlags): Promise<void> {
  const signal = stopping(context);
  const mailbox = new FollowedMailbox(context, flags, signal);
  try {
    for (const summary of await mailbox.begin()) print(context, summary, flags);
    if (screenOf(context).columns !== undefined) context.stderr.write('Waiting for mail; ctrl-c ends it.\n');
    while (!signal.aborted) {
      for (const summary of await mailbox.next()) print(context, summary, flags);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  context.exitCode = EXIT.interrupted;
}

class FollowedMailbox {
  readonly #context: CommandContext;
  readonly #flags: ActingFlags;
  readonly #signal: AbortSignal;
  /** The newest message that is known; null in an empty mailbox. */
  #newest: MessageSummary | null = null;
  #mark: string | undefined;
  #isGone = false;

  constructor(context: CommandContext, flags: ActingFlags, signal: AbortSignal) {
    this.#context = context;
    this.#flags = flags;
    this.#signal = signal;
  }

  /** What is unread, the oldest first. */
  async begin(): Promise<MessageSummary[]> {
    const { mark, summaries } = await this.#watch(0);
    this.#mark = mark;
    // What comes from here on is newer than this, unread or not.
    const newest = await this.#page(undefined, 1);
    this.#newest = newest.summaries[0] ?? null;
    const known = new Set(summaries.map(({ message_id }) => message_id));
    const isBetween = this.#newest !== null && this.#newest.state === 'unread' && !known.has(this.#newest.message_id);
    return isBetween && this.#newest ? [...summaries.toReversed(), this.#newest] : summaries.toReversed();
  }

  /** What has come since, the oldest first; nothing when the daemon went, or the time of one wait is over. */
  async next(): Promise<MessageSummary[]> {
    try {
      const { mark } = await this.#watch(INBOX_WAIT_MS_MAX);
      this.#say(false);
      if (mark === this.#mark) return [];
      this.#mark = mark;
      return await this.#come();
    } catch (error) {
      if (this.#signal.aborted || !(error instanceof CommandFailed) || !GONE_CODES.has(error.code)) throw error;
      this.#say(true);
      await elapsed(RETRY_MS, undefined, { signal: this.#signal });
      return [];
    }
  }

  /** Says once that the daemon went, and once that it came back. */
  #say(isGone: boolean): void {
    if (this.#isGone === isGone) return;
    this.#isGone = isGone;
    const what = isGone ? 'the daemon does not answer; mail is shown again when it does' : 'the daemon answers again';
    this.#context.stderr.write(`poste: ${what}.\n`);
  }

  async #come(): Promise<MessageSummary[]> {
    const known = this.#newest;
    const come: MessageSummary[] = [];
    let cursor: string | undefined;
    for (let isOver = false; !isOver; ) {
      const page = await this.#page(cursor, LIST_LIMIT_MAX);
      for (const summary of page.summaries) {
        isOver = known !== null && (summary.message_id === known.message_id || summary.stored_at < known.stored_at);
        if (isOver) break;
        come.push(summary);
      }
      cursor = page.next_cursor ?? undefined;
      isOver ||= cursor === undefined;
    }
    this.#newest = come[0] ?? known;
    return come.toReversed();
  }

  #watch(wait_ms: number): Promise<{ mark: string; summaries: MessageSummary[] }> {
    const asked = { wait_ms, ...(this.#mark !== undefined && { mark: this.#mark }) };
    return ask(this.#context, 'watch-inbox', asked, this.#flags, { signal: this.#signal, silenceMs: SILENCE_MS });
  }

  /** Of the whole mailbox, the newest first. Marks them notified, as a list does. */
  async #page(
    cursor: string | undefined,
    limit: number,
  ): Promise<{ summaries: MessageSummary[]; next_cursor: string | null }> {
    const asked = { action: 'list', state: 'all', limit, ...(cursor !== undefined && { cursor }) } as const;
    const options = { signal: this.#signal };
    const { summaries = [], next_cursor } = await ask(this.#context, 'mail-inbox', asked, this.#flags, options);
    return { summaries, next_cursor };
  }
}

function print(context: CommandContext, summary: MessageSummary, { json }: ActingFlags): void {
  context.stdout.write(json ? jsonLine(summary) : lineOf(context, summary));
}

function lineOf(context: CommandContext, summary: MessageSummary): string {
  const screen = screenOf(context);
  const { message_id, from, subject, stored_at } = summary;
  const id = screen.columns === undefined ? message_id : (shortIds([message_id])[0] ?? '');
  const time = formatMoment(screen, stored_at);
  const text = printable(`${from}: ${subject} (${kindText(summary)})`);
  const room = screen.columns === undefined ? Infinity : screen.columns - time.length - id.length - 4;
  return `${styled(screen, 'dim', time)}  ${styled(screen, 'yellow', id)}  ${cutTo(text, room)}\n`;
}
