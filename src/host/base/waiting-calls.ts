/**
 * The calls in which agents wait for mail now (`mail_inbox` with `wait_seconds`), and the mail that they brought.
 *
 * The answer of the daemon proves nothing yet: its caller says that it passed the answer on (`wait-heard`). Until then
 * the call is unsettled: no doorbell rings for its agent, and no sender is answered. Nothing of this is stored.
 */
import type { AgentId } from '../core/rows.ts';

/** So many calls of one agent wait at once, and so many of all: each has one of the daemon's connections. */
export const WAITS_PER_AGENT_MAX = 50;
export const WAITS_MAX = 500;
/** So many messages of an agent are known to have been brought; a sender asks at once. */
const BROUGHT_KEPT_MAX = 500;

export class WaitingCalls {
  readonly #calls = new Map<AgentId, Set<WaitingCall>>();
  readonly #brought = new Map<AgentId, Set<number>>();
  #count = 0;

  /** `id`: the caller's name of the call, if it will say what became of the answer. `undefined`: too many wait. */
  begin(agentId: AgentId, id: string | undefined): WaitingCall | undefined {
    const calls = this.#calls.get(agentId) ?? new Set();
    if (calls.size >= WAITS_PER_AGENT_MAX || this.#count >= WAITS_MAX) return undefined;
    const call: WaitingCall = new WaitingCall(id, () => {
      if (!calls.delete(call)) return;
      this.#count--;
      if (calls.size === 0) this.#calls.delete(agentId);
    });
    calls.add(call);
    this.#calls.set(agentId, calls);
    this.#count++;
    return call;
  }

  isWaiting(agentId: AgentId): boolean {
    return this.#calls.has(agentId);
  }

  /** Resolves when each call of the agent waits on, or is over. */
  async untilSettled(agentId: AgentId): Promise<void> {
    await Promise.all([...(this.#calls.get(agentId) ?? [])].map((call) => call.settled));
  }

  /** Says whether each call of the agent waits on, now. */
  isSettled(agentId: AgentId): boolean {
    return [...(this.#calls.get(agentId) ?? [])].every((call) => call.isSettled);
  }

  /** Says whether a call brought the message at this position to its agent. Ask when it was stored. */
  async hasBrought(agentId: AgentId, position: number): Promise<boolean> {
    await this.untilSettled(agentId);
    return this.#brought.get(agentId)?.has(position) ?? false;
  }

  /** The call of this name that is being answered. */
  findAnswered(agentId: AgentId, id: string): WaitingCall | undefined {
    return [...(this.#calls.get(agentId) ?? [])].find((call) => call.id === id && call.isAnswered);
  }

  /** The caller passed these messages on. */
  noteBrought(agentId: AgentId, positions: readonly number[]): void {
    const known = [...(this.#brought.get(agentId) ?? []), ...positions];
    this.#brought.set(agentId, new Set(known.slice(-BROUGHT_KEPT_MAX)));
  }

  /** Ends all calls. */
  close(): void {
    for (const calls of this.#calls.values()) for (const call of calls) call.end();
  }
}

export class WaitingCall {
  readonly id: string | undefined;
  readonly #ended: () => void;
  #settled: Promise<void> = Promise.resolve();
  #settle: (() => void) | undefined;
  #release: (() => void) | undefined;
  #positions: readonly number[] | undefined;

  constructor(id: string | undefined, ended: () => void) {
    this.id = id;
    this.#ended = ended;
  }

  /** Resolves when it is not known any more that mail may answer it. */
  get settled(): Promise<void> {
    return this.#settled;
  }

  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  get isAnswered(): boolean {
    return this.#positions !== undefined;
  }

  /** Mail may answer it, which the next look shows. */
  unsettle(): void {
    if (this.#settle) return;
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** Nothing has answered it: it waits on. */
  settle(): void {
    this.#settle?.();
    this.#settle = undefined;
  }

  /** It is answered with the messages at these positions; `release` frees what watches for its end. */
  answer(positions: readonly number[], release: () => void): void {
    this.unsettle();
    this.#positions = positions;
    this.#release = release;
  }

  /** Its caller says what became of the answer: from now on nothing else ends the call. */
  take(): readonly number[] {
    const positions = this.#positions ?? [];
    this.#positions = undefined;
    this.#release?.();
    return positions;
  }

  end(): void {
    this.#release?.();
    this.#ended();
    this.settle();
  }
}
