/** What a node of a shared log is given. */
import type { Clock, Timers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Durability } from './durability.ts';
import type { HandOver } from './leadership.ts';
import type { SnapshotDue } from './snapshot-job.ts';
import type { Fenced, SharedLog } from './shared-log.ts';
import type { ViewLog } from './view-log.ts';
import type { NotesPlace } from './witness.ts';

export interface NodeLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
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

/** What others than the node itself use of its view while it follows. */
export interface FollowedView {
  store: RelayStore;
  log: ViewLog;
}

export interface NodeOptions extends SharedLogOptions, NotesPlace {
  /** Of this software. */
  version: string;
  signer: Signer;
  /** What this node decides by: limits, admission, authority. `undefined`: nothing, and any may lead after it. */
  settings: object | undefined;
  clock: Clock;
  timers: Timers;
  newEpoch: () => Epoch;
  logger: NodeLogger;
  /** Ends the following. */
  signal: AbortSignal;
  /** Called once, when another node took the lead. */
  onLost: (error: Fenced) => void;
  /** Called once, when the leader learns that it is to stop, and to follow. */
  onHandOver: (why: HandOver) => void;
  /** Called when the log asks the leader for a new epoch. */
  onDoubt: (why: string) => void;
  onStalled: (why: string | undefined) => void;
  /** Called when the leader does not reach the log: relay/standby/leader-gate.ts answers the requests that wait. */
  onUnreached?: () => void;
  /** Called with the view that this node follows with from now on, and the name of the node. */
  onView?: (view: FollowedView, node: string) => void;
  /** Called before a view that this node followed with is closed; whatever reads it has left it when this resolves. */
  onViewLeft?: () => Promise<void>;
  /** Why the view is not to be led with, as a clause. */
  viewFault?: () => string | undefined;
  /** Called each time that the view has caught up with what was acknowledged. */
  onFollowed?: () => void;
}
