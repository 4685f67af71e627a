/**
 * What an event does to the rows: the reducer of each projection in turn.
 *
 * The live commit, replay, rebuild and the tests all call this one function. Pure: `rows` shows the state before the
 * event; the changes are the state after it, and no key is changed twice in one answer.
 */
import type { LogEntry, RelayEvent } from './event.ts';
import { relayRow } from './facts.ts';
import { reduceDedup } from './reduce-dedup.ts';
import { reduceEnrolments } from './reduce-enrolments.ts';
import { reduceQueues } from './reduce-queues.ts';
import { reduceUsage } from './reduce-usage.ts';
import { type RowChange, rowKey, type RowReader } from './rows.ts';

export function reduce({ lsn, event }: LogEntry, rows: RowReader): RowChange[] {
  return [
    ...reduceRelay(event, rows),
    ...reduceEnrolments(event, rows),
    ...reduceAdmissions(event, rows),
    ...reducePublications(event, rows),
    ...reduceQueues(event, rows),
    ...reduceDedup(event, lsn, rows),
    ...reduceUsage(event, rows),
  ];
}

/** The relay row: which store this is and in which epoch; and the log of its restores. */
export function reduceRelay(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'RelayInitialised': {
      const { relayPubkey, epoch, schemaVersion, atMs } = event;
      const row = { relayPubkey, epoch, schemaVersion, initialisedAtMs: atMs, dedupPurgedMs: 0 };
      return [{ table: 'relay', key: rowKey.relay, row }];
    }
    case 'EpochRotated':
      return [{ table: 'relay', key: rowKey.relay, row: { ...relayRow(rows), epoch: event.epoch } }];
    case 'RelayRestored': {
      const { type: _type, earlier, ...restore } = event;
      return [...earlier, restore].map((row) => ({ table: 'restore', key: rowKey.restore(row), row }));
    }
    case 'SchemaMigrated': {
      const { schemaVersion } = event;
      return [{ table: 'relay', key: rowKey.relay, row: { ...relayRow(rows), schemaVersion } }];
    }
    case 'DedupPurged': {
      const before = relayRow(rows);
      const dedupPurgedMs = Math.max(before.dedupPurgedMs, event.beforeMs);
      return [{ table: 'relay', key: rowKey.relay, row: { ...before, dedupPurgedMs } }];
    }
    default:
      return [];
  }
}

/**
 * What hosts publish about themselves: the newest sender list and encryption key of each, and the records by which they
 * changed their keys.
 */
export function reducePublications(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'SendersPublished': {
      const { hostPubkey, senders, iatMs } = event;
      return [{ table: 'senders', key: hostPubkey, row: { senders, iatMs } }];
    }
    case 'SendersRenewed': {
      const { hostPubkey, iatMs } = event;
      const before = rows.get('senders', hostPubkey);
      if (!before) throw new Error('invariant: a list that is renewed was published');
      return [{ table: 'senders', key: hostPubkey, row: { ...before, iatMs } }];
    }
    case 'EncKeyPublished': {
      const { hostPubkey, encPub, advertisedAtMs, sig } = event;
      return [{ table: 'encKey', key: hostPubkey, row: { encPub, atMs: advertisedAtMs, sig } }];
    }
    case 'KeyRotated': {
      // The list follows its host. The encryption key does not: its advertisement names the old key.
      const { oldPubkey, newPubkey, movesSenders, signed } = event;
      const row = movesSenders ? rows.get('senders', oldPubkey) : undefined;
      return [
        { table: 'senders', key: oldPubkey, row: null },
        { table: 'encKey', key: oldPubkey, row: null },
        ...(row ? [{ table: 'senders', key: newPubkey, row } as const] : []),
        ...(signed ? [{ table: 'rotation', key: oldPubkey, row: signed } as const] : []),
      ];
    }
    default:
      return [];
  }
}

/** The deny entries and the open invites. */
function reduceAdmissions(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'DenyEntryAdded': {
      const { hostFp, clientId, account, org, reason, untilMs } = event;
      const key = rowKey.deny(event);
      // A repeated entry never ends sooner, whatever the clock did in between.
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
