/** The deny entries and the open invites. */
import type { RelayEvent } from './event.ts';
import { type RowChange, type RowReader, rowKey } from './rows.ts';

export function reduceAdmissions(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'DenyEntryAdded': {
      const { hostFp, clientId, account, org, reason, untilMs } = event;
      const key = rowKey.deny(event);
      // The same word again never ends it sooner, whatever the clock did in between.
      const longest = Math.max(untilMs, rows.get('deny', key)?.untilMs ?? 0);
      return [{ table: 'deny', key, row: { hostFp, clientId, account, org, reason, untilMs: longest } }];
    }
    case 'InviteIssued': {
      const { inviteHash, label, expiresAtMs, atMs } = event;
      return [{ table: 'invite', key: inviteHash, row: { label, issuedAtMs: atMs, expiresAtMs } }];
    }
    case 'InviteSpent':
      return [{ table: 'invite', key: event.inviteHash, row: null }];
    case 'AdmissionsLapsed':
      return [
        ...event.denied.map((entry) => ({ table: 'deny', key: rowKey.deny(entry), row: null }) as const),
        ...event.invites.map((hash) => ({ table: 'invite', key: hash, row: null }) as const),
      ];
    default:
      return [];
  }
}
