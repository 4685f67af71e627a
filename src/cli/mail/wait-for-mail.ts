/**
 * `poste inbox --wait`: waits for mail, also while the daemon restarts. What is printed counts as notified, and proves
 * to its senders that it came.
 */
import { randomBytes } from 'node:crypto';
import type { InboxInput, InboxResult } from '../../host/contract/mail.ts';
import { LIST_WAIT_SECONDS_MAX } from '../../host/contract/limits.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, silenceOf } from '../lib/daemon-call.ts';
import { CommandFailed, EXIT, stopping } from '../lib/exit.ts';
import { writeAll } from '../lib/output.ts';
import { PatientDaemon } from '../lib/patient-daemon.ts';

/** The time that the daemon has for its answer when a wait is over. */
const ANSWER_MS = 2000;
const CALL_ID_BYTES = 8;

interface WaitResult {
  result: InboxResult;
  /** The name of the call that brought it; absent when the mail was there. */
  callId?: string;
}

/** Prints what is listed, at once or when it comes. Ends with 75 when nothing came, and with 130 at ctrl-c. */
export async function printWhenListed(
  context: CommandContext,
  flags: ActingFlags & { wait: number },
  input: InboxInput,
  textOf: (result: InboxResult) => Promise<string>,
): Promise<void> {
  const signal = stopping(context);
  const daemon = new PatientDaemon(context, flags, signal);
  try {
    const { result, callId } = await listMail(daemon, input, flags.wait * 1000, signal);
    const isPrinted = await writeAll(context.stdout, await textOf(result)).then(
      () => true,
      () => false,
    );
    if (callId === undefined) return;
    // Without this word the daemon takes it for not printed; the mail is here all the same.
    await daemon.askNow('wait-heard', { call: callId, failed: !isPrinted }).catch(() => undefined);
  } catch (error) {
    if (!signal.aborted) throw error;
    context.exitCode = EXIT.interrupted;
  }
}

async function listMail(
  daemon: PatientDaemon,
  input: InboxInput,
  waitMs: number,
  signal: AbortSignal,
): Promise<WaitResult> {
  const untilMs = performance.now() + waitMs;
  // Fails when no daemon runs.
  const there = await daemon.askNow('mail-inbox', input);
  if (isListed(there)) return { result: there };
  for (;;) {
    const wait_seconds = Math.min(Math.ceil((untilMs - performance.now()) / 1000), LIST_WAIT_SECONDS_MAX);
    if (wait_seconds <= 0) throw new CommandFailed('temporary', 'NOTHING_CAME', 'no mail in that time: wait again');
    const callId = randomBytes(CALL_ID_BYTES).toString('hex');
    const over = AbortSignal.timeout(wait_seconds * 1000 + ANSWER_MS);
    const patient = daemon.endedBy(AbortSignal.any([signal, over]));
    const result = await patient
      .ask('mail-inbox', { ...input, wait_seconds }, { callId, ...silenceOf(LIST_WAIT_SECONDS_MAX * 1000) })
      .catch((error: unknown) => {
        if (signal.aborted || !over.aborted) throw error;
      });
    if (result && isListed(result)) return { result, callId };
  }
}

function isListed({ summaries = [] }: InboxResult): boolean {
  return summaries.length > 0;
}
