/** What deciding yields: events with an outcome, or a refusal. A refusal changes nothing. */
import type { Epoch } from '../../protocol/epoch.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEvent } from './event.ts';
import type { AuthorityName } from './rows.ts';

/** Why a whole request is refused. `members` go into the problem document beside the code. */
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

export interface Decided<O> {
  type: 'Decided';
  events: RelayEvent[];
  outcome: O;
}

export function decided<O>(outcome: O, ...events: RelayEvent[]): Decided<O> {
  return { type: 'Decided', events, outcome };
}
