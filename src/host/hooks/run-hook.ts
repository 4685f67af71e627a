/**
 * Runs a hook that an agent's program calls: reports the session's event to the daemon, and tells the agent how
 * many messages wait. A hook never blocks its agent: without a daemon, an agent or a session it prints nothing and
 * succeeds, and only a hook in the background takes longer than a moment.
 */
import { assertNever } from '../../lib/assert-never.ts';
import { doorbellLines } from '../core/doorbell.ts';
import type { SessionRegisterInput, SessionState } from '../contract/agents.ts';
import { SESSION_WAIT_MS_MAX } from '../contract/socket-protocol.ts';
import { CallFailed, type CallOptions, type DaemonClient } from '../api/client.ts';
import type { HookMoment, HookProgram, HookSurroundings } from './programs.ts';

/** The time limit of all calls to the daemon except waits: Claude Code ends a SessionEnd hook after 1.5 s. */
const HOOK_MS = 1000;
/** A hook that waits begins a moment after the one at the same event, which tells the agent what is unread already. */
const ARM_MS = 500;
/** The time in which that hook registers the session. */
const REGISTERED_MS = 5000;
/** The time in which a waiting hook expects a lost daemon to come back. */
const DAEMON_BACK_MS = 120_000;
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

interface HookCall {
  program: HookProgram;
  /** The text on stdin. */
  input: string;
  /** The agent of a session in this folder; `undefined` when none was given. May throw. */
  agentIn: (folder: string | undefined) => string | undefined;
  client: Pick<DaemonClient, 'call'>;
  /** The agent's program, which called the hook. */
  pid: number;
  /** This is the hook that waits, at an event that has another one. */
  waits: boolean;
  surroundings: HookSurroundings;
  /** Resolves after this time, and rejects when the signal is aborted. */
  pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Aborts when that program has ended. */
  gone: AbortSignal;
}

/** Never rejects. */
export async function runHook(call: HookCall): Promise<HookOutcome> {
  const event = eventOf(call);
  if (!event) return QUIET;
  try {
    const agent = call.agentIn(event.folder);
    return agent === undefined ? QUIET : await handleEvent(call, event, agent);
  } catch {
    // No daemon, no such agent, too many sessions: that is for the user of `poste`, and not for an agent at work.
    return QUIET;
  }
}

interface HookEvent {
  name: string;
  moment: HookMoment;
  sessionId: string;
  folder: string | undefined;
  /** The lines of doorbells that stand in its prompt. */
  lines: string[];
}

type Json = Readonly<Record<string, unknown>>;

const SESSION_ID = /^[A-Za-z0-9._-]{1,128}$/;

function eventOf({ input, program, waits, surroundings }: HookCall): HookEvent | undefined {
  let document: unknown;
  try {
    document = JSON.parse(input);
  } catch {
    return undefined;
  }
  if (typeof document !== 'object' || document === null) return undefined;
  const { session_id: sessionId, hook_event_name: name, agent_id: subagent, prompt, cwd } = document as Json;
  const entry = program.entries.find(({ event, moment }) => event === name && (moment === 'wait') === waits);
  // A subagent has no mailbox of its own, and its events are not the session's.
  if (!entry || subagent !== undefined || typeof sessionId !== 'string' || !SESSION_ID.test(sessionId))
    return undefined;
  // Qwen Code reports each request to its model so, and one between two tools of a turn has no text.
  if (entry.moment === 'prompt' && prompt === '') return undefined;
  const lines = typeof prompt === 'string' ? doorbellLines(prompt) : [];
  const began = surroundings.environment[program.folderVariable ?? ''];
  const folder = began || (typeof cwd === 'string' ? cwd : undefined);
  return { name: entry.event, moment: entry.moment, sessionId, folder, lines };
}

