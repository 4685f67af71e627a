/**
 * Applies an event to the rows: the reducer of each projection in turn.
 *
 * The live commit, replay, rebuild and the tests all call this one function. Pure: `rows` shows the state before the
 * event; the changes are the state after it, and no key is changed twice in one answer.
 */
import type { LogEntry, RelayEvent, DedupExtended, ItemsExpired, ItemsMoved, KeyRotated } from './event.ts';
import { BrokenQueue, queueOf, relayRow } from './decision.ts';
import { reduceQueues, movedRow } from './reduce-queues.ts';
import {
  type RowChange,
  rowKey,
  type RowReader,
  type TableName,
  type Tables,
  type DedupRow,
  type EnrolmentRow,
  enrolmentRecord,
  NEW_ENROLMENT,
  NO_USAGE,
} from './rows.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

export function reduce({ lsn, event }: LogEntry, stored: RowReader, half?: Half): RowChange[] {
  // Three reducers ask for each row that is moved.
  const rows = event.type === 'ItemsMoved' ? new QueueRowsOnce(stored) : stored;
  if (half === 'known') return reduceRelay(event, rows).concat(reduceDedup(event, lsn, rows));
  return reduceRelay(event, rows).concat(
    reduceEnrolments(event, rows),
    reduceAdmissions(event, rows),
    reducePublications(event, rows),
    reduceQueues(event, rows),
    half ? [] : reduceDedup(event, lsn, rows),
    reduceUsage(event, rows),
  );
}

/** Asks the store for each queue row once: the store decodes a row at each call. */
class QueueRowsOnce implements RowReader {
  readonly #rows: RowReader;
  readonly #read = new Map<string, Tables['queue'] | undefined>();

  constructor(rows: RowReader) {
    this.#rows = rows;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    if (table !== 'queue') return this.#rows.get(table, key);
    if (!this.#read.has(key)) this.#read.set(key, this.#rows.get('queue', key));
    return this.#read.get(key) as Tables[T] | undefined;
  }
}

/**
 * Two threads may each reduce one half of the rows: which items are known (dedup rows, and how many of them each sender
 * keeps), and the others. Both have the relay row. No reducer asks the other half for a row, but for one: which item it
 * was that a rotation moved, only its queue row says.
 */
export type Half = 'known' | 'others';

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
 * Reduces what hosts publish about themselves: the newest sender list and encryption key of each, and the records by
 * which they changed their keys.
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

/** The dedup rows, and how many of them each sender key keeps. */
export function reduceDedup(event: RelayEvent, lsn: number, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'ItemAccepted': {
      const { senderPubkey, itemId, acceptedAtMs, dedupUntilMs, targets } = event;
      const changes = targets.map(({ hostPubkey, wireHash, seq, bytes }): RowChange => {
        const row: DedupRow = {
          senderPubkey,
          itemId,
          targetPubkey: hostPubkey,
          wireHash,
          seq,
          bytes,
          acceptedAtMs,
          dedupUntilMs,
          queuedTarget: hostPubkey,
          queuedSeq: seq,
          lsn,
          expired: false,
        };
        return { table: 'dedup', key: rowKey.dedup(senderPubkey, hostPubkey, itemId), row };
      });
      return [...changes, ...countDedupRows(rows, senderPubkey, targets.length)];
    }
    case 'ItemsExpired':
      return extendDedup(event, { expired: true }, rows);
    case 'DedupExtended':
      return extendDedup(event, {}, rows);
    case 'ItemsMoved':
      return event.fromSeqs.flatMap((fromSeq, position) => dedupMoved(event, fromSeq, event.firstSeq + position, rows));
    case 'DedupPurged':
      return event.senders.flatMap(({ senderPubkey, rows: count }) => countDedupRows(rows, senderPubkey, -count));
    case 'ItemLost': {
      if (event.kind === 'expired') return [];
      const { senderPubkey, pushedTo, itemId } = event;
      const key = rowKey.dedup(senderPubkey, pushedTo, itemId);
      return [{ table: 'dedup', key, row: null }, ...countDedupRows(rows, senderPubkey, -1)];
    }
    default:
      return [];
  }
}

