/** How one type of event becomes an array and comes back; the checksum around a record vouches for the types. */
import type { RelayEvent } from '../core/event.ts';

export interface EventCodec<E extends RelayEvent> {
  /** DO NOT CHANGE: persisted. */
  tag: number;
  fields(event: E): unknown[];
  event(fields: unknown[]): E;
}

export type EventCodecs = { [T in RelayEvent['type']]: EventCodec<RelayEvent & { type: T }> };
