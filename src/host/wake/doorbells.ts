/**
 * Runs the doorbells of this host's agents: takes events, reads the mailbox, lets the core decide, tries the wake
 * methods, and records what was proven.
 *
 *     event ─▶ mailbox ─▶ stepDoorbell ─▶ wake methods ─▶ heard: entries notified, session recorded
 *                          ▲  └─▶ timer        │
 *                          └──── `attempted` ◀─┘
 *
 * After a ring of Codex its thread is looked at until the turn is over, since no hook tells of a turn that failed.
 *
 * The mailbox keeps what an agent was notified of (`notifiedAtMs`), so a daemon that starts again knows it; the
 * cooldown is lost. The events of one agent are handled one after another.
 */
import { type Doorbell, type DoorbellEvent, QUIET_DOORBELL, stepDoorbell } from '../core/doorbell.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import type { SessionRow, WakeMethodName } from '../core/session-rows.ts';
import type { HostContext } from '../base/context.ts';
import { agentsPresent, recordWoken, type WakeResult } from '../agents/sessions.ts';
import type { Cancel, Timers } from '../../lib/clock.ts';
import { type Unread, markUnreadNotified, unreadOf } from '../agents/waking-mail.ts';
import type { TurnOf } from './codex-socket.ts';
import type { FactsOf } from './processes.ts';
import type { Rings } from './rings.ts';
import { PROOF_MS, type WakeAttempt, tryWakeMethods, type WakeMethodTable } from './wake-methods.ts';

/**
 * A send waits this long for proof that the recipient was woken: as long as the first method's proof may take. A proof
 * by a later method comes too late for the answer, and the sender sees it in the state of its message.
 */
export const WAKE_WAIT_MS = PROOF_MS + 500;
/** The pause between a ring and the first look at its turn, and the longest one between two looks. */
export const TURN_LOOK_MS = 5000;
const TURN_LOOK_MAX_MS = 60_000;

/** The sentence in the answer to the sender. */
const WOKEN_BY: Readonly<Record<WakeMethodName, string>> = {
  hook: 'Woken now, by the hook of its session.',
  'claude-socket': "Woken now, by its program's inbox.",
  'codex-socket': "Woken now, by its program's app server.",
  command: 'Woken now, by the wake command of its session.',
  tmux: 'Woken now, by what was typed into its terminal.',
};
const TAKEN = 'Woken now: its session says that its program has this message.';
const NOT_WOKEN = {
  notified: 'It was told of its unread mail.',
  later: 'A doorbell rang a moment ago; it rings again if this stays unread.',
  given: 'Its program took the doorbell, and nothing proves yet that it read it.',
  work: 'It is at work: its program took the doorbell, and shows it between two steps or after this turn.',
  inTurn: 'Its program takes one message after the other, and this one in its turn.',
  approval: 'Its program took the doorbell, but waits for its user, who has to approve something first.',
  terminal: 'Its terminal shows something else than an empty input line, so nothing was submitted there.',
  unheard: 'A doorbell was tried, and no program took it.',
  nobody: 'None of its sessions can be woken now.',
  underWay: 'Its doorbell is still being rung.',
} as const;

/** The number of messages that are remembered because programs of an agent said to have them. */
const TAKEN_MAX = 200;

interface DoorbellState {
  doorbell: Doorbell;
  queue: DoorbellEvent[];
  /** Handles the queue; absent when the queue is empty. */
  running: Promise<void> | undefined;
  /** The attempt under way; absent once `attempted` is in the queue. */
  attempt: Promise<void> | undefined;
  cancelTimer: Cancel;
  /** The next look at the turn that a ring began. */
  cancelLook: Cancel;
  /** The last attempt that ended. */
  last: WakeAttempt | undefined;
  /** The number of attempts that were heard. */
  heard: number;
  /** The messages that programs of it said to have, the newest last. */
  taken: Set<MessageRef>;
  /** Says whether an attempt is due after a pause. */
  isDueLater: boolean;
}

interface DoorbellParts {
  context: HostContext;
  timers: Timers;
  methods: WakeMethodTable;
  rings: Rings;
  factsOf: FactsOf;
  turnOf: TurnOf;
}

export class Doorbells {
  readonly #parts: DoorbellParts;
  readonly #states = new Map<AgentId, DoorbellState>();
  readonly #closing = new AbortController();
  readonly #unsubscribe: () => void;

