/**
 * A call of mail_inbox that waits: progress goes to a client that asked for it, and once the answer is written to the
 * client, the daemon hears that. By this a sender knows that its mail answered the call.
 */
import { randomBytes } from 'node:crypto';
import type { ProgressToken, RequestId, ServerContext } from '@modelcontextprotocol/server';
import { isObject } from '../../protocol/json.ts';
import type { Timers } from '../../lib/clock.ts';
import { LIST_WAIT_SECONDS_MAX } from '../contract/limits.ts';
import type { InputOf, OutputOf } from '../api/operations.ts';
import type { DaemonLink } from './daemon-link.ts';

/** Clients that give up a silent call give it more time than this. */
export const PROGRESS_MS = 5000;
/** The most by which an answer may exceed the wait that was asked for. */
const WAIT_SLACK_MS = 15_000;
const CALL_ID_BYTES = 8;

/** Says whether the input of a tool asks to wait; the daemon says what is wrong with it. */
export function asksToWait(given: unknown): boolean {
  return isObject(given) && Boolean(given['wait_seconds']);
}

/** The part of a request that a call which waits needs. */
export type ToolRequest = Pick<ServerContext['mcpReq'], 'id' | 'signal' | '_meta' | 'notify'>;

export interface WaitingCallParts {
  link: DaemonLink;
  timers: Timers;
  /** Resolves with whether the answer to the request was written to the client. */
  whenWritten: (id: RequestId) => Promise<boolean>;
}

/** Calls `mail-inbox`. What it resolves with is the answer to the request, and must be sent at once. */
export async function callWaiting(
  { link, timers, whenWritten }: WaitingCallParts,
  { id, signal, _meta, notify }: ToolRequest,
  input: InputOf<'mail-inbox'>,
): Promise<OutputOf<'mail-inbox'>> {
  const call = randomBytes(CALL_ID_BYTES).toString('hex');
  const endProgress = reportProgress(timers, notify, _meta?.progressToken, input.wait_seconds);
  try {
    const options = { signal, callId: call, silenceMs: LIST_WAIT_SECONDS_MAX * 1000 + WAIT_SLACK_MS };
    const answer = await link.call('mail-inbox', input, options);
    // When nothing came, nobody asks what became of the answer. One to a cancelled request is not sent.
    if (answer.wait === undefined) void tell(link, call, signal.aborted ? Promise.resolve(false) : whenWritten(id));
    return answer;
  } finally {
    endProgress();
  }
}

async function tell(link: DaemonLink, call: string, written: Promise<boolean>): Promise<void> {
  const isWritten = await written;
  // Without this word the daemon takes it for not passed on.
  await link.callRunning('wait-heard', { call, failed: !isWritten }).catch(() => undefined);
}

/** Returns how to end it. */
function reportProgress(
  timers: Timers,
  notify: ToolRequest['notify'],
  progressToken: ProgressToken | undefined,
  total: number | undefined,
): () => void {
  if (progressToken === undefined) return () => undefined;
  let progress = 0;
  return timers.every(PROGRESS_MS, () => {
    progress += PROGRESS_MS / 1000;
    const params = { progressToken, progress, ...(typeof total === 'number' && { total }), message: 'waits for mail' };
    // The client may have disconnected.
    void notify({ method: 'notifications/progress', params }).catch(() => undefined);
  });
}
