/**
 * The mail that `poste run` gives its command: the oldest unread message first, one at a time, until each is done.
 *
 *     unread ─▶ the try is written down ─▶ the command starts: notified ─▶ exit code 0: answered, then acked
 *       ▲                                                               └▶ else: again after a pause
 *       └──────────────────────────────────────────────────────────────────┘ and after the last try: read, not acked
 *
 * Invariants:
 *   - a message is acked only after its command ended with 0, and its answer is stored;
 *   - a command runs only while a record says that its message was tried: one that a crash cut off runs again, and its
 *     environment says so (`POSTE_TRY`);
 *   - a message that its command cannot deal with is given up after so many tries, and its sender is told.
 */
import type { FileHandle } from 'node:fs/promises';
import { setTimeout as elapsed } from 'node:timers/promises';
import { INBOX_WAIT_MS_MAX, READ_BYTES_MAX } from '../../host/contract/limits.ts';
import { type FullMessage, fullMessage } from '../../host/contract/usual-mail.ts';
import { countText } from '../../host/core/spans.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import { printable } from '../../protocol/printable.ts';
import type { Attendance } from '../lib/attendance.ts';
import type { CommandContext } from '../lib/context.ts';
import { silenceOf } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import type { PatientDaemon } from '../lib/patient-daemon.ts';
import {
  ANSWER_BYTES_MAX,
  argumentFault,
  type CommandEnd,
  mailEnvironment,
  mailText,
  placeMail,
  startCommand,
} from './run-command.ts';
import type { RunRecord } from './run-record.ts';

export const PAUSE_MAX_MS = 600_000;
/** The time between two looks whether a full disk takes a record again. */
const DISK_PAUSE_MS = 5000;
const DISK_FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE']);

export interface RunOptions {
  agent: string;
  words: readonly string[];
  /** The time that the command has for one message. */
  timeoutMs: number | undefined;
  triesMax: number;
  /** The pause between the first two tries; each further one is twice as long. */
  pauseMs: number;
  /** The output of the command is sent as the answer. */
  replies: boolean;
  /** Ends when nothing is unread, or a message has to be tried again later. */
  isOnce: boolean;
  messagesMax: number;
}

export interface RunParts {
  context: CommandContext;
  options: RunOptions;
  /** Its calls end soon after `signal` is aborted, so that what was done is still told. */
  daemon: PatientDaemon;
  /** Its calls end with `signal`. */
  waiting: PatientDaemon;
  attendance: Pick<Attendance, 'report'>;
  record: RunRecord;
  signal: AbortSignal;
}

/** `done`: acked. `given up`: read. `again`: it is unread, and tried again later. `stopped`: so told in the try. */
type MessageEnd = 'done' | 'given up' | 'again' | 'stopped';

/** The end of a run says what became of the messages. */
export interface RunEnd {
  /** One was given up. */
  hasGivenUp: boolean;
  /** One is to be tried again by the next run. */
  isLeft: boolean;
}

/** Gives the command mail until it has had as much as it may, or `signal` is aborted. */
export async function runMail(parts: RunParts): Promise<RunEnd> {
  const { options, signal } = parts;
  const mail = new RunMail(parts);
  let [handled, hasGivenUp] = [0, false];
  while (handled < options.messagesMax && !signal.aborted) {
    const message = await mail.oldest();
    if (!message) break;
    const end = await mail.handle(message);
    if (end === 'given up') hasGivenUp = true;
    if (end === 'done' || end === 'given up') handled++;
    if (end === 'again' && options.isOnce) return { hasGivenUp, isLeft: true };
  }
  return { hasGivenUp, isLeft: false };
}