/** The rows of these items, as far as there are any, stay until the event says or longer. */
function extendDedup(
  { items, dedupUntilMs }: ItemsExpired | DedupExtended,
  changes: Partial<DedupRow>,
  rows: RowReader,
): RowChange[] {
  return items.flatMap(({ senderPubkey, pushedTo, itemId }): RowChange[] => {
    const key = rowKey.dedup(senderPubkey, pushedTo, itemId);
    const before = rows.get('dedup', key);
    if (!before) return [];
    const untilMs = Math.max(before.dedupUntilMs, dedupUntilMs);
    return [{ table: 'dedup', key, row: { ...before, ...changes, dedupUntilMs: untilMs } }];
  });
}

/** The row stays where it is and says where the item went. Of a notice there is none. */
function dedupMoved(
  { oldPubkey, newPubkey }: ItemsMoved,
  fromSeq: number,
  queuedSeq: number,
  rows: RowReader,
): RowChange[] {
  const queued = movedRow(rows, oldPubkey, fromSeq);
  const key = rowKey.dedup(queued.senderPubkey, queued.payloadTarget, queued.itemId);
  const row = rows.get('dedup', key);
  if (row?.queuedTarget !== oldPubkey || row.queuedSeq !== fromSeq) return [];
  return [{ table: 'dedup', key, row: { ...row, queuedTarget: newPubkey, queuedSeq } }];
}

function countDedupRows(rows: RowReader, sender: DedupRow['senderPubkey'], change: number): RowChange[] {
  const dedupRows = (rows.get('sender', sender)?.dedupRows ?? 0) + change;
  return [{ table: 'sender', key: sender, row: dedupRows > 0 ? { dedupRows } : null }];
}

/** The enrolment rows: which keys are admitted, under what name and authority, and which of them are one host. */
export function reduceEnrolments(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'HostEnrolled': {
      const { hostPubkey } = event;
      const before = rows.get('enrolment', hostPubkey);
      const row: EnrolmentRow = {
        ...NEW_ENROLMENT,
        ...before,
        hostPubkey,
        ...enrolmentRecord(event),
      };
      return [{ table: 'enrolment', key: hostPubkey, row }];
    }
    case 'HostSeen':
      return noteOnEnrolment(event.hostPubkey, { seen: true }, rows);
    case 'V2HopMade':
      return noteOnEnrolment(event.hostPubkey, { seen: true, madeV2Hop: true }, rows);
    case 'SendersDated':
      return noteOnEnrolment(event.hostPubkey, { sendersDatedMs: event.iatMs }, rows);
    case 'InviteSpent':
      return noteOnEnrolment(event.hostPubkey, { invited: true }, rows);
    case 'EnrolmentLapsed':
      return [{ table: 'enrolment', key: event.hostPubkey, row: null }];
    case 'HostRevoked':
      return noteOnEnrolment(event.hostPubkey, { revokedAtMs: event.atMs }, rows);
    case 'KeyRotated':
      return reduceRotation(event, rows);
    default:
      return [];
  }
}

/** The enrolment, where there still is one, with what the event says of it. */
function noteOnEnrolment(hostPubkey: PublicKey, changes: Partial<EnrolmentRow>, rows: RowReader): RowChange[] {
  const before = rows.get('enrolment', hostPubkey);
  return before ? [{ table: 'enrolment', key: hostPubkey, row: { ...before, ...changes } }] : [];
}

function reduceRotation(event: KeyRotated, rows: RowReader): RowChange[] {
  const { oldPubkey, newPubkey, seen, lineage: members, atMs } = event;
  const before = rows.get('enrolment', oldPubkey);
  if (!before) throw new Error('invariant: a key that was rotated is enrolled');
  const replacing = rows.get('enrolment', newPubkey);
  const row: EnrolmentRow = {
    ...NEW_ENROLMENT,
    hostPubkey: newPubkey,
    ...enrolmentRecord(event),
    seen,
    madeV2Hop: before.madeV2Hop || replacing?.madeV2Hop === true,
    invited: before.invited || replacing?.invited === true,
    sendersDatedMs: (event.movesSenders ? before : replacing)?.sendersDatedMs ?? null,
  };
  return [
    { table: 'enrolment', key: oldPubkey, row: { ...before, revokedAtMs: atMs, rotatedTo: newPubkey } },
    { table: 'enrolment', key: newPubkey, row },
    { table: 'lineage', key: oldPubkey, row: null },
    { table: 'lineage', key: newPubkey, row: { members } },
  ];
}

