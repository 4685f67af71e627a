/**
 * Records what clients of a relay saw: every answer that one of them got, with the time when it was asked for and the
 * time when it came. A client that hears nothing in time notes nothing: what it asked may still be done later.
 *
 * A client asks one thing after another; several clients ask side by side.
 */
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import type { PushResult } from '../../../src/host/relay/relay-client.ts';

interface Timed {
  /** The client that saw it. */
  client: string;
  /** Milliseconds of one clock that never goes back. */
  startedMs: number;
  endedMs: number;
  epoch: string;
}

export interface PushedTarget {
  target: PublicKey;
  wireHash: string;
}

/** One item was accepted, or is known. Results of any other kind promise nothing. */
export interface PushSeen extends Timed {
  type: 'push';
  sender: PublicKey;
  itemId: string;
  targets: readonly PushedTarget[];
  /** With the receipt, as it came. */
  result: PushResult;
}

export interface PulledItem {
  seq: number;
  sender: PublicKey;
  itemId: string;
  wireHash: string;
}

/** A page of everything that waits: nothing before it was left out. */
export interface PullSeen extends Timed {
  type: 'pull';
  target: PublicKey;
  head: number;
  /** The page ends here when there is more; otherwise it reaches the head. */
  lastSeq: number;
  more: boolean;
  items: readonly PulledItem[];
}

export interface AckSeen extends Timed {
  type: 'ack';
  target: PublicKey;
  through: number;
}

/** A signed note, as it came. */
export interface CheckpointSeen extends Timed {
  type: 'checkpoint';
  note: string;
}

/** The relay proves this of two checkpoints, as it came. */
export interface GrowthSeen extends Timed {
  type: 'growth';
  proof: unknown;
  older: string;
  newer: string;
}

export type Seen = PushSeen | PullSeen | AckSeen | CheckpointSeen | GrowthSeen;

export type SeenOf<T extends Seen['type']> = Extract<Seen, { type: T }>;

export function seenOf<T extends Seen['type']>(history: readonly Seen[], type: T): SeenOf<T>[] {
  return history.filter((one): one is SeenOf<T> => one.type === type);
}

/** An item as its target knows it: keys do not change in a history. */
export function itemKey(sender: PublicKey, itemId: string, target: PublicKey): string {
  return `${sender} ${itemId} ${target}`;
}