class RunMail {
  readonly #parts: RunParts;
  #mark: string | undefined;

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  /**
   * The message to try again, or the oldest unread one, once there is one. `undefined`: there is none, and nothing
   * waits for one.
   */
  async oldest(): Promise<FullMessage | undefined> {
    const { waiting, options, record, signal } = this.#parts;
    // Its command may have read it before it failed: then it is not unread any more.
    const again = record.pending === undefined ? undefined : await this.#whole(record.pending);
    if (again?.state === 'read') return again;
    while (!signal.aborted) {
      const asked = this.#mark === undefined ? {} : { mark: this.#mark, wait_ms: INBOX_WAIT_MS_MAX };
      const silence = silenceOf(INBOX_WAIT_MS_MAX);
      const { mark, summaries } = await waiting.ask('watch-inbox', { ...asked, oldest_first: true }, silence);
      const [oldest] = summaries;
      const message = oldest && (await this.#whole(oldest.message_id));
      this.#mark = message ? undefined : mark;
      if (message) return message;
      if (options.isOnce && !oldest) return undefined;
    }
    return undefined;
  }

  /** `undefined` when it is gone from the mailbox. Nothing is marked. */
  async #whole(message_id: string): Promise<FullMessage | undefined> {
    let whole: FullMessage | undefined;
    let offset: number | null = 0;
    while (offset !== null) {
      const part: FullMessage | undefined = await this.#part(message_id, offset);
      if (!part) return undefined;
      whole = whole ? { ...whole, body: whole.body + part.body } : part;
      offset = part.next_body_offset;
    }
    return whole;
  }

