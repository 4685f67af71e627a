/** What can happen to an outbox row, what that depends on, and what follows: the words of `outbox.ts`, which decides. */
import type { DeliveryState } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Address, OutboxRow, RecipientState, RelayAcceptance } from './rows.ts';

/** When a row is tried again that could not be sent: after `firstMs`, then after twice as much each time. */
export interface RetryTiming {
  firstMs: number;
  longestMs: number;
}
/** Unless the owner's config says otherwise. */
export const RETRY_TIMING: RetryTiming = { firstMs: 5_000, longestMs: 900_000 };

export type OutboxEvent =
  /** The peer answered `accepted` or `duplicate`, after its commit. */
  | { type: 'lan-accepted' }
  | { type: 'lan-quarantined' }
  /** The peer answered, and did not take it. `code` is what follows `rejected:`. */
  | { type: 'lan-rejected'; code: string }
  /** No answer. */
  | { type: 'lan-failed'; reason: string }
  /** The bytes are about to leave for the relay; durable before they do. */
  | { type: 'relay-pushing' }
  /** Whether the receipt verifies: key, item, target and hash. */
  | { type: 'relay-accepted'; acceptance: RelayAcceptance; isVerified: boolean }
  /** A relay that speaks only v1 has it, and gives no receipt. */
  | { type: 'relay-stored' }
  /** A rejected or missing result. */
  | { type: 'relay-refused'; code: string }
  | { type: 'relay-failed'; reason: string }
  /** A notice that verifies. */
  | { type: 'expired'; relayPubkey: PublicKey; expiredAtMs: number }
  /** A delivery receipt that verifies. */
  | { type: 'receipt'; recipient: Address; state: DeliveryState }
  /** The relay's store began anew. */
  | { type: 'new-epoch'; relayPubkey: PublicKey; epoch: Epoch }
  /** It went back in time, without a new epoch: what it took may be gone. */
  | { type: 'relay-rewound'; relayPubkey: PublicKey }
  /** The relay takes mail for this peer, and did not before. */
  | { type: 'relay-ready'; relayPubkey: PublicKey; epoch: Epoch }
  /** The peer answers over the LAN again. */
  | { type: 'peer-reached' }
  | { type: 'peer-unpaired' }
  | { type: 'cancelled' }
  /** It is due and there is no way to send it now, or only time passed. */
  | { type: 'time-passed' };

export interface OutboxFacts {
  nowMs: number;
  /** From 0 to below 1, thrown for this step: spreads attempts. */
  jitter: number;
  retry: RetryTiming;
  /** Whether the peer ever confirmed anything. */
  hasPeerConfirmed: boolean;
}

export const OUTBOX_ALERTS = [
  'undelivered', // 72 hours, still tried
  'given-up',
  'unpaired',
  'quarantined',
  'too-large', // for the relay; over the LAN it is still tried
  'expired',
  'unconfirmed',
  'never-confirmed', // unconfirmed, by a peer that never confirmed anything
  'stored-in-v1', // 72 hours, still tried: a relay of v1 said that it has it, and gives no confirmation
  'delivered-after-all', // corrects whatever was said before
] as const;
export type OutboxAlert = (typeof OUTBOX_ALERTS)[number];

export type OutboxEffect =
  /** The local sender is told; `recipients` are those it is about. */
  | { type: 'Alert'; alert: OutboxAlert; recipients: Address[] }
  | { type: 'MarkRecipients'; recipients: Address[]; state: RecipientState }
  | { type: 'DropWire' };

export interface OutboxStep {
  /** Null when the row is dropped. */
  row: OutboxRow | null;
  effects: OutboxEffect[];
}
