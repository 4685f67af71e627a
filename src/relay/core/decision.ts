/** A decision yields events with an outcome, or a refusal. A refusal changes nothing. */
import type { Epoch } from '../../protocol/epoch.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEvent } from './event.ts';
import type { AuthorityName } from './rows.ts';

/** A refusal says why a whole request is refused. `members` go into the problem document beside the code. */
export interface Refusal {
  type: 'Refusal';
  code: ProblemCode;
  detail: string;
  members: Readonly<Record<string, unknown>>;
}

export function refusal(code: ProblemCode, detail: string, members: Readonly<Record<string, unknown>> = {}): Refusal {
  return { type: 'Refusal', code, detail, members };
}

/** One target of an item that is stored, now or before. */
export interface StoredTarget {
  /** The key this request used. */
  hostPubkey: PublicKey;
  seq: number;
  wireHash: Sha256Hex;
}

export type PushOutcome =
  | { type: 'ItemStored'; status: 'accepted' | 'duplicate'; targets: StoredTarget[]; atMs: number }
  | { type: 'ItemRejected'; rejection: ItemRejection };

export interface EnrolOutcome {
  type: 'Enrolled';
  hostPubkey: PublicKey;
  host: string;
  enrolledAtMs: number;
  authorizedBy: AuthorityName;
  account: string | null;
  crowded: boolean;
}

export interface AckOutcome {
  type: 'Acked';
  ackedThrough: number;
  deleted: number;
  headSeq: number;
}

export interface SendersOutcome {
  type: 'SendersListed';
  senders: number;
  iatMs: number;
}

export interface EncKeyOutcome {
  type: 'EncKeyShown';
  atMs: number;
}

export interface RotateOutcome {
  type: 'KeyRotated';
  hostPubkey: PublicKey;
  movedItems: number;
  headSeq: number;
}

export interface RevokeOutcome {
  type: 'Revoked';
  /** False when the key was revoked before. */
  isNew: boolean;
}

export interface InviteOutcome {
  type: 'Invited';
  expiresAtMs: number;
}

export interface EpochOutcome {
  type: 'EpochBegun';
  epoch: Epoch;
}

export interface Done {
  type: 'Done';
}

/** The outcome of any command but `ExpireItems`. */
export type Outcome =
  | PushOutcome
  | EnrolOutcome
  | AckOutcome
  | SendersOutcome
  | EncKeyOutcome
  | RotateOutcome
  | RevokeOutcome
  | InviteOutcome
  | EpochOutcome
  | Done;

export interface Decided<O> {
  type: 'Decided';
  events: RelayEvent[];
  outcome: O;
}

export function decisionOf<O>(outcome: O, ...events: RelayEvent[]): Decided<O> {
  return { type: 'Decided', events, outcome };
}

/**
 * Thrown where the rows of one queue contradict what is to happen to it, as when more would be released than is
 * charged. Nothing of such an event may be kept; the queues of others are as they were.
 */
export class BrokenQueue extends Error {
  readonly targetPubkey: PublicKey;

  constructor(targetPubkey: PublicKey, message: string, options?: ErrorOptions) {
    super(message, options);
    this.targetPubkey = targetPubkey;
  }
}

/** The key whose queue or charges an event is about; of an `ItemAccepted`, which may have many targets, none. */
export function queueOf(event: RelayEvent): PublicKey | undefined {
  if ('targetPubkey' in event) return event.targetPubkey;
  if ('oldPubkey' in event) return event.oldPubkey;
  return 'hostPubkey' in event ? event.hostPubkey : undefined;
}
