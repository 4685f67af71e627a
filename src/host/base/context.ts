/**
 * What every operation of the host works with: its store, its identity, its clocks, its randomness and its events.
 *
 * An operation is a function of the context and its input that resolves, after the commit, to its output or a
 * `Refusal`. It reads and writes inside one transaction, and the pure core decides.
 */
import { ClockGuard } from '../../lib/clock-guard.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import type { RetryTiming } from '../core/outbox-event.ts';
import type { Identity } from '../core/rows.ts';
import { type HostStore, StoreFailed } from '../store/host-store.ts';
import { EventBus, type HostEvent } from './events.ts';

export interface HostContext {
  store: HostStore;
  identity(): Identity;
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** What the clock of now would have shown at a moment that this host dated: deadlines count the time that passed. */
  momentMs(datedMs: number): number;
  /** Milliseconds of a clock that never goes back, to measure time spans. */
  monotonicMs(): number;
  randomBytes(count: number): Buffer;
  /** How long a failed send waits for its next try. */
  readonly retry: RetryTiming;
  /** Calls the listeners that the table of `events.ts` names. Called after the commit. */
  emit(event: HostEvent): void;
  subscribe: EventBus['subscribe'];
  /** Writes a line to the daemon's log: never keys, subjects or bodies. */
  log(level: 'info' | 'warn' | 'error', message: string, facts?: Readonly<Record<string, unknown>>): void;
}

/** What it takes to tell how long ago a stored date was. */
export type HostClock = Pick<HostContext, 'nowMs' | 'momentMs'>;

/** The context of this process over an open store, with the real clocks and randomness. */
export function createHostContext(
  store: HostStore,
  first: Identity,
  retry: RetryTiming,
  log: HostContext['log'],
  clock = new ClockGuard(systemClock),
): HostContext {
  const events = new EventBus();
  let current = first;
  events.subscribe('context', {
    'identity-changed': ({ identity }) => {
      current = identity;
    },
  });
  return {
    store,
    identity: () => current,
    nowMs: () => clock.nowMs(),
    momentMs: (datedMs) => clock.momentMs(datedMs),
    monotonicMs: () => clock.monotonicMs(),
    randomBytes: systemRandom,
    retry,
    emit: (event) => events.emit(event),
    subscribe: (name, handlers) => events.subscribe(name, handlers),
    log,
  };
}

/** Whether an operation failed because the store did: its outcome is unknown, and the daemon is ending. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof StoreFailed;
}
