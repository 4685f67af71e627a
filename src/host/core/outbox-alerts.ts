/** What the sender of a message is told when it does not arrive, or arrives after all. Pure. */
import type { OutboxAlert } from './outbox-event.ts';
import type { Address } from './rows.ts';

export interface AlertedMessage {
  hostName: string;
  /** Of the message. */
  subject: string;
  /** Those it is about. */
  recipients: readonly Address[];
  rowId: number;
}

/** The subject and body of the report. Specification, "Sender outbox row (relay path)", last column. */
export function alertText(alert: OutboxAlert, message: AlertedMessage): { subject: string; body: string } {
  const { hostName } = message;
  return { subject: `${TITLE[alert]} ${hostName}`, body: `${named(message)} ${sentenceOf(alert, message)}` };
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

function named({ subject, recipients }: AlertedMessage): string {
  return `Your message "${subject}" to ${recipients.join(', ')}`;
}

function sentenceOf(alert: OutboxAlert, { hostName, rowId }: AlertedMessage): string {
  switch (alert) {
    case 'undelivered':
      return `has not been delivered for 72 hours. It is still tried: poste outbox cancel ${rowId} ends that.`;
    case 'given-up':
      return `has not been delivered for 60 days and is not tried any more. Send it again if it still matters.`;
    case 'unpaired':
      return `was not confirmed before this host and ${hostName} were unpaired. It is not tried any more.`;
    case 'quarantined':
      return `is held in quarantine by ${hostName}: the owner of that host can look at it and let it in.`;
    case 'too-large':
      return `is larger than the relay takes, and ${hostName} is out of reach otherwise. It is still tried over the LAN: poste outbox cancel ${rowId} ends that. Send it in smaller parts.`;
    case 'expired':
      return `waited at the relay until its time was up, and ${hostName} never fetched it. Send it again if it still matters.`;
    case 'unconfirmed':
      return `was handed over, and ${hostName} has confirmed no delivery. It may or may not have arrived.`;
    case 'never-confirmed':
      return `was handed over. There is no delivery confirmation: ${hostName} has never sent one and may run an older version, so the message may well have arrived.`;
    case 'stored-in-v1':
      return `was taken by the relay. There is no confirmation: the relay speaks only v1, which tells nobody what arrived, so the message may well have arrived. It is still tried until ${hostName} confirms it over the LAN: poste outbox cancel ${rowId} ends that.`;
    case 'delivered-after-all':
      return `has been delivered. What was reported of it before is settled.`;
  }
}
