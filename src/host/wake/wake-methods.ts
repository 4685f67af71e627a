/**
 * Wakes an agent by the methods of its live sessions, best first: the session's own hook, which gives the text to the
 * agent in the way its program wants; a command; keys typed into a terminal. The first method that is proven to have
 * worked is the last one tried.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { setTimeout as elapsed } from 'node:timers/promises';
import { liveSessions } from '../agents/sessions.ts';
import type { HostContext } from '../context.ts';
import type { AttemptOutcome } from '../core/doorbell.ts';
import type { AgentId, ProcessMark, SessionRow, WakeMethod, WakeMethodName } from '../core/rows.ts';
import { type FactsOf, runBounded } from './processes.ts';

/** Best first. */
export const WAKE_METHOD_ORDER: readonly WakeMethodName[] = ['hook', 'command', 'tmux'];
/** One attempt tries at most this many methods that do not work. */
export const METHODS_TRIED_MAX = 8;

export interface WakeAttempt {
  outcome: AttemptOutcome;
  /** The session and the method that worked. */
  by: { session: SessionRow; method: WakeMethodName } | null;
}

export async function tryWakeMethods(
  context: HostContext,
  methods: WakeMethodTable,
  agentId: AgentId,
  text: string,
  signal: AbortSignal,
): Promise<WakeAttempt> {
  const sessions = await context.store.read((reader) => liveSessions(reader, agentId, context.nowMs()));
  let tried = 0;
  for (const { session, method } of methodsOf(sessions)) {
    if (signal.aborted || tried === METHODS_TRIED_MAX) break;
    const outcome = await tryMethod(methods, session, method, text, signal);
    if (outcome === 'heard') return { outcome, by: { session, method: method.type } };
    if (outcome === 'unheard') tried++;
  }
  return { outcome: tried === 0 ? 'nobody' : 'unheard', by: null };
}

function methodsOf(sessions: readonly SessionRow[]): { session: SessionRow; method: WakeMethod }[] {
  return WAKE_METHOD_ORDER.flatMap((name) =>
    sessions.flatMap((session) =>
      session.wake.filter(({ type }) => type === name).map((method) => ({ session, method })),
    ),
  );
}

function tryMethod(
  methods: WakeMethodTable,
  session: SessionRow,
  method: WakeMethod,
  text: string,
  signal: AbortSignal,
): Promise<TryWakeOutcome> {
  switch (method.type) {
    case 'hook':
      return methods.hook(session, method, text, signal);
    case 'command':
      return methods.command(session, method, text, signal);
    case 'tmux':
      return methods.tmux(session, method, text, signal);
  }
}

/** `heard` only on proof; `unheard` when it was tried without; `unavailable` when there was nothing to try. */
export type TryWakeOutcome = 'heard' | 'unheard' | 'unavailable';

export type TryWake<N extends WakeMethodName = WakeMethodName> = (
  session: SessionRow,
  method: Extract<WakeMethod, { type: N }>,
  text: string,
  signal: AbortSignal,
) => Promise<TryWakeOutcome>;

export type WakeMethodTable = { readonly [N in WakeMethodName]: TryWake<N> };

const COMMAND_MS = 10_000;

/** Wakes a session by the program that it named, run without a shell; the text is its last argument. Exit code 0 is proof. */
export const tryCommand: TryWake<'command'> = async (_session, { argv }, text, signal) => {
  const [program, ...args] = argv;
  if (program === undefined) return 'unavailable';
  const { code } = await runBounded(program, [...args, text], { timeoutMs: COMMAND_MS, signal });
  return code === 0 ? 'heard' : 'unheard';
};

/** A program that reads pasted text as a whole takes an Enter that comes with it as part of the text. */
const ENTER_PAUSE_MS = 200;
const TMUX_MS = 1000;
/** How far above a program the pane's first process may be. */
const ANCESTORS_MAX = 32;

interface TmuxParts {
  factsOf: FactsOf;
  /** The name or path of tmux. */
  program?: string;
}

/**
 * Wakes a session by typing into its terminal: text, a pause, Enter, by `tmux send-keys`.
 *
 * It types only while the pane shows the session's own program, alive and in the foreground: a shell left behind in the
 * pane would run the text as a command. When it cannot be sure, it does not type.
 */
export function tmuxMethod({ factsOf, program = 'tmux' }: TmuxParts): TryWake<'tmux'> {
  return async (session, { socket, pane }, text, signal): Promise<TryWakeOutcome> => {
    const at = socket === null ? [] : ['-S', socket];
    const tmux = (...args: string[]): ReturnType<typeof runBounded> =>
      runBounded(program, [...at, ...args], { timeoutMs: TMUX_MS, signal });
    const isShown = async (): Promise<boolean> => {
      const format = '#{pane_dead} #{pane_in_mode} #{pane_pid}';
      const { code, stdout } = await tmux('display-message', '-p', '-t', pane, format);
      const [, panePid] = /^0 0 ([0-9]+)\s*$/.exec(stdout) ?? [];
      return code === 0 && panePid !== undefined && isInForeground(session, Number(panePid), factsOf, signal);
    };
    if (!(await isShown())) return 'unavailable';
    const typed = await tmux('send-keys', '-t', pane, '-l', '--', text);
    if (typed.code !== 0) return 'unheard';
    try {
      await elapsed(ENTER_PAUSE_MS, undefined, { signal });
    } catch {
      return 'unheard';
    }
    if (!(await isShown())) return 'unheard';
    const entered = await tmux('send-keys', '-t', pane, 'Enter');
    return entered.code === 0 ? 'heard' : 'unheard';
  };
}

async function isInForeground(
  { process }: SessionRow,
  panePid: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  if (process === null) return false;
  const facts = await factsOf(process.pid, signal);
  if (facts?.mark.startedAt !== process.startedAt || facts.group !== facts.foregroundGroup) return false;
  return descendsFrom(process, panePid, factsOf, signal);
}

async function descendsFrom(
  { pid }: ProcessMark,
  ancestor: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  let at = pid;
  for (let steps = 0; steps < ANCESTORS_MAX && at > 1; steps++) {
    if (at === ancestor) return true;
    at = (await factsOf(at, signal))?.parentPid ?? 0;
  }
  return false;
}

/** The wake methods that cannot work now, as far as that can be seen without waking an agent: a clause for each. */
export async function wakeFaults(sessions: readonly SessionRow[], signal: AbortSignal): Promise<string[]> {
  const faults = sessions.flatMap(({ wake }) => wake).map((method) => faultOf(method, signal));
  return (await Promise.all(faults)).filter((fault) => fault !== undefined);
}

async function faultOf(method: WakeMethod, signal: AbortSignal): Promise<string | undefined> {
  switch (method.type) {
    case 'hook':
      return undefined;
    case 'command': {
      const [program = ''] = method.argv;
      return (await canRun(program)) ? undefined : `its wake command ${program} cannot be run`;
    }
    case 'tmux': {
      const { socket, pane } = method;
      const at = socket === null ? [] : ['-S', socket];
      const asked = [...at, 'display-message', '-p', '-t', pane, '#{pane_dead}'];
      const { code, stdout } = await runBounded('tmux', asked, { timeoutMs: TMUX_MS, signal });
      return code === 0 && stdout.trim() === '0' ? undefined : `its tmux pane ${pane} is not there`;
    }
  }
}

async function canRun(program: string): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
