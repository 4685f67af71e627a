/**
 * Runs a hook that an agent's program calls: reports the session's event to the daemon, and tells the agent how
 * many messages wait. A hook never blocks its agent: without a daemon, an agent or a session it prints nothing and
 * succeeds, and only the hook of an idle agent takes longer than a moment.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { SESSION_WAIT_MS_MAX, type SessionState } from '../api/schemas/agents.ts';
import { CallFailed, type CallOptions, type DaemonClient } from '../api/client.ts';
import type { HookMoment, HookProgram, HookSurroundings } from './programs.ts';

/** The time limit of all calls to the daemon except waits: Claude Code ends a SessionEnd hook after 1.5 s. */
export const HOOK_MS = 1000;
/** How long a waiting hook expects a lost daemon to come back. */
export const DAEMON_BACK_MS = 120_000;
const DAEMON_BACK_EVERY_MS = 2000;
/** The most by which a wait may exceed what was asked for. */
const WAIT_SLACK_MS = 15_000;

/** DO NOT CHANGE: the exit code with which Claude Code wakes the agent. */
const WAKE_EXIT = 2;

export interface HookOutcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

const QUIET: HookOutcome = { exitCode: 0, stdout: '', stderr: '' };

export interface HookCall {
  program: HookProgram;
  /** The text on stdin. */
  input: string;
  /** The acting agent; `undefined` when none was given. */
  agent: string | undefined;
  client: Pick<DaemonClient, 'call'>;
  /** The agent's program, which called the hook. */
  pid: number;
  surroundings: HookSurroundings;
  /** Aborted when that program has ended. */
  gone: AbortSignal;
}

/** Never rejects. */
export async function runHook(call: HookCall): Promise<HookOutcome> {
  const { program, agent, input } = call;
  const event = eventOf(input, program);
  if (!event || agent === undefined) return QUIET;
  try {
    return await handleEvent(call, event, agent);
  } catch {
    // No daemon, no such agent, too many sessions: that is for the user of `poste`, and not for an agent at work.
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
  // A subagent has no mailbox of its own, and its events are not the session's.
  if (!entry || subagent !== undefined || typeof sessionId !== 'string' || !SESSION_ID.test(sessionId))
    return undefined;
  return { name: entry.event, moment: entry.moment, sessionId };
}

async function handleEvent(call: HookCall, { name, moment, sessionId }: HookEvent, as: string): Promise<HookOutcome> {
  const { client, gone } = call;
  const options = { as, signal: AbortSignal.any([gone, AbortSignal.timeout(HOOK_MS)]) };
  switch (moment) {
    case 'start':
      return contextOutcome(name, await register(call, sessionId, { tell: true }, options));
    case 'prompt':
      return contextOutcome(name, await register(call, sessionId, { tell: true, at_work: true }, options));
    case 'idle':
      await register(call, sessionId, {}, options);
      return waitForDoorbell(call, sessionId, as);
    case 'end':
      await client.call('session-end', { session_id: sessionId }, options);
      return QUIET;
  }
}

/** Registers at every event: the daemon may not have run when the session began. */
function register(
  { client, program, pid, surroundings }: HookCall,
  sessionId: string,
  given: { tell?: boolean; at_work?: boolean },
  options: CallOptions,
): Promise<SessionState> {
  const wake = program.wake(sessionId, surroundings);
  return client.call('session-register', { session_id: sessionId, wake, pid, ...given }, options);
}

/** The output by which both programs add context for the agent at these events. */
function contextOutcome(event: string, { text }: SessionState): HookOutcome {
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
      // An unconfirmed doorbell is tried again.
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
    // It may have been confirmed, and then it is not tried again: one wake too many is better than none.
    if (error instanceof CallFailed && error.status === 0) return true;
    throw error;
  }
}