async function handleEvent(call: HookCall, event: HookEvent, as: string): Promise<HookOutcome> {
  const { client, gone, program, surroundings } = call;
  const { moment, sessionId, lines } = event;
  const options = { as, signal: AbortSignal.any([gone, AbortSignal.timeout(HOOK_MS)]) };
  const canWait = program.isAttended(surroundings);
  switch (moment) {
    case 'start':
      return contextOutcome(event, await register(call, sessionId, { tell: true, begins: true }, options));
    case 'prompt':
      return contextOutcome(event, await register(call, sessionId, { tell: true, doing: 'work', lines }, options));
    case 'idle':
    case 'idle-wait':
      await register(call, sessionId, { doing: 'idle' }, options);
      return moment === 'idle-wait' && canWait ? waitForDoorbell(call, sessionId, as, true) : QUIET;
    case 'interrupted':
      await register(call, sessionId, { doing: moment }, options);
      return QUIET;
    case 'failed':
      // Qwen Code calls this hook from a process of its own, which ends with it: it is not the session's program.
      await client.call('session-heartbeat', { session_id: sessionId, doing: moment }, options);
      return QUIET;
    case 'wait':
      if (!canWait) return QUIET;
      await call.pause(ARM_MS, gone);
      return waitForDoorbell(call, sessionId, as, false);
    case 'end':
      await client.call('session-end', { session_id: sessionId }, options);
      return QUIET;
    default:
      return assertNever(moment);
  }
}

type Report = Pick<SessionRegisterInput, 'tell' | 'doing' | 'lines' | 'begins'>;

/** Registers at every event: the daemon may not have run when the session began. */
function register(
  { client, program, pid, surroundings }: HookCall,
  sessionId: string,
  given: Report,
  options: CallOptions,
): Promise<SessionState> {
  // One that nobody attends may never get another prompt.
  const isAttended = program.isAttended(surroundings);
  const wake = isAttended ? program.wake(sessionId, surroundings) : [];
  const reports_prompts = isAttended && program.entries.some(({ moment }) => moment === 'prompt');
  const registered = { session_id: sessionId, wake, reports_prompts, ...given };
  // Process 1 takes over what another one left behind, and is the program itself in a container.
  return client.call('session-register', { ...registered, ...(pid > 1 && { pid }) }, options);
}

/** The output by which programs add context at these events, without what the prompt says already. */
function contextOutcome({ name, lines }: HookEvent, { text }: SessionState): HookOutcome {
  if (text === null || lines.includes(text)) return QUIET;
  const document = { hookSpecificOutput: { hookEventName: name, additionalContext: text } };
  return { ...QUIET, stdout: `${JSON.stringify(document)}\n` };
}

async function waitForDoorbell(
  call: HookCall,
  sessionId: string,
  as: string,
  isRegistered: boolean,
): Promise<HookOutcome> {
  const { client, gone, pause } = call;
  const waiting = { as, signal: gone, silenceMs: SESSION_WAIT_MS_MAX + WAIT_SLACK_MS };
  const startedMs = performance.now();
  let wasAnswered = isRegistered;
  let lostSinceMs: number | undefined;
  while (!gone.aborted) {
    try {
      const asked = { session_id: sessionId, wait_ms: SESSION_WAIT_MS_MAX };
      const { event, ring, text } = await client.call('session-wait', asked, waiting);
      wasAnswered = true;
      lostSinceMs = undefined;
      if (event === 'released') return QUIET;
      if (event === 'nothing' || ring === null || text === null || gone.aborted) continue;
      // An unconfirmed doorbell is tried again.
      if (await isCounted(client, sessionId, ring, { as, signal: gone })) {
        return { exitCode: WAKE_EXIT, stdout: '', stderr: `${text}\n` };
      }
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      const isEarly = !wasAnswered && performance.now() - startedMs < REGISTERED_MS;
      if (error.code === 'NO_SUCH_SESSION' && isEarly) {
        await pause(ARM_MS, gone);
        continue;
      }
      // A daemon that was never there is not waited for.
      if (!wasAnswered || (error.status >= 400 && error.status < 500)) throw error;
      lostSinceMs ??= performance.now();
      if (performance.now() - lostSinceMs > DAEMON_BACK_MS) return QUIET;
      await pause(DAEMON_BACK_EVERY_MS, gone);
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
