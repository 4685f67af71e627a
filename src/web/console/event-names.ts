/** What each kind of event is called on the page. A kind that a newer relay has is shown under its own name. */
import type { RelayEvent } from '../../relay/core/event.ts';

export const EVENT_NAMES: Record<RelayEvent['type'], string> = {
  ItemAccepted: 'item accepted',
  ItemsAcked: 'items acked',
  ItemsExpired: 'items expired',
  ItemLost: 'item lost',
  ItemsMoved: 'items moved',
  DedupExtended: 'items acked late',
  DedupPurged: 'pushes forgotten',
  HostEnrolled: 'host enrolled',
  HostSeen: 'host seen',
  HostRevoked: 'host revoked',
  KeyRotated: 'key rotated',
  EnrolmentLapsed: 'enrolment lapsed',
  SendersPublished: 'senders published',
  SendersRenewed: 'same senders published again',
  EncKeyPublished: 'encryption key published',
  InviteIssued: 'invite issued',
  InviteSpent: 'invite spent',
  DenyEntryAdded: 'deny entry added',
  AdmissionsLapsed: 'admissions lapsed',
  EpochRotated: 'epoch began',
  RelayRestored: 'restored from a backup',
  SeqFloorsRaised: 'sequence numbers raised',
  CheckpointTaken: 'rows kept',
  SchemaMigrated: 'store brought to a newer schema',
  RelayInitialised: 'relay initialised',
};

export function eventName(type: string): string {
  return (EVENT_NAMES as Readonly<Record<string, string>>)[type] ?? type;
}
