/** The enrolment rows: which keys are admitted, under what name and authority, and which of them are one host. */
import type { KeyRotated, RelayEvent } from './event.ts';
import { type EnrolmentRow, type RowChange, type RowReader, enrolmentRecord } from './rows.ts';

export function reduceEnrolments(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'HostEnrolled': {
      const { hostPubkey } = event;
      const before = rows.get('enrolment', hostPubkey);
      const row: EnrolmentRow = {
        hostPubkey,
        ...enrolmentRecord(event),
        revokedAtMs: before?.revokedAtMs ?? null,
        rotatedTo: before?.rotatedTo ?? null,
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
    case 'HostRevoked': {
      const before = rows.get('enrolment', event.hostPubkey);
      const row = before && { ...before, revokedAtMs: event.atMs };
      return row ? [{ table: 'enrolment', key: event.hostPubkey, row }] : [];
    }
    case 'KeyRotated':
      return rotated(event, rows);
    default:
      return [];
  }
}

function rotated(event: KeyRotated, rows: RowReader): RowChange[] {
  const { oldPubkey, newPubkey, seen, lineage: members, atMs } = event;
  const before = rows.get('enrolment', oldPubkey);
  if (!before) throw new Error('invariant: a key that was rotated is enrolled');
  const row: EnrolmentRow = {
    hostPubkey: newPubkey,
    ...enrolmentRecord(event),
    revokedAtMs: null,
    rotatedTo: null,
    seen,
  };
  return [
    { table: 'enrolment', key: oldPubkey, row: { ...before, revokedAtMs: atMs, rotatedTo: newPubkey } },
    { table: 'enrolment', key: newPubkey, row },
    { table: 'lineage', key: oldPubkey, row: null },
    { table: 'lineage', key: newPubkey, row: { members } },
  ];
}
