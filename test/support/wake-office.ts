/** An office with its doorbells: time is moved by the test, and each rung does what the test says. */
import { onTestFinished } from 'vitest';
import type { SessionRegisterInput, SessionState, SessionWaitResult } from '../../src/host/documents/sessions.ts';
import type { WakeMethodName } from '../../src/host/core/rows.ts';
import type { Ring } from '../../src/host/office/ring.ts';
import type { SessionDesk } from '../../src/host/office/session-desk.ts';
import { Doorbells } from '../../src/host/wake/doorbells.ts';
import { HookWaiters } from '../../src/host/wake/hook-waiters.ts';
import type { ProcessFacts } from '../../src/host/wake/processes.ts';
import type { Rung, RungOutcome, Rungs } from '../../src/host/wake/rung.ts';
import { sessionDesk } from '../../src/host/wake/session-desk.ts';
import { deferred } from './deferred.ts';
import { ManualTimers } from './manual-time.ts';
import { accepted, idOf, officeOf } from './mail-office.ts';
import type { TestOffice } from './test-office.ts';

export interface WakeOffice {
  office: TestOffice;
  timers: ManualTimers;
  doorbells: Doorbells;
  desk: SessionDesk;
  ring: Ring;
  /** Every command and terminal that was tried, in order: `command build`. */
  rung: string[];
  /** What the next commands and terminals answer; `heard` when nothing is said. */
  answers: RungOutcome[];
  /** The processes that run, by number. */
  processes: Map<number, ProcessFacts>;
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
  program: '/bin/true',
  arguments: [],
};

/** `real` are rungs that do what they do, and not what the test says. */
export async function wakeOffice(names: readonly string[], real: Partial<Rungs> = {}): Promise<WakeOffice> {
  const office = await officeOf(names);
  const timers = new ManualTimers();
  const waiters = new HookWaiters({ timers, randomBytes: (count) => office.randomBytes(count) });
  const rung: string[] = [];
  const answers: RungOutcome[] = [];
  const said =
    (method: WakeMethodName): Rung =>
    ({ sessionId }) => {
      rung.push(`${method} ${sessionId}`);
      return Promise.resolve(answers.shift() ?? 'heard');
    };
  const rungs = { hook: waiters.rung, command: said('command'), tmux: said('tmux'), ...real };
  const doorbells = new Doorbells({ office, timers, rungs });
  const processes = new Map<number, ProcessFacts>();
  const factsOf = (pid: number): Promise<ProcessFacts | undefined> => Promise.resolve(processes.get(pid));
  const desk = sessionDesk({ office, waiters, factsOf, signal: new AbortController().signal });
  // Before the store is closed.
  onTestFinished(() => doorbells.close());
  return {
    office,
    timers,
    doorbells,
    desk,
    ring: doorbells.ring,
    rung,
    answers,
    processes,
    pass(ms) {
      office.clock.nowMs += ms;
      timers.pass(ms);
    },
    async register(agent, sessionId, given = {}) {
      return accepted(await desk.register(await idOf(office, agent), { session_id: sessionId, ...given }));
    },
    async wait(agent, sessionId, waitMs = 50_000) {
      const agentId = await idOf(office, agent);
      const waits = deferred();
      const endListening = office.listen(({ type }) => {
        if (type === 'session-waits') waits.resolve();
      });
      const input = { session_id: sessionId, wait_ms: waitMs };
      const answer = desk.wait(agentId, input, new AbortController().signal).then(accepted);
      await Promise.race([waits.promise, answer]);
      endListening();
      return { answer };
    },
    async quiet(agent) {
      await doorbells.ring(await idOf(office, agent));
    },
  };
}
