/** What each kind of event is called on the page. One that is missing here is shown under its own name. */
import type { RelayEvent } from '../relay/core/event.ts';

export const EVENT_NAMES: Partial<Record<RelayEvent['type'], string>> = {
  ItemAccepted: 'item accepted',
  ItemsAcked: 'items acked',
  ItemsExpired: 'items expired',
  ItemLost: 'item lost',
  ItemsMoved: 'items moved',
  DedupPurged: 'pushes forgotten',
  HostEnrolled: 'host enrolled',
  HostSeen: 'host seen',
  HostRevoked: 'host revoked',
  KeyRotated: 'key rotated',
  EnrolmentLapsed: 'enrolment lapsed',
  SendersPublished: 'senders published',
  EncKeyPublished: 'encryption key published',
  InviteIssued: 'invite issued',
  InviteSpent: 'invite spent',
  DenyEntryAdded: 'deny entry added',
  AdmissionsLapsed: 'admissions lapsed',
  EpochRotated: 'epoch began',
  RelayInitialised: 'relay initialised',
};

export function eventName(type: string): string {
  return (EVENT_NAMES as Readonly<Record<string, string>>)[type] ?? type;
}
