/** The deny entries and the open invites. */
import type { RelayEvent } from './event.ts';
import { type RowChange, rowKey } from './rows.ts';

export function reduceAdmissions(event: RelayEvent): RowChange[] {
  switch (event.type) {
    case 'DenyEntryAdded': {
      const { hostFp, clientId, account, org, reason, untilMs } = event;
      const row = { hostFp, clientId, account, org, reason, untilMs };
      return [{ table: 'deny', key: rowKey.deny(event), row }];
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
