/**
 * Lists what can happen to an outbox row, what that depends on, and what follows: `outbox.ts` decides. Besides, the
 * report to the sender of a message that does not arrive, or arrives after all.
 */
import type { DeliveryState } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { CopyReason, DeniedAt, ProvenAt, RelayAcceptance } from './relay-acceptance.ts';
import type { Address, OutboxRow, RecipientState } from './rows.ts';

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
  /**
   * The bytes are about to leave for the relay; durable before they do. Says whether this host has several relays, and
   * which of them it has had for the longest time: pushes of before there were several went there.
   */
  | { type: 'relay-pushing'; relayPubkey: PublicKey; isOneOfMany: boolean; oldestRelay?: PublicKey }
  /** Says whether the receipt verifies (key, item, target and hash), and why the row went to this one of several. */
  | { type: 'relay-accepted'; acceptance: RelayAcceptance; isVerified: boolean; why?: CopyReason }
  /** A relay that speaks only v1 has it, and gives no receipt. */
  | { type: 'relay-stored'; relayPubkey: PublicKey }
  /** The relay refused it. `unsent`: this host knew that it would, and nothing left. */
  | { type: 'relay-refused'; relayPubkey: PublicKey; code: string; unsent?: { isOneOfMany: boolean } }
  /** Each of several relays that may take it refused it as too large. */
  | { type: 'too-large' }
  /** No answer, or none about it. */
  | { type: 'relay-failed'; relayPubkey: PublicKey; reason: string }
  /** A notice that verifies. */
  | { type: 'expired'; relayPubkey: PublicKey; expiredAtMs: number }
  /** A delivery receipt that verifies, and the relay that brought it, if one did. */
  | { type: 'receipt'; recipient: Address; state: DeliveryState; relayPubkey?: PublicKey }
  /** The relay's store began anew. */
  | { type: 'new-epoch'; relayPubkey: PublicKey; epoch: Epoch }
  /** It went back in time, without a new epoch: what it took may be gone. */
  | { type: 'relay-rewound'; relayPubkey: PublicKey }
  /** What it took in this epoch is in its log: a proof that verifies. */
  | { type: 'relay-proven'; relayPubkey: PublicKey; epoch: Epoch; proven: ProvenAt }
  /** It took it in this epoch and does not show it in its log. */
  | { type: 'relay-denied'; relayPubkey: PublicKey; epoch: Epoch; denied: DeniedAt }
  /** The relay takes mail for this peer, and did not before. */
  | { type: 'relay-ready'; relayPubkey: PublicKey; epoch: Epoch }
  /** Of a receipt: this one of several relays brought its message, too. */
  | { type: 'relay-brought'; relayPubkey: PublicKey }
  /** The owner removed this one of several relays. */
  | { type: 'relay-removed'; relayPubkey: PublicKey }
  /** The peer answers over the LAN again. */
  | { type: 'peer-reached' }
  | { type: 'peer-unpaired' }
  /** The wall clock went so far on, or back when it is negative, in no time. */
  | { type: 'clock-jumped'; byMs: number }
  /** It is tried then, before or after its own time, to keep the order of the messages for one host. */
  | { type: 'rescheduled'; atMs: number }
  | { type: 'cancelled' }
  /** It is due and there is no way to send it now, or only time passed. */
  | { type: 'time-passed' };

export interface OutboxClock {
  nowMs: number;
  /** A stored date as the clock of now would have dated it: deadlines count the time that passed. */
  momentMs: (datedMs: number) => number;
}

export interface OutboxFacts extends OutboxClock {
  /** From 0 to below 1, thrown for this step: spreads attempts. */
  jitter: number;
  retry: RetryTiming;
  /** Says whether the peer ever confirmed anything. */
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

interface AlertedMessage {
  hostName: string;
  /** The subject of the message. */
  subject: string;
  /** Those it is about. */
  recipients: readonly Address[];
  rowId: number;
  /** The addresses of the relays that took it. */
  relays: readonly string[];
  /** This host has several. */
  isOneOfMany?: boolean;
  /** A sentence that says where the host takes mail, when no relay is shared; else empty. */
  elsewhere?: string;
}

/** The subject and body of the report. Specification, "Sender outbox row (relay path)", last column. */
export function alertText(alert: OutboxAlert, message: AlertedMessage): { subject: string; body: string } {
  const { hostName } = message;
  return { subject: `${TITLE[alert]} ${hostName}`, body: `${nameOf(message)} ${sentenceOf(alert, message)}` };
}

const TITLE: Readonly<Record<OutboxAlert, string>> = {
  undelivered: 'Undelivered to',
  'given-up': 'Undelivered to',
  unpaired: 'Undelivered to',
  quarantined: 'Undelivered to',
  'too-large': 'Undelivered to',
  expired: 'Undelivered to',
  unconfirmed: 'Undelivered/unconfirmed to',
  'never-confirmed': 'Undelivered/unconfirmed to',
  'stored-in-v1': 'Undelivered/unconfirmed to',
  'delivered-after-all': 'Delivered after all to',
};

function nameOf({ subject, recipients }: AlertedMessage): string {
  return `Your message "${subject}" to ${recipients.join(', ')}`;
}

function sentenceOf(alert: OutboxAlert, message: AlertedMessage): string {
  const { hostName, rowId, relays, isOneOfMany, elsewhere = '' } = message;
  const handedOver = `was handed over${isOneOfMany && relays.length > 0 ? ` to ${relays.join(' and to ')}` : ''}`;
  switch (alert) {
    case 'undelivered':
      return (
        `has not been delivered for 72 hours.${elsewhere === '' ? '' : ` ${elsewhere}`} ` +
        `It is still tried: poste outbox cancel ${rowId} ends that.`
      );
    case 'given-up':
      return `has not been delivered for 60 days and is not tried any more. Send it again if it still matters.`;
    case 'unpaired':
      return `was not confirmed before this host and ${hostName} were unpaired. It is not tried any more.`;
    case 'quarantined':
      return `is held in quarantine by ${hostName}: the owner of that host can look at it and let it in.`;
    case 'too-large':
      return (
        `is larger than the relay takes, and ${hostName} is out of reach otherwise. It is still tried over the ` +
        `LAN: poste outbox cancel ${rowId} ends that. Send it in smaller parts.`
      );
    case 'expired':
      return (
        `waited at ${relays.join(' and at ')} until its time was up, and ${hostName} did not confirm it. ` +
        'Send it again if it still matters.'
      );
    case 'unconfirmed':
      return `${handedOver}, and ${hostName} has confirmed no delivery. It may or may not have arrived.`;
    case 'never-confirmed':
      return (
        `${handedOver}. There is no delivery confirmation: ${hostName} has never sent one and may run an older ` +
        'version, so the message may well have arrived.'
      );
    case 'stored-in-v1':
      return (
        'was taken by the relay. There is no confirmation: the relay speaks only v1, which tells nobody what ' +
        `arrived, so the message may well have arrived. It is still tried until ${hostName} confirms it over the ` +
        `LAN: poste outbox cancel ${rowId} ends that.`
      );
    case 'delivered-after-all':
      return `has been delivered. What was reported of it before is settled.`;
  }
}