  constructor(parts: DoorbellParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.context.subscribe('doorbells', {
      'mail-stored': ({ agentId, wakes }) => {
        if (wakes) this.#enqueue(agentId, { type: 'check' });
      },
      'mail-handled': ({ agentId }) => this.#enqueueKnown(agentId, { type: 'used-tool' }),
      'mail-tool-used': ({ agentId }) => this.#enqueueKnown(agentId, { type: 'used-tool' }),
      'session-turn-ended': (turn) => this.#enqueueKnown(turn.agentId, { ...turn, type: 'turn-ended' }),
      'session-registered': ({ agentId }) => this.#enqueue(agentId, { type: 'session-registered' }),
      'session-notified': ({ agentId, sessionId }) => {
        this.#enqueue(agentId, { type: 'notified', sessionId });
        this.#enqueue(agentId, { type: 'session-wakeable' });
      },
      'mail-taken': ({ agentId, refs }) => this.#keepTaken(agentId, refs),
      'session-waits': ({ agentId }) => this.#enqueue(agentId, { type: 'session-wakeable' }),
    });
  }

  /** Checks every agent with a live session: while no daemon ran, mail may have come or an attempt been lost. */
  async start(): Promise<void> {
    for (const agentId of await agentsPresent(this.#parts.context)) this.#enqueue(agentId, { type: 'check' });
  }

  /** Wakes the recipient of a send. It runs after the commit and is bounded in time. Never rejects. */
  readonly wakeAgent = async (agentId: AgentId, ref?: MessageRef): Promise<WakeResult> => {
    const state = this.#stateOf(agentId);
    const heardBefore = state.heard;
    this.#enqueue(agentId, { type: 'check' });
    const isSettled = await this.#isSettledInTime(state);
    if (ref !== undefined && state.taken.has(ref)) return { isWoken: true, detail: TAKEN };
    const by = state.heard > heardBefore ? state.last?.by : undefined;
    if (by && !by.isOfSome) return { isWoken: true, detail: WOKEN_BY[by.method] };
    if (!isSettled) return { isWoken: false, detail: NOT_WOKEN.underWay };
    return { isWoken: false, detail: whyNot(state) };
  };

  #keepTaken(agentId: AgentId, refs: readonly MessageRef[]): void {
    const { taken } = this.#stateOf(agentId);
    for (const ref of refs) taken.add(ref);
    for (const oldest of [...taken].slice(0, -TAKEN_MAX)) taken.delete(oldest);
  }

  /** Ends all attempts. Resolves when none is under way. */
  async close(): Promise<void> {
    this.#unsubscribe();
    this.#closing.abort();
    await Promise.all([...this.#states.values()].map((state) => this.#untilSettled(state)));
    for (const { cancelTimer, cancelLook } of this.#states.values()) {
      cancelTimer();
      cancelLook();
    }
  }

  /** An agent without a doorbell has no attempt to outdate, and was told nothing. */
  #enqueueKnown(agentId: AgentId, event: DoorbellEvent): void {
    if (this.#states.has(agentId)) this.#enqueue(agentId, event);
  }

  #enqueue(agentId: AgentId, event: DoorbellEvent): void {
    const state = this.#stateOf(agentId);
    // The end of an attempt is handled also while this closes: callers wait for it.
    if (this.#closing.signal.aborted && event.type !== 'attempted') return;
    state.queue.push(event);
    state.running ??= this.#run(agentId, state);
  }

  async #run(agentId: AgentId, state: DoorbellState): Promise<void> {
    try {
      while (state.queue.length > 0) {
        const mail = await this.#mailOf(agentId);
        for (const event of state.queue.splice(0)) this.#step(agentId, state, mail, event);
      }
    } catch (error) {
      // A store that failed ends the daemon.
      state.queue = [];
      this.#parts.context.log('warn', 'a doorbell could not be decided', { err: error });
    }
    // In the same turn as the last check of the queue: the next event starts the next run.
    state.running = undefined;
  }

  /** Reads when no call of the agent is being answered: what a call brings is told by that, and by nothing else. */
  async #mailOf(agentId: AgentId): Promise<Unread> {
    const { store, waits } = this.#parts.context;
    for (;;) {
      await waits.untilSettled(agentId);
      const mail = await store.read((reader) => unreadOf(reader, agentId));
      if (waits.isSettled(agentId)) return mail;
    }
  }

  #step(agentId: AgentId, state: DoorbellState, mail: Unread, event: DoorbellEvent): void {
    const nowMs = this.#parts.context.monotonicMs();
    const { doorbell, startsAttempt, nextAtMs } = stepDoorbell(state.doorbell, mail.waking, event, nowMs);
    state.doorbell = doorbell;
    state.cancelTimer();
    state.isDueLater = nextAtMs !== null;
    if (nextAtMs !== null && !this.#closing.signal.aborted) {
      const check = (): void => this.#enqueue(agentId, { type: 'check' });
      state.cancelTimer = this.#parts.timers.after(Math.max(0, nextAtMs - nowMs), check);
    }
    if (!startsAttempt) return;
    state.attempt = this.#attempt(agentId, state, mail);
  }

