/** `poste run`: a command as an agent. It is run for each mail, and its exit code says what becomes of the mail. */
import type { Command } from 'commander';
import { Attendance } from '../lib/attendance.ts';
import { CommandDraft, type FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, requireAgent, startOption } from '../lib/daemon-call.ts';
import { EXIT, stopping, usageFailure } from '../lib/exit.ts';
import { PatientDaemon } from '../lib/patient-daemon.ts';
import { must, requireProgram, seconds, wholeNumber } from '../lib/values.ts';
import { COMMAND_END_MS } from './run-command.ts';
import { type RunEnd, runMail } from './run-mail.ts';
import { RunRecord } from './run-record.ts';

const NOTES = `
The command gets each mail in its standard input, or in place of {message} as one argument; never through a shell. The
oldest unread mail comes first, one at a time. Exit code 0: the mail is acked. Any other: it is tried again after a
pause, and after the last try it is marked as read, not as acked, and its sender is told. The environment of the command
has POSTE_AGENT, POSTE_MESSAGE_ID, POSTE_THREAD, POSTE_FROM, POSTE_SUBJECT, POSTE_KIND, POSTE_NEEDS_REPLY (1 or 0),
POSTE_ORIGIN and POSTE_TRY. A command that a crash cut off runs again with the same POSTE_MESSAGE_ID and a higher
POSTE_TRY. With --once it ends with 75 when a mail is to be tried again, and as with --max with 1 when one was given up.

With --acp the command is an agent that runs on: it speaks the Agent Client Protocol, gets the mail tools, and is told
of its mail by prompts. What it asks to be allowed is refused, but for the mail tools with --allow-tools. --timeout is
for one turn, and --tries for starts in a row without one.

Examples:
  $ poste run --as backend -- ./handle-mail.sh
  $ poste run --as writer --reply -- aider --yes-always --message {message}
  $ poste run --as nightly --once --timeout 600 -- ./handle-mail.sh
  $ poste run --as tester --acp --allow-tools -- gemini --acp`;

export function runCommand(context: CommandContext): Command {
  return draft(context)
    .notes(NOTES)
    .action((words, flags) => runForMail(context, words, flags));
}

function draft(context: CommandContext) {
  const acp = 'the command is an agent that speaks the Agent Client Protocol: wake it by prompts';
  const pause = 'before a message is tried again; twice as long each time';
  return new CommandDraft(context, 'run')
    .argument('<command...>', 'after --: the command, run without a shell')
    .agent('--as <name>', 'the agent that the command is')
    .takes<Pick<ActingFlags, 'start'>>(startOption(context))
    .option('--reply', 'send what the command prints as the answer')
    .option('--acp', acp, { conflicts: ['reply', 'once', 'max'] })
    .option('--allow-tools', 'with --acp: let the agent use the mail tools without asking')
    .option('--once', 'end when nothing is unread, and do not wait')
    .option('--max <n>', 'end after so many messages', wholeNumber(1))
    .option('--timeout <seconds>', 'end a command that takes longer', positiveSeconds)
    .option('--tries <n>', 'how often a message is tried', { parse: wholeNumber(1), byDefault: 3 })
    .option('--pause <seconds>', pause, { parse: seconds, byDefault: 10 });
}

type RunFlags = FlagsOf<typeof draft>;

function positiveSeconds(text: string): number {
  const value = seconds(text);
  must(value > 0, 'It must be more than 0 seconds.');
  return value;
}

async function runForMail(context: CommandContext, words: readonly string[], flags: RunFlags): Promise<void> {
  const { timeout, tries, pause, reply = false, once = false, max = Number.POSITIVE_INFINITY } = flags;
  const { acp = false, allowTools = false } = flags;
  if (allowTools && !acp) throw usageFailure('--allow-tools goes with --acp: other commands have no mail tools');
  const agent = requireAgent(flags.as, '--as');
  const stop = stopping(context);
  const lost = new AbortController();
  const signal = AbortSignal.any([stop, lost.signal]);
  const finishing = endingAfter(signal, 2 * COMMAND_END_MS);
  const daemon = new PatientDaemon(context, flags, finishing.signal);
  const limits = {
    agent,
    words: [requireProgram(words[0] ?? '', context.env['PATH']), ...words.slice(1)],
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
    triesMax: tries,
    pauseMs: pause * 1000,
  };
  const doorbells = acp ? new (await import('./run-acp.ts')).Doorbells() : undefined;
  try {
    const attendance = await Attendance.begin({
      daemon,
      name: 'run',
      isAlone: true,
      signal: finishing.signal,
      ...(doorbells && { onDoorbell: doorbells.ring }),
    });
    try {
      const record = new RunRecord(context, agent);
      const leftover = await record.endLeftover();
      if (leftover !== undefined)
        context.stderr.write(`poste: ended process ${leftover}, the command of a run that was killed.\n`);
      const parts = { context, waiting: daemon.endedBy(signal), attendance, record, signal };
      attendance.lost.catch(() => lost.abort());
      const work = async (): Promise<RunEnd | undefined> => {
        if (!doorbells) {
          const options = { ...limits, replies: reply, isOnce: once, messagesMax: max };
          return runMail({ ...parts, options, daemon });
        }
        const { runAcp } = await import('./run-acp.ts');
        await runAcp({ ...parts, options: { ...limits, allowsTools: allowTools }, doorbells });
        return undefined;
      };
      const end = await work().catch((error: unknown) => {
        if (!signal.aborted) throw error;
        return undefined;
      });
      // Throws why the session was lost.
      if (lost.signal.aborted) await attendance.lost;
      context.exitCode = exitCodeOf(end, stop, once || max !== Number.POSITIVE_INFINITY);
    } finally {
      await attendance.end();
    }
  } finally {
    finishing.cancel();
  }
}

/** A signal that is aborted so long after another one: what was done by then is still told. */
function endingAfter(signal: AbortSignal, ms: number): { signal: AbortSignal; cancel: () => void } {
  const ending = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    timer = setTimeout(() => ending.abort(), ms);
  };
  signal.addEventListener('abort', begin);
  return {
    signal: ending.signal,
    cancel() {
      clearTimeout(timer);
      signal.removeEventListener('abort', begin);
    },
  };
}

/** A run without an end is stopped by a signal; one that is to end was interrupted by it. */
function exitCodeOf(end: RunEnd | undefined, stop: AbortSignal, isToEnd: boolean): number {
  if (stop.aborted) return isToEnd ? EXIT.interrupted : EXIT.ok;
  if (end?.isLeft) return EXIT.temporary;
  return end?.hasGivenUp ? EXIT.failure : EXIT.ok;
}
