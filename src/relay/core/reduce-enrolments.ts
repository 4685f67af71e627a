/** The enrolment rows: which keys are admitted, under what name and authority. */
import type { RelayEvent } from './event.ts';
import type { EnrolmentRow, RowChange, RowReader } from './rows.ts';

export function reduceEnrolments(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'HostEnrolled': {
      const { hostPubkey, hostName, ownerFp, account, org, clientId, authorizedBy, enrolledAtMs, validUntilMs } = event;
      const before = rows.get('enrolment', hostPubkey);
      const row: EnrolmentRow = {
        hostPubkey,
        hostName,
        ownerFp,
        account,
        org,
        clientId,
        authorizedBy,
        enrolledAtMs,
        validUntilMs,
        revokedAtMs: before?.revokedAtMs ?? null,
        seen: before?.seen ?? false,
      };
      return [{ table: 'enrolment', key: hostPubkey, row }];
    }
    case 'HostSeen': {
      const before = rows.get('enrolment', event.hostPubkey);
      return before ? [{ table: 'enrolment', key: event.hostPubkey, row: { ...before, seen: true } }] : [];
    }
    case 'EnrolmentLapsed':
      return [{ table: 'enrolment', key: event.hostPubkey, row: null }];
    default:
      return [];
  }
}
