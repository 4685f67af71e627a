/**
 * What every operation of the host works with: its store, its identity, its clocks, its randomness and its events.
 *
 * An operation is a function of the context and its input that resolves, after the commit, to its output or a
 * `Refusal`. It reads and writes inside one transaction, and the pure core decides.
 */
import { ClockGuard } from '../../lib/clock-guard.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { HostName } from '../../protocol/names.ts';
import type { RetryTiming } from '../core/outbox-event.ts';
import type { AgentId, PeerId, SealKey } from '../core/rows.ts';
import { type HostStore, StoreFailed } from '../store/host-store.ts';

/** A durable change. Emitted after the commit. */
export type HostEvent =
  /** A message came into a mailbox. */
  | { type: 'mail-stored'; agentId: AgentId; position: number; wakes: boolean }
  /** A message of a mailbox was read or acked. */
  | { type: 'mail-handled'; agentId: AgentId }
  /** This agent sent a message, or the state of a message that it sent changed. */
  | { type: 'sent-changed'; agentId: AgentId }
  /** A session is new, came back, or can be woken by other methods than before. */
  | { type: 'session-registered'; agentId: AgentId; sessionId: string }
  /** A session got the text about unread mail, and shows it to its agent. */
  | { type: 'session-notified'; agentId: AgentId; sessionId: string }
  /** A session can be woken now: its hook begins to wait for a doorbell, or its turn is over. */
  | { type: 'session-waits'; agentId: AgentId; sessionId: string }
  /** A turn of the session is over. */
  | { type: 'session-turn-ended'; agentId: AgentId; sessionId: string; hasFailed: boolean }
  /** The agent used a mail tool of its `poste mcp`. */
  | { type: 'mail-tool-used'; agentId: AgentId }
  | { type: 'session-ended'; agentId: AgentId; sessionId: string }
  /** An outbox row for this peer is new, or may be tried again. */
  | { type: 'outbox-changed'; peerId: PeerId }
  | { type: 'peers-changed' }
  /** An agent of this host was added, removed or renamed, or got other roles. */
  | { type: 'agents-changed' }
  /** The owner set another relay, or none, or confirmed the relay's new key. */
  | { type: 'relay-changed' }
  /** The host has a new signing or encryption key, or another name. */
  | { type: 'identity-changed'; identity: Identity }
  /** The host has another name. `identity-changed` came before. */
  | { type: 'host-renamed' };

/** The host's name and present keys. Replaced as a whole when one of them changes. */
export interface Identity {
  hostName: HostName;
  signer: Signer;
  sealKey: SealKey;
}

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
  /** Calls every listener. Called after the commit. */
  emit(event: HostEvent): void;
  /** Calls `listener` for every event from now on. Returns the function that ends the subscription. */
  subscribe(listener: (event: HostEvent) => void): () => void;
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
  // The first listener: every later one sees the new identity.
  events.subscribe((event) => {
    if (event.type === 'identity-changed') current = event.identity;
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
    subscribe: (listener) => events.subscribe(listener),
    log,
  };
}

/** Whether an operation failed because the store did: its outcome is unknown, and the daemon is ending. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof StoreFailed;
}

/** Must not throw, and is not awaited. */
type Listener = (event: HostEvent) => void;

export class EventBus {
  readonly #listeners = new Set<Listener>();

  /** Listeners are called in the order they came. Returns the function that ends the subscription. */
  subscribe(listener: Listener): () => void {
    // One function may be subscribed twice.
    const own: Listener = (event) => listener(event);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  emit(event: HostEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}