/**
 * Usage, against which quotas are held: of each sender at each target, and of each proven account.
 *
 * Invariants: a share is the sum over the queue rows of that sender at that target; an account is the sum of
 * `queueItems` and `queueBytes` over every key of its hosts. A row of zero is deleted; where one would fall below zero,
 * the queue that the event is about is broken.
 */
export function reduceUsage(event: RelayEvent, rows: RowReader): RowChange[] {
  const usage = new UsageChanges(rows, queueOf(event));
  switch (event.type) {
    case 'ItemAccepted':
      for (const { hostPubkey, bytes } of event.targets) {
        usage.add('share', rowKey.share(hostPubkey, event.senderPubkey), 1, bytes);
        usage.add('account', rows.get('enrolment', hostPubkey)?.account ?? null, 1, bytes);
      }
      break;
    case 'ItemsAcked':
      for (const { senderPubkey, items, bytes } of event.shares) {
        usage.add('share', rowKey.share(event.targetPubkey, senderPubkey), -items, -bytes);
      }
      usage.add('account', event.account, -event.items, -event.bytes);
      break;
    case 'ItemsExpired':
      for (const { kind, senderPubkey, bytes } of event.items) {
        if (kind === 'expired') continue;
        usage.add('share', rowKey.share(event.targetPubkey, senderPubkey), -1, -bytes);
        usage.add('account', event.account, -1, -bytes);
      }
      break;
    case 'ItemLost':
      if (event.kind === 'expired') break;
      usage.add('share', rowKey.share(event.targetPubkey, event.senderPubkey), -1, -event.bytes);
      usage.add('account', event.account, -1, -event.bytes);
      break;
    case 'KeyRotated':
      for (const { account, items, bytes } of event.charges) usage.add('account', account, items, bytes);
      break;
    case 'ItemsMoved':
      for (const fromSeq of event.fromSeqs) {
        const { kind, senderPubkey, bytes } = movedRow(rows, event.oldPubkey, fromSeq);
        if (kind === 'expired') continue;
        usage.add('share', rowKey.share(event.oldPubkey, senderPubkey), -1, -bytes);
        usage.add('share', rowKey.share(event.newPubkey, senderPubkey), 1, bytes);
      }
      break;
    case 'HostEnrolled':
      usage.add('account', event.formerAccount, -event.chargedItems, -event.chargedBytes);
      usage.add('account', event.account, event.chargedItems, event.chargedBytes);
      break;
    case 'EnrolmentLapsed':
      usage.add('account', event.account, -event.releasedItems, -event.releasedBytes);
      break;
    default:
  }
  return usage.changes();
}

/** Sums the changes of one event, which may touch one account through several targets. */
class UsageChanges {
  readonly #rows: RowReader;
  readonly #queue: PublicKey | undefined;
  readonly #changed = new Map<string, RowChange & { table: 'share' | 'account' }>();

  constructor(rows: RowReader, queue: PublicKey | undefined) {
    this.#rows = rows;
    this.#queue = queue;
  }

  add(table: 'share' | 'account', key: string | null, items: number, bytes: number): void {
    if (key === null || (items === 0 && bytes === 0)) return;
    // No key of a share begins with a space.
    const mark = table === 'share' ? key : ` ${key}`;
    const changed = this.#changed.get(mark);
    const before = (changed ? changed.row : this.#rows.get(table, key)) ?? NO_USAGE;
    const after = { items: before.items + items, bytes: before.bytes + bytes };
    if (after.items < 0 || after.bytes < 0) throw this.#belowZero();
    this.#changed.set(mark, { table, key, row: after.items === 0 && after.bytes === 0 ? null : after });
  }

  changes(): RowChange[] {
    return Array.from(this.#changed.values());
  }

  #belowZero(): Error {
    const what = 'invariant: usage never falls below zero';
    return this.#queue === undefined ? new Error(what) : new BrokenQueue(this.#queue, what);
  }
}