  async #attempt(agentId: AgentId, state: DoorbellState, { text, until, newest }: Unread): Promise<void> {
    const { context } = this.#parts;
    let result: WakeAttempt = { outcome: 'nobody', by: null, isHeldBy: null };
    try {
      if (text === null) throw new Error('invariant: an attempt is made only for unread mail');
      const isThere = (): boolean => newest !== null && state.taken.has(newest);
      result = await tryWakeMethods(this.#parts, { agentId, text, isThere }, this.#closing.signal);
      const { by } = result;
      if (by) {
        await context.store.transact(async (tx) => {
          recordWoken(tx, context, by.session, by.method);
          if (!by.isOfSome) await markUnreadNotified(tx, context, agentId, until);
        });
      }
    } catch (error) {
      context.log('warn', 'a doorbell failed', { err: error });
    }
    state.last = result;
    if (result.by) state.heard++;
    state.attempt = undefined;
    this.#enqueue(agentId, { type: 'attempted', outcome: result.outcome });
    if (result.by) this.#lookAtTurn(agentId, state, result.by.session, TURN_LOOK_MS);
  }

  /** Later, and then less and less often, looks how the turn stands that a ring began, and says when it is over. */
  #lookAtTurn(agentId: AgentId, state: DoorbellState, session: SessionRow, afterMs: number): void {
    const { sessionId, wake } = session;
    const { signal } = this.#closing;
    const look = async (): Promise<void> => {
      if (state.doorbell.toldTo !== sessionId) return;
      const turn = await this.#parts.turnOf(session, signal);
      if (turn === 'runs') this.#lookAtTurn(agentId, state, session, Math.min(2 * afterMs, TURN_LOOK_MAX_MS));
      if (turn !== 'over' && turn !== 'failed') return;
      this.#enqueue(agentId, { type: 'turn-ended', sessionId, hasFailed: turn === 'failed' });
    };
    state.cancelLook();
    if (signal.aborted || !wake.some(({ type }) => type === 'codex-socket')) return;
    state.cancelLook = this.#parts.timers.after(afterMs, () => void look());
  }

  #isSettledInTime(state: DoorbellState): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#parts.timers.after(WAKE_WAIT_MS, () => resolve(false));
      void this.#untilSettled(state).then(() => {
        cancel();
        resolve(true);
      });
    });
  }

  /** Resolves when nothing is under way for an agent; it does not wait for an attempt that is due later. */
  async #untilSettled(state: DoorbellState): Promise<void> {
    while (state.running ?? state.attempt) {
      await state.running;
      await state.attempt;
    }
  }

  #stateOf(agentId: AgentId): DoorbellState {
    const known = this.#states.get(agentId);
    if (known) return known;
    const state: DoorbellState = {
      doorbell: QUIET_DOORBELL,
      queue: [],
      running: undefined,
      attempt: undefined,
      cancelTimer: () => undefined,
      cancelLook: () => undefined,
      last: undefined,
      heard: 0,
      taken: new Set(),
      isDueLater: false,
    };
    this.#states.set(agentId, state);
    return state;
  }
}

function whyNot({ doorbell, isDueLater, last }: DoorbellState): string {
  if (doorbell.isStranded) return NOT_WOKEN.nobody;
  if (last?.by?.isOfSome) return NOT_WOKEN.inTurn;
  if (last?.outcome === 'unheard' || last?.outcome === 'given') return NOT_WOKEN[last.isHeldBy ?? last.outcome];
  return isDueLater ? NOT_WOKEN.later : NOT_WOKEN.notified;
}
