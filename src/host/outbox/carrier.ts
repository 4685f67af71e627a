/**
 * What carries rows of the outbox: one request over the LAN or to the relay. A carrier neither chooses rows nor stores
 * what became of them; the dispatcher does (`dispatcher.ts`).
 */
import type { OutboxEvent } from '../core/outbox-event.ts';
import type { OutboxRow, PeerRow } from '../core/rows.ts';
import type { RelayFacts } from '../core/transport-choice.ts';

export interface RowEvent {
  rowId: number;
  event: OutboxEvent;
}

/** What one request brought. */
export interface Sent {
  /** Of the rows that the request was about; the other rows are as due as before. */
  events: RowEvent[];
  /** Whether the host answered over the LAN; absent when the request shows neither. */
  lan?: 'reached' | 'unreached';
}

export interface Carrier {
  /**
   * Sends the first of these rows, as many as one request holds. A request that fails after `signal` was aborted brings
   * no events. Throws only what is a fault of this program or of the store.
   */
  send(peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal): Promise<Sent>;
}

export interface RelayTransport extends Carrier {
  /** Whether a relay can be used at all now. */
  readonly isUsable: boolean;
  /** How long nothing may be sent to the relay. */
  readonly pauseMs: number;
  /** What the relay can do for a peer, as far as it was asked lately; null when no relay can be used. */
  factsFor(peer: PeerRow): RelayFacts | null | 'unknown';
  /** Asks the relay about the peer. Does not throw when the relay does not answer. */
  ask(peer: PeerRow): Promise<void>;
}
