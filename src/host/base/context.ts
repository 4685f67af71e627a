/**
 * The context of every operation of the host: its store, its identity, its clocks, its randomness and its events.
 *
 * An operation is a function of the context and its input that resolves, after the commit, to its output or a
 * `Refusal`. It reads and writes inside one transaction, and the pure core decides.
 */
import { ClockGuard } from '../../lib/clock-guard.ts';
import { type RandomBytes, systemClock, systemRandom } from '../../lib/clock.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RetryTiming } from '../core/outbox-event.ts';
import type { AgentId, Identity, MessageRef, PeerId } from '../core/rows.ts';
import { type HostStore, StoreFailed } from '../store/host-store.ts';
import { WaitingCalls } from './waiting-calls.ts';

export interface HostContext {
  store: HostStore;
  identity(): Identity;
  /** Milliseconds since the Unix epoch. */
  nowMs: () => number;
  /** The time of the clock of now at a moment that this host dated: deadlines count the time that passed. */
  momentMs: (datedMs: number) => number;
  /** Milliseconds of a clock that never goes back, to measure time spans. */
  monotonicMs: () => number;
  randomBytes: RandomBytes;
  /** The pauses of a failed send before its next try. */
  readonly retry: RetryTiming;
  /** Calls the listeners that the table `LISTENERS` names. It is called after the commit. */
  emit(event: HostEvent): void;
  subscribe: EventBus['subscribe'];
  /** The calls in which agents wait for mail now. */
  readonly waits: WaitingCalls;
  /** Writes a line to the daemon's log: never keys, subjects or bodies. */
  log(level: 'info' | 'warn' | 'error', message: string, facts?: Readonly<Record<string, unknown>>): void;
}

/** The clocks that tell how long ago a stored date was. */
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
    nowMs: clock.nowMs,
    momentMs: clock.momentMs,
    monotonicMs: clock.monotonicMs,
    randomBytes: systemRandom,
    retry,
    emit: (event) => events.emit(event),
    subscribe: (name, handlers) => events.subscribe(name, handlers),
    waits: new WaitingCalls(),
    log,
  };
}

/** True when an operation failed because the store did: its outcome is unknown, and the daemon is ending. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof StoreFailed;
}

/** What is kept in memory for each context, made when it is first asked for. */
export function ofEachContext<T>(make: () => T): (context: HostContext) => T {
  const made = new WeakMap<HostContext, T>();
  return (context) => {
    const known = made.get(context) ?? make();
    made.set(context, known);
    return known;
  };
}

/** A durable change. It is emitted after the commit. */
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
  /** The program of a session says that it has these messages. */
  | { type: 'mail-taken'; agentId: AgentId; refs: readonly MessageRef[] }
  /** A session can be woken now: its hook begins to wait for a doorbell, or its turn is over. */
  | { type: 'session-waits'; agentId: AgentId; sessionId: string }
  /** A turn of the session is over. */
  | { type: 'session-turn-ended'; agentId: AgentId; sessionId: string; hasFailed: boolean }
  /** The agent used a mail tool of its `poste mcp`. */
  | { type: 'mail-tool-used'; agentId: AgentId }
  | { type: 'session-ended'; agentId: AgentId; sessionId: string }
  /** An outbox row for this peer is new, or may be tried again. */
  | { type: 'outbox-changed'; peerId: PeerId }
  /**
   * Mail of a peer came, or a receipt for a row that went over one of several relays: over this one, null for the LAN.
   * `rowId` is 0 for mail, `copies` counts the relays that took the row, and the peer's clock dated it. `isDone`: every
   * recipient has the row.
   */
  | {
      type: 'peer-heard';
      peerId: PeerId;
      over: PublicKey | null;
      rowId: number;
      copies: number;
      isDone: boolean;
      wroteAtMs: number;
    }
  | { type: 'peers-changed' }
  /** A peer goes on under a new key: what was known of its last one, and of this one, holds no more. */
  | { type: 'peer-rotated'; peerId: PeerId; keys: readonly PublicKey[] }
  /** An agent of this host was added, removed or renamed, or got other roles. */
  | { type: 'agents-changed' }
  /** The owner set, added or removed a relay, preferred another one, or confirmed a relay's new key. */
  | { type: 'relay-changed' }
  /** This host signed another document of its relays. */
  | { type: 'home-changed' }
  /** A paired host said which document of this host it holds, and it is another than before. */
  | { type: 'home-heard' }
  /** A relay can be used from now on, is down, or was not heard for long; or is so no more. */
  | { type: 'relay-turned'; relayPubkey: PublicKey }
  /** There is new evidence against a relay, or the owner dismissed some. */
  | { type: 'evidence-changed' }
  /** A paired host showed a note of the relay that is to be compared with what the relay shows here. */
  | { type: 'relay-note-heard' }
  /** The host has a new signing or encryption key, or another name. */
  | { type: 'identity-changed'; identity: Identity }
  /** The host has another name. `identity-changed` came before. */
  | { type: 'host-renamed' };

/**
 * The listeners of each event, in this order. An event without a row does not compile, nor does a listener that takes
 * another set of events than its rows give it.
 */
export const LISTENERS = {
  'mail-stored': ['doorbells', 'inbox', 'page', 'words'],
  'mail-handled': ['doorbells', 'inbox', 'page'],
  'sent-changed': ['leaving', 'page'],
  'session-registered': ['doorbells', 'page'],
  'session-notified': ['doorbells'],
  'mail-taken': ['doorbells'],
  'session-waits': ['doorbells'],
  'session-turn-ended': ['doorbells'],
  'mail-tool-used': ['doorbells'],
  'session-ended': ['sessions', 'page'],
  'outbox-changed': ['outbox'],
  'peer-heard': ['outbox'],
  'peers-changed': ['lan', 'relay', 'move', 'debts', 'page'],
  'peer-rotated': ['relay', 'outbox'],
  'agents-changed': ['lan', 'debts', 'page'],
  'relay-changed': ['relay', 'move'],
  'home-changed': ['lan'],
  'home-heard': ['move'],
  'relay-turned': ['relay', 'move', 'outbox'],
  'evidence-changed': ['relay'],
  'relay-note-heard': ['relay'],
  'identity-changed': ['context', 'lan', 'relay'],
  'host-renamed': ['relay'],
} as const satisfies Readonly<Record<HostEvent['type'], readonly string[]>>;

type EventType = keyof typeof LISTENERS;
type ListenerName = (typeof LISTENERS)[EventType][number];

/** The function of a listener for each of its events. Must not throw, and is not awaited. */
export type HandlersOf<N extends ListenerName> = {
  readonly [T in EventType as N extends (typeof LISTENERS)[T][number] ? T : never]: (
    event: Extract<HostEvent, { type: T }>,
  ) => void;
};

type AnyHandlers = Partial<Readonly<Record<EventType, (event: HostEvent) => void>>>;

export class EventBus {
  readonly #listeners = new Map<ListenerName, Set<AnyHandlers>>();

  /** Calls the handlers from now on; a name may listen several times. Returns the function that ends that. */
  subscribe<N extends ListenerName>(name: N, handlers: HandlersOf<N>): () => void {
    const ofName = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, ofName);
    // A copy, as the same handlers may be subscribed twice.
    const own = { ...handlers } as AnyHandlers;
    ofName.add(own);
    return () => ofName.delete(own);
  }

  emit(event: HostEvent): void {
    for (const name of LISTENERS[event.type]) {
      for (const handlers of this.#listeners.get(name) ?? []) handlers[event.type]?.(event);
    }
  }
}