  async #part(message_id: string, body_offset: number): Promise<FullMessage | undefined> {
    const { messages = [] } = await this.#parts.waiting.ask('mail-inbox', {
      action: 'read',
      message_ids: [message_id],
      peek: true,
      max_bytes: READ_BYTES_MAX,
      body_offset,
    });
    return messages[0] && fullMessage(messages[0], this.#parts.options.agent);
  }

  /** One try with a message, and what follows from how that ended. */
  async handle(message: FullMessage): Promise<MessageEnd> {
    const { options, record, attendance } = this.#parts;
    const { message_id } = message;
    const text = mailText(message);
    const { words, isPlaced } = placeMail(options.words, text);
    const fault = argumentFault(words);
    if (fault !== undefined) return this.#giveUp(message, fault, 'No argument of its command can hold it.');
    const before = record.triesOf(message_id);
    // It was cut off in its last try.
    if (before >= options.triesMax) return this.#giveUpTried(message, 'did not end', before);
    const input = await this.#begin(message_id, before + 1, isPlaced ? undefined : text);
    let end: CommandEnd;
    try {
      end = await this.#run(message, words, input?.fd, before + 1);
    } finally {
      await input?.close();
    }
    if (end.fault === undefined) {
      await this.#finish(message, end);
      return 'done';
    }
    await attendance.report({ doing: 'idle' }).catch(() => undefined);
    if (end.isStopped) {
      // The owner's stop is no try.
      await record.write(message_id, before).catch(() => undefined);
      return 'stopped';
    }
    return this.#retryOrGiveUp(message, end.fault, before + 1);
  }

  /** Opens what goes to standard input, and then writes down that a try begins: once the disk takes both. */
  async #begin(messageId: string, attempt: number, input: string | undefined): Promise<FileHandle | undefined> {
    const { context, record, options, signal } = this.#parts;
    for (let hasSaid = false; ; ) {
      try {
        const file = input === undefined ? undefined : await record.open(input);
        try {
          await record.write(messageId, attempt);
        } catch (error) {
          await file?.close();
          throw error;
        }
        return file;
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        const isFull = DISK_FULL.has(code);
        const remedy = isFull ? 'make room' : 'let this user write there';
        const said = `${record.path} cannot be written (${message}), and without it no command is started: ${remedy}`;
        if (!isFull || options.isOnce) throw new CommandFailed('failure', 'RECORD_NOT_WRITTEN', said);
        if (!hasSaid) context.stderr.write(`poste: ${said}.\n`);
        hasSaid = true;
      }
      await elapsed(DISK_PAUSE_MS, undefined, { signal });
    }
  }

  #run(
    message: FullMessage,
    words: readonly string[],
    inputFd: number | undefined,
    attempt: number,
  ): Promise<CommandEnd> {
    const { context, options, record, attendance, signal } = this.#parts;
    const { agent, timeoutMs, replies } = options;
    const { message_id } = message;
    const environment = mailEnvironment(message, agent, attempt);
    const call = { words, environment, inputFd, timeoutMs, keepsOutput: replies, signal };
    return startCommand(context, call, async (pid) => {
      const told = attendance.report({ doing: 'work', has: [message_id] });
      // A crash of this process would leave the command alone; the next `poste run` ends it.
      await record.write(message_id, attempt, pid).catch(() => undefined);
      // The work is done also when nobody could be told of its beginning.
      await told.catch(() => undefined);
    });
  }

  /** The command did its work: its answer is sent, and the message acked. */
  async #finish(message: FullMessage, { output, outputBytes }: CommandEnd): Promise<void> {
    const { daemon, attendance, record, options } = this.#parts;
    const { message_id } = message;
    if (options.replies) await this.#answer(message, answerText(output, outputBytes), 'answer');
    await daemon.ask('mail-inbox', { action: 'ack', message_ids: [message_id] });
    await attendance.report({ doing: 'idle' }).catch(() => undefined);
    await record.clear();
    this.#say(message, 'done');
  }

  async #retryOrGiveUp(message: FullMessage, fault: string, attempt: number): Promise<MessageEnd> {
    const { options, signal } = this.#parts;
    const { triesMax, isOnce } = options;
    if (attempt >= triesMax) return this.#giveUpTried(message, fault, attempt);
    const pauseMs = Math.min(options.pauseMs * 2 ** (attempt - 1), PAUSE_MAX_MS);
    const next = isOnce ? 'the next run tries again' : `again in ${pauseMs / 1000} s`;
    this.#say(message, `the command ${fault} (try ${attempt} of ${triesMax}); ${next}`);
    if (!isOnce) await elapsed(pauseMs, undefined, { signal }).catch(() => undefined);
    return 'again';
  }

  #giveUpTried(message: FullMessage, fault: string, tries: number): Promise<MessageEnd> {
    const why = `the command ${fault}, after ${countText(tries, 'try', 'tries')}`;
    return this.#giveUp(message, why, `Its command ${fault}, after ${countText(tries, 'try', 'tries')}.`);
  }

  /** Nothing is tried again: the sender is told, and the message is read but not acked. */
  async #giveUp(message: FullMessage, why: string, told: string): Promise<MessageEnd> {
    const { daemon, record } = this.#parts;
    const { message_id } = message;
    await this.#answer(message, `Given up: poste run could not deal with this message. ${told}`, 'given-up');
    await daemon.ask('mail-inbox', { action: 'mark_read', message_ids: [message_id] });
    await record.clear();
    this.#say(message, `given up: ${why}; it is read, and not acked`);
    return 'given up';
  }

  /**
   * Answers once, however often it is asked for. A reply or a status that needs no answer gets none: two programs that
   * answer each other would never end.
   */
  async #answer(message: FullMessage, body: string, what: 'answer' | 'given-up'): Promise<void> {
    const { message_id, kind, needs_reply } = message;
    if (body === '' || ((kind === 'reply' || kind === 'status') && !needs_reply)) return;
    const idempotency_key = `poste-run-${what}-${sha256Hex(message_id)}`;
    try {
      await this.#parts.daemon.ask('mail-reply', { message_id, body, idempotency_key });
    } catch (error) {
      if (!(error instanceof CommandFailed) || error.exit === 'temporary') throw error;
      const isSent = error.code === 'IDEMPOTENCY_CONFLICT';
      this.#say(message, isSent ? 'answered in an earlier try' : `not answered: ${error.message}`);
    }
  }

  #say({ message_id, from }: FullMessage, what: string): void {
    this.#parts.context.stderr.write(`poste: ${message_id} of ${printable(from)}: ${printable(what)}.\n`);
  }
}

/** Returns what a command printed, as the body of an answer: empty when it printed nothing but space. */
export function answerText(output: Buffer, outputBytes: number): string {
  const text = output.toString('utf8').replaceAll('\0', '').trimEnd();
  if (outputBytes <= ANSWER_BYTES_MAX) return text;
  return `${text}\n[The answer has ${outputBytes} bytes; ${ANSWER_BYTES_MAX} of them are sent.]`;
}
