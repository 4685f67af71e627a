/** A context with its doorbells: the test moves the time, and says what each wake method does. */
import { onTestFinished } from 'vitest';
import type { SessionRegisterInput, SessionState, SessionWaitResult } from '../../src/host/contract/agents.ts';
import type { WakeMethodName } from '../../src/host/core/session-rows.ts';
import type { WakeAgent } from '../../src/host/agents/sessions.ts';
import type { SessionService } from '../../src/host/api/handlers.ts';
import { Doorbells } from '../../src/host/wake/doorbells.ts';
import type { TurnOf } from '../../src/host/wake/codex-socket.ts';
import { ClaudeSockets, Waiters } from '../../src/host/wake/waiters.ts';
import { Rings } from '../../src/host/wake/rings.ts';
import type { ProcessFacts } from '../../src/host/wake/processes.ts';
import type { TryWake, TryWakeOutcome, WakeMethodTable } from '../../src/host/wake/wake-methods.ts';
import { createSessionService } from '../../src/host/wake/session-service.ts';
import { deferred } from './deferred.ts';
import { ManualTimers } from './manual-time.ts';
import { accepted, idOf, contextOf } from './mail-context.ts';
import { posixUtility } from './programs.ts';
import type { TestContext } from './test-context.ts';
import { onEvent } from './on-event.ts';

export interface WakeContext {
  context: TestContext;
  timers: ManualTimers;
  doorbells: Doorbells;
  sessions: SessionService;
  wakeAgent: WakeAgent;
  /** Every command, terminal and socket that was tried, in order: `command build`. */
  tried: string[];
  /**
   * The answers of the next commands, terminals and sockets; `heard`, when nothing is answering: given, and proven at
   * once.
   */
  answers: (TryWakeOutcome | 'heard')[];
  /** The processes that run, by number. */
  processes: Map<number, ProcessFacts>;
  /** The state of the turns that are looked at next. */
  turns: Awaited<ReturnType<TurnOf>>[];
  rings: Rings;
  methods: WakeMethodTable;
  /** The clock and what falls due. */
  pass(ms: number): void;
  register(agent: string, sessionId: string, given?: Partial<SessionRegisterInput>): Promise<SessionState>;
  /** Resolves when the session's hook waits, with what will be the answer. */
  wait(agent: string, sessionId: string, waitMs?: number): Promise<{ answer: Promise<SessionWaitResult> }>;
  /** Resolves when no doorbell is under way; one that is due later is not waited for. */
  quiet(agent: string): Promise<void>;
}

export const COMMAND: NonNullable<SessionRegisterInput['wake']>[number] = {
  type: 'command',
  program: posixUtility('true'),
  arguments: [],
};

/** `real`: methods that really run, and do not do what the test says. */
export async function wakeContext(names: readonly string[], real: Partial<WakeMethodTable> = {}): Promise<WakeContext> {
  const context = await contextOf(names);
  const timers = new ManualTimers();
  const waiters = new Waiters({ timers, randomBytes: (count) => context.randomBytes(count) });
  const tried: string[] = [];
  const answers: WakeContext['answers'] = [];
  const rings = new Rings(timers);
  const claudeSockets = new ClaudeSockets(waiters);
  const answering =
    (method: WakeMethodName): TryWake =>
    (session, _method, text) => {
      tried.push(`${method} ${session.sessionId}`);
      const answer = answers.shift() ?? 'heard';
      if (answer !== 'heard') return Promise.resolve(answer);
      rings.reported(session, [text]);
      return Promise.resolve('given');
    };
  const methods: WakeMethodTable = {
    hook: (session, _method, text, signal) => waiters.ring(session, text, signal),
    'claude-socket': claudeSockets.tryWake,
    'codex-socket': answering('codex-socket'),
    command: answering('command'),
    tmux: answering('tmux'),
    ...real,
  };
  const processes = new Map<number, ProcessFacts>();
  const factsOf = (pid: number): Promise<ProcessFacts | undefined> => Promise.resolve(processes.get(pid));
  const turns: WakeContext['turns'] = [];
  const turnOf: TurnOf = () => Promise.resolve(turns.shift() ?? 'unknown');
  const doorbells = new Doorbells({ context, timers, methods, rings, factsOf, turnOf });
  const { signal } = new AbortController();
  const sessions = createSessionService({ context, waiters, rings, claudeSockets, factsOf, signal });
  // Before the store is closed.
  onTestFinished(() => doorbells.close());
  return {
    context,
    timers,
    doorbells,
    sessions,
    wakeAgent: doorbells.wakeAgent,
    tried,
    answers,
    processes,
    turns,
    rings,
    methods,
    pass(ms) {
      context.clock.nowMs += ms;
      timers.pass(ms);
    },
    async register(agent, sessionId, given = {}) {
      return accepted(await sessions.register(await idOf(context, agent), { session_id: sessionId, ...given }));
    },
    async wait(agent, sessionId, waitMs = 50_000) {
      const agentId = await idOf(context, agent);
      const waits = deferred();
      const endListening = onEvent(context, ({ type }) => {
        if (type === 'session-waits') waits.resolve();
      });
      const input = { session_id: sessionId, wait_ms: waitMs };
      const answer = sessions.wait(agentId, input, new AbortController().signal).then(accepted);
      await Promise.race([waits.promise, answer]);
      endListening();
      return { answer };
    },
    async quiet(agent) {
      await doorbells.wakeAgent(await idOf(context, agent));
    },
  };
}
