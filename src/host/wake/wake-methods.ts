/**
 * Wakes an agent by the methods of its live sessions, best first, until one is proven to have worked (rings.ts).
 *
 * A session whose program has ended is not tried: what wakes it would reach nobody, or another program.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { endSession, endWithProgram, isSameProcess, liveSessions } from '../agents/sessions.ts';
import type { HostContext } from '../base/context.ts';
import type { AttemptOutcome } from '../core/doorbell.ts';
import type { AgentId } from '../core/rows.ts';
import type { SessionRow, WakeMethod, WakeMethodName } from '../core/session-rows.ts';
import { type FactsOf, isRunning, runBounded } from './processes.ts';
import type { Rings } from './rings.ts';

/** Best first. */
const WAKE_METHOD_ORDER: readonly WakeMethodName[] = ['hook', 'claude-socket', 'codex-socket', 'command', 'tmux'];
/** One attempt tries at most this many methods that do not work. */
const METHODS_TRIED_MAX = 8;

/** A method's proof may take this long. The programs measured took 0.1 to 0.8 s, and 1.9 s on a busy machine. */
export const PROOF_MS = 5000;
/** `codex queue` is looked for by Codex only every 10 s when no app server runs. */
export const COMMAND_PROOF_MS = 12_000;
/**
 * An agent at work reads the line between two tools or after its turn, which no window can cover. This one covers a
 * turn that its user interrupted without a word of the program's hooks: then the line is read at once.
 */
const AT_WORK_PROOF_MS = 2000;

export interface WakeAttempt {
  outcome: AttemptOutcome;
  /** The session and the method that worked, and whether it did for some of the unread messages alone. */
  by: { session: SessionRow; method: WakeMethodName; isOfSome: boolean } | null;
  /** Says why a line is not read yet, as far as it is known. */
  isHeldBy: 'work' | 'approval' | 'terminal' | null;
}

interface WakeParts {
  context: HostContext;
  methods: WakeMethodTable;
  rings: Rings;
  factsOf: FactsOf;
}

interface WakeCall {
  agentId: AgentId;
  text: string;
  /** Says whether a program of the agent said already that it has the newest message. */
  isThere: () => boolean;
}

export async function tryWakeMethods(
  { context, methods, rings, factsOf }: WakeParts,
  { agentId, text, isThere }: WakeCall,
  signal: AbortSignal,
): Promise<WakeAttempt> {
  const sessions = await context.store.read((reader) => liveSessions(reader, context, agentId));
  const over = new Set<SessionRow>();
  const ring = rings.open(text, sessions);
  const failed: WakeAttempt = { outcome: 'nobody', by: null, isHeldBy: null };
  let tried = 0;
  try {
    for (const { session: registered, method } of methodsOf(sessions)) {
      if (signal.aborted || tried === METHODS_TRIED_MAX) break;
      if ([...over].some((other) => isSameSeat(other, registered))) continue;
      if (registered.process !== null && !(await isRunning(registered.process, factsOf, signal))) {
        if (!signal.aborted) await endWithProgram(context, [registered]);
        continue;
      }
      // The proofs of the methods before it took their time.
      const session = await asItIsNow(context, registered);
      if (!session) continue;
      const reports = ring.reporterOf(session);
      const reporter = reports && (await asItIsNow(context, reports));
      // A line that is queued now waits for the user's next prompt, and then comes as well.
      if (method.type === 'command' && reporter?.doing === 'interrupted') continue;
      // A line and Enter could answer a dialog of the turn. After it, the agent is idle and rung.
      if (method.type === 'tmux' && reporter?.doing === 'work') continue;
      ring.trying(session);
      const outcome = await tryMethod(methods, session, method, text, signal);
      if (outcome === 'unavailable') continue;
      if (outcome === 'gone') {
        over.add(session);
        await endSession(context, agentId, session.sessionId);
        continue;
      }
      tried++;
      if (failed.outcome !== 'given') failed.outcome = isTaken(outcome) ? 'given' : 'unheard';
      if (outcome === 'given' && isThere()) ring.hasTaken(session);
      const windowMs = windowOf(outcome, method, reporter);
      if (await ring.isProven(windowMs, signal)) {
        const by = { session, method: method.type, isOfSome: ring.isOfSome };
        return { outcome: 'heard', by, isHeldBy: null };
      }
      if (outcome === 'waits for approval') failed.isHeldBy = 'approval';
      if (outcome === 'occupied') failed.isHeldBy ??= 'terminal';
      if (isTaken(outcome) && isHeld(outcome, reporter)) {
        failed.isHeldBy ??= 'work';
        over.add(session);
      }
    }
  } finally {
    ring.close();
  }
  return failed;
}

