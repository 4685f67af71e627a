/** What the dispatcher of the outbox knows of one peer: its requests under way, and when to look at it next. */

/** Over what a request goes. */
export type Way = 'lan' | 'relay';

/** The request of one peer that is under way over one transport. */
export interface Lane {
  rowIds: ReadonlySet<number>;
  /** The first message among its rows that nobody has taken yet; `Infinity` without one. */
  firstMessage: number;
  /** By the monotonic clock. */
  sinceMs: number;
  ended: Promise<void>;
}

/** What the dispatcher knows of one peer. */
export interface PeerWork {
  look: Promise<void> | undefined;
  /** Something happened after the look under way began. */
  isStale: boolean;
  lanes: Partial<Record<Way, Lane>>;
  /** Rows wait for the end of a request that is under way. */
  isBlocked: boolean;
  /** The relay is being asked about the peer. */
  asking: Promise<void> | undefined;
  /** When it is looked at next, if nothing happens before; null when nothing is to be waited for. */
  nextMs: number | null;
}

export function lookAgainBy(work: PeerWork, atMs: number | null): void {
  work.nextMs = earliest([work.nextMs, atMs]);
}

export function isUnderWay({ lanes }: PeerWork, rowId: number): boolean {
  return lanes.lan?.rowIds.has(rowId) === true || lanes.relay?.rowIds.has(rowId) === true;
}

export function sizeOf(lane: Lane | undefined): number {
  return lane?.rowIds.size ?? 0;
}

export function earliest(moments: readonly (number | null)[]): number | null {
  const known = moments.filter((moment) => moment !== null);
  return known.length === 0 ? null : Math.min(...known);
}
