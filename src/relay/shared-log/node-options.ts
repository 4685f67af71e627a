/** The options of a node of a shared log. */
import type { Clock, Timers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Durability } from './durability.ts';
import type { Fenced, SharedLog } from './shared-log.ts';
import type { NotesPlace } from './witness.ts';

export interface NodeLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * The reason for which a node that leads is to stop, and to follow: another node asked for the lead; or its clock is
 * not that of the server, so that it refuses hosts, and another may do better; or the log lies on another server than
 * when this node took the lead. Then it takes the lead anew, because only a takeover finds out whether that server has
 * everything, and notes that the log lies there.
 */
export type HandOver = { type: 'other-node'; by: string } | { type: 'other-server' } | { type: 'clock'; why: string };

/** A snapshot is due when the log has grown by so many batches since the last, and that one has this age. */
export interface SnapshotDue {
  batches: number;
  ageMs: number;
}

export interface SharedLogOptions {
  log: SharedLog;
  durability: Durability;
  leaseMs: number;
  /** Lead also when the last leader decided by other settings. */
  acceptsSettings: boolean;
  /** When a leader takes a snapshot; absent: `DUE` of snapshot-job.ts. */
  snapshotDue?: readonly SnapshotDue[] | undefined;
}

/** The view of a node while it follows, as others than the node use it. */
export interface FollowedView {
  store: RelayStore;
  log: {
    readonly logId: string;
    /** The last batch that the view holds. */
    readonly no: number;
    /** Runs `work` between two batches. Throws when the node does not follow any more. */
    between<T>(work: () => Promise<T>): Promise<T>;
  };
}

export interface NodeOptions extends SharedLogOptions, NotesPlace {
  /** The version of this software. */
  version: string;
  signer: Signer;
  /** Limits, admission, authority: this node decides by them. `undefined`: by nothing, and any may lead after it. */
  settings: object | undefined;
  clock: Clock;
  timers: Timers;
  newEpoch: () => Epoch;
  logger: NodeLogger;
  /** Ends the following. */
  signal: AbortSignal;
  /** Called once, when another node took the lead. */
  onLost?: (error: Fenced) => void;
  /** Called once, when the leader learns that it is to stop, and to follow. */
  onHandOver?: (why: HandOver) => void;
  /** Called when the log asks the leader for a new epoch. */
  onDoubt?: (why: string) => void;
  /** Called when the log took nothing, and when it takes batches again. */
  onStalled?: (why: string | undefined) => void;
  /** Called when the leader does not reach the log: relay/standby/leader-gate.ts answers the requests that wait. */
  onUnreached?: () => void;
  /** Called with the view that this node follows with from now on, and the name of the node. */
  onView?: (view: FollowedView, node: string) => void;
  /** Called before a view that this node followed with is closed; whatever reads it has left it when this resolves. */
  onViewLeft?: () => Promise<void>;
  /** Says why the view is not to be led with, as a clause. */
  viewFault?: () => string | undefined;
  /** Called each time that the view has caught up with what was acknowledged. What it throws ends the following. */
  onFollowed?: () => void | Promise<void>;
}