/** `undefined` when it ended, or registered anew: then it has an attempt of its own. */
function asItIsNow(
  { store }: HostContext,
  { agentId, sessionId, registeredAtMs }: SessionRow,
): Promise<SessionRow | undefined> {
  return store.read((reader) => {
    const session = reader.get('session', agentId, sessionId);
    return session?.endedAtMs === null && session.registeredAtMs === registeredAtMs ? session : undefined;
  });
}

function windowOf(outcome: TryWakeOutcome, { type }: WakeMethod, reporter: SessionRow | undefined): number {
  if (outcome !== 'given') return 0;
  if (reporter?.doing === 'work') return AT_WORK_PROOF_MS;
  return type === 'command' ? COMMAND_PROOF_MS : PROOF_MS;
}

function isTaken(outcome: TryWakeOutcome): boolean {
  return outcome !== 'unheard' && outcome !== 'occupied';
}

/** Says whether the program keeps the line for its agent: then another method would only say it twice. */
function isHeld(outcome: TryWakeOutcome, reporter: SessionRow | undefined): boolean {
  return outcome === 'queued' || outcome === 'waits for approval' || reporter?.doing === 'work';
}

function isSameSeat(a: SessionRow, b: SessionRow): boolean {
  return a.sessionId === b.sessionId || isSameProcess(a.process, b.process);
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
  const tryWake = methods[method.type] as TryWake;
  return tryWake(session, method, text, signal);
}

/**
 * `given`: the program took the line. `queued`, `waits for approval`: it took it, and its agent reads it after the turn
 * under way, or after its user's answer. `unheard`: it was tried, and not taken. `occupied`: its user does something
 * else at its terminal, and nothing was submitted there. `unavailable`: there was nothing to try. `gone`: the program
 * says that the session is over.
 */
export type TryWakeOutcome =
  | 'given'
  | 'queued'
  | 'waits for approval'
  | 'unheard'
  | 'occupied'
  | 'unavailable'
  | 'gone';

export type TryWake<N extends WakeMethodName = WakeMethodName> = (
  session: SessionRow,
  method: Extract<WakeMethod, { type: N }>,
  text: string,
  signal: AbortSignal,
) => Promise<TryWakeOutcome>;

export type WakeMethodTable = { readonly [N in WakeMethodName]: TryWake<N> };

const COMMAND_MS = 10_000;
export const TMUX_MS = 1000;

/** Wakes a session by the program that it named, run without a shell, the text last. Exit code 0: it took it. */
export const tryCommand: TryWake<'command'> = async (_session, { argv }, text, signal) => {
  const [program, ...args] = argv;
  if (program === undefined) return 'unavailable';
  const { code } = await runBounded(program, [...args, text], { timeoutMs: COMMAND_MS, signal });
  return code === 0 ? 'given' : 'unheard';
};

/** The wake methods that cannot work now, as far as that can be seen without waking an agent: a clause for each. */
export async function wakeFaults(sessions: readonly SessionRow[], signal: AbortSignal): Promise<string[]> {
  const faults = sessions.flatMap(({ wake }) => wake).map((method) => faultOf(method, signal));
  return (await Promise.all(faults)).filter((fault) => fault !== undefined);
}

async function faultOf(method: WakeMethod, signal: AbortSignal): Promise<string | undefined> {
  switch (method.type) {
    case 'hook':
    case 'claude-socket':
    case 'codex-socket':
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
