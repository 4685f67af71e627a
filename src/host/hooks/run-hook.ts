/**
 * What a hook does when an agent's program calls it: tells the daemon what happens in the session, and the agent how
 * many messages wait. A hook never hinders its agent: without a daemon, an agent or a session it says nothing and
 * succeeds, and but for the one that waits while the agent is idle it takes a moment at most.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { SESSION_WAIT_MS_MAX, type SessionState } from '../documents/sessions.ts';
import { CallFailed, type CallOptions, type DaemonClient } from '../local/client.ts';
import type { HookMoment, HookProgram, HookSurroundings } from './hook-program.ts';

/** For all that a hook asks of the daemon, but for waiting: Claude Code ends a SessionEnd hook after 1.5 s. */
export const HOOK_MS = 1000;
/** A daemon that was there and is gone may come back for so long. */
export const DAEMON_BACK_MS = 120_000;
const DAEMON_BACK_EVERY_MS = 2000;
/** How much longer than asked a wait may take. */
const WAIT_SLACK_MS = 15_000;

/** DO NOT CHANGE: what wakes an agent of Claude Code. */
const WAKE_EXIT = 2;

export interface HookOutcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

const QUIET: HookOutcome = { exitCode: 0, stdout: '', stderr: '' };

export interface HookCall {
  program: HookProgram;
  /** What came on stdin. */
  input: string;
  /** The agent in whose name; `undefined` when nobody said. */
  agent: string | undefined;
  client: Pick<DaemonClient, 'call'>;
  /** The agent's program, which called the hook. */
  pid: number;
  surroundings: HookSurroundings;
  /** Aborted when that program has gone. */
  gone: AbortSignal;
}

/** Never rejects. */
export async function runHook(call: HookCall): Promise<HookOutcome> {
  const { program, agent, input } = call;
  const event = eventOf(input, program);
  if (!event || agent === undefined) return QUIET;
  try {
    return await happen(call, event, agent);
  } catch {
    // No daemon, no such agent, too many sessions: for whoever looks at poste, not for an agent at work.
    return QUIET;
  }
}

interface HookEvent {
  name: string;
  moment: HookMoment;
  sessionId: string;
}

const SESSION_ID = /^[A-Za-z0-9._-]{1,128}$/;

function eventOf(input: string, { entries }: HookProgram): HookEvent | undefined {
  let document: unknown;
  try {
    document = JSON.parse(input);
  } catch {
    return undefined;
  }
  if (typeof document !== 'object' || document === null) return undefined;
  const { session_id: sessionId, hook_event_name: name, agent_id: subagent } = document as Record<string, unknown>;
  const entry = entries.find(({ event }) => event === name);
  // A subagent has no mailbox of its own, and its events are none of the session's.
  if (!entry || subagent !== undefined || typeof sessionId !== 'string' || !SESSION_ID.test(sessionId))
    return undefined;
  return { name: entry.event, moment: entry.moment, sessionId };
}

async function happen(call: HookCall, { name, moment, sessionId }: HookEvent, as: string): Promise<HookOutcome> {
  const { client, gone } = call;
  const options = { as, signal: AbortSignal.any([gone, AbortSignal.timeout(HOOK_MS)]) };
  switch (moment) {
    case 'start':
      return told(name, await register(call, sessionId, { tell: true }, options));
    case 'prompt':
      return told(name, await register(call, sessionId, { tell: true, at_work: true }, options));
    case 'idle':
      await register(call, sessionId, {}, options);
      return waitForDoorbell(call, sessionId, as);
    case 'end':
      await client.call('session-end', { session_id: sessionId }, options);
      return QUIET;
  }
}

/** Always whole: the daemon may not have been there when the session began. */
function register(
  { client, program, pid, surroundings }: HookCall,
  sessionId: string,
  given: { tell?: boolean; at_work?: boolean },
  options: CallOptions,
): Promise<SessionState> {
  const wake = program.wake(sessionId, surroundings);
  return client.call('session-register', { session_id: sessionId, wake, pid, ...given }, options);
}

/** Both programs take context for the agent in this form, at these events. */
function told(event: string, { text }: SessionState): HookOutcome {
  if (text === null) return QUIET;
  const document = { hookSpecificOutput: { hookEventName: event, additionalContext: text } };
  return { ...QUIET, stdout: `${JSON.stringify(document)}\n` };
}

async function waitForDoorbell({ client, gone }: HookCall, sessionId: string, as: string): Promise<HookOutcome> {
  const waiting = { as, signal: gone, silenceMs: SESSION_WAIT_MS_MAX + WAIT_SLACK_MS };
  let lostSinceMs: number | undefined;
  while (!gone.aborted) {
    try {
      const asked = { session_id: sessionId, wait_ms: SESSION_WAIT_MS_MAX };
      const { event, ring, text } = await client.call('session-wait', asked, waiting);
      lostSinceMs = undefined;
      if (event === 'released') return QUIET;
      if (event === 'nothing' || ring === null || text === null || gone.aborted) continue;
      // What was not counted rings again.
      if (await isCounted(client, sessionId, ring, { as, signal: gone })) {
        return { exitCode: WAKE_EXIT, stdout: '', stderr: `${text}\n` };
      }
    } catch (error) {
      if (!(error instanceof CallFailed) || (error.status >= 400 && error.status < 500)) throw error;
      lostSinceMs ??= performance.now();
      if (performance.now() - lostSinceMs > DAEMON_BACK_MS) return QUIET;
      await elapsed(DAEMON_BACK_EVERY_MS, undefined, { signal: gone });
    }
  }
  return QUIET;
}

async function isCounted(
  client: HookCall['client'],
  sessionId: string,
  ring: string,
  options: CallOptions,
): Promise<boolean> {
  try {
    return (await client.call('session-heard', { session_id: sessionId, ring }, options)).counted;
  } catch (error) {
    // It may have counted, and then nothing rings again: a wake too many is better than none.
    if (error instanceof CallFailed && error.status === 0) return true;
    throw error;
  }
}
