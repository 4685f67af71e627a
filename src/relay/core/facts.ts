/**
 * The facts: the rows that one command needs, read through a `RowReader` that shows every command admitted before it,
 * durable or not. Synchronous: whatever needs a range was loaded before (see queue-index.ts and directory.ts).
 */
import type { Epoch } from '../../protocol/epoch.ts';
import { type Limits, dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import { type ItemId, foldHostName } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AckItems, EnrolHost, ExpireItems, PushItem, ReportLostItem } from './command.ts';
import type { Directory } from './directory.ts';
import type { Released } from './queue-index.ts';
import {
  type DedupRow,
  EMPTY_TARGET,
  type EnrolmentRow,
  NO_USAGE,
  type QueueRow,
  type RelayRow,
  type RowReader,
  type SendersRow,
  type TargetRow,
  type UsageRow,
  rowKey,
} from './rows.ts';

/** What the operator set. */
export interface RelaySettings {
  limits: Limits;
  enrolmentsMax: number;
  dedupRowsMax: number;
}

/** How facts are read: the rows, and whether a queued row's payload is there (checked for duplicates only). */
export interface FactSource extends RowReader {
  hasPayload(row: QueueRow): boolean;
}

export function relayRow(rows: RowReader): RelayRow {
  const row = rows.get('relay', rowKey.relay);
  if (!row) throw new Error('invariant: the store is not initialised');
  return row;
}

export function targetRow(rows: RowReader, target: PublicKey): TargetRow {
  return rows.get('target', target) ?? EMPTY_TARGET;
}

/** Every key that rotations joined with this one; the key alone when it never rotated. */
export function lineageOf(rows: RowReader, key: PublicKey): readonly PublicKey[] {
  return rows.get('lineage', key)?.members ?? [key];
}

export interface EnrolFacts {
  enrolment: EnrolmentRow | undefined;
  /** The proven accounts of the live enrolments of other keys that carry the name. */
  namesakeAccounts: ReadonlySet<string | null>;
  /** Live enrolments of other keys that carry the name. */
  namesakes: number;
  liveEnrolments: number;
  enrolmentsMax: number;
  /** The enrolment that gives way when there is no room, and what it has queued. */
  lapsing: { enrolment: EnrolmentRow; queue: TargetRow } | undefined;
  queue: TargetRow;
}

export function enrolFacts(
  command: EnrolHost,
  rows: RowReader,
  directory: Directory,
  settings: RelaySettings,
): EnrolFacts {
  const { hostPubkey } = command;
  const enrolment = rows.get('enrolment', hostPubkey);
  const namesakes = directory.liveByName(foldHostName(command.hostName)).filter((key) => key !== hostPubkey);
  const lapsing = directory.oldestUnused(command.nowMs);
  return {
    enrolment,
    namesakeAccounts: new Set(namesakes.map((key) => directory.get(key)?.account ?? null)),
    namesakes: namesakes.length,
    liveEnrolments: directory.liveCount,
    enrolmentsMax: settings.enrolmentsMax,
    lapsing: lapsing && { enrolment: lapsing, queue: targetRow(rows, lapsing.hostPubkey) },
    queue: targetRow(rows, hostPubkey),
  };
}

/** A (sender, item, target) that is known, over every key of both lineages. */
export interface KnownItem {
  row: DedupRow;
  /** Queued, but its row or payload is gone. */
  lost: boolean;
  /** The queue that should hold it. */
  queuedAt: PublicKey;
}

export interface PushTargetFacts {
  enrolment: EnrolmentRow | undefined;
  /** False when the target published a list that does not hold the sender. */
  acceptsSender: boolean;
  known: KnownItem[];
  queue: TargetRow;
  /** What the sender, under any of its keys, has queued there. */
  share: UsageRow;
  account: UsageRow;
}

export interface PushFacts {
  limits: Limits;
  retentionMs: number;
  dedupHorizonMs: number;
  /** Rows that the sender, under any of its keys, keeps in the dedup table. */
  dedupRows: number;
  dedupRowsMax: number;
  /** One for each target of the command, in its order. */
  targets: PushTargetFacts[];
}

export function pushFacts(command: PushItem, rows: FactSource, settings: RelaySettings): PushFacts {
  const senders = lineageOf(rows, command.senderPubkey);
  const { dedupPurgedMs } = relayRow(rows);
  const { limits } = settings;
  const { itemId, targets } = command.item;
  let dedupRows = 0;
  for (const sender of senders) dedupRows += rows.get('sender', sender)?.dedupRows ?? 0;
  return {
    limits,
    retentionMs: retentionMs(limits),
    dedupHorizonMs: dedupHorizonMs(limits),
    dedupRows,
    dedupRowsMax: settings.dedupRowsMax,
    // An item over these bounds is refused before any fact of a target is looked at.
    targets:
      targets.length > limits.max_targets
        ? []
        : targets.map(({ hostPubkey }) => pushTargetFacts(hostPubkey, senders, itemId, dedupPurgedMs, rows)),
  };
}

function pushTargetFacts(
  target: PublicKey,
  senders: readonly PublicKey[],
  itemId: ItemId,
  dedupPurgedMs: number,
  rows: FactSource,
): PushTargetFacts {
  const enrolment = rows.get('enrolment', target);
  const queue = targetRow(rows, target);
  const known: KnownItem[] = [];
  const share: UsageRow = { ...NO_USAGE };
  for (const sender of senders) {
    const used = rows.get('share', rowKey.share(target, sender));
    share.items += used?.items ?? 0;
    share.bytes += used?.bytes ?? 0;
    for (const member of lineageOf(rows, target)) {
      const row = rows.get('dedup', rowKey.dedup(sender, member, itemId));
      if (row && row.dedupUntilMs > dedupPurgedMs) known.push(knownItem(row, target, queue, rows));
    }
  }
  const account = enrolment?.account;
  return {
    enrolment,
    acceptsSender: isAcceptedSender(rows.get('senders', target), senders),
    known,
    queue,
    share,
    account: (account ? rows.get('account', account) : undefined) ?? NO_USAGE,
  };
}

/** A listed key admits the host that has it, under every key that rotations joined. */
function isAcceptedSender(list: SendersRow | undefined, senders: readonly PublicKey[]): boolean {
  return !list || senders.some((sender) => list.senders.includes(sender));
}

function knownItem(row: DedupRow, queuedAt: PublicKey, queue: TargetRow, rows: FactSource): KnownItem {
  if (row.expired || row.seq <= queue.ackedThrough) return { row, lost: false, queuedAt };
  const queued = rows.get('queue', rowKey.queue(queuedAt, row.seq));
  return { row, lost: !queued || !rows.hasPayload(queued), queuedAt };
}

export interface AckFacts {
  epoch: Epoch;
  queue: TargetRow;
  account: string | null;
  /** What lies at or below `through` and is not acked yet. */
  released: Released;
}

export function ackFacts(command: AckItems, rows: RowReader, released: Released): AckFacts {
  return {
    epoch: relayRow(rows).epoch,
    queue: targetRow(rows, command.targetPubkey),
    account: rows.get('enrolment', command.targetPubkey)?.account ?? null,
    released,
  };
}

export interface LostItemFacts {
  /** Absent when the item was acked, expired or reported meanwhile. */
  queued: QueueRow | undefined;
  account: string | null;
}

export function lostItemFacts(command: ReportLostItem, rows: RowReader): LostItemFacts {
  const { targetPubkey, seq } = command;
  const queued = rows.get('queue', rowKey.queue(targetPubkey, seq));
  return {
    queued: seq > targetRow(rows, targetPubkey).ackedThrough ? queued : undefined,
    account: rows.get('enrolment', targetPubkey)?.account ?? null,
  };
}

export interface ExpireFacts {
  relayPubkey: PublicKey;
  retentionMs: number;
  dedupHorizonMs: number;
  account: string | null;
  /** Of the rows asked for: those that still wait and are past their time, in order. */
  due: QueueRow[];
  /** The live key under which each sender is to be told, and the head of that queue; absent when it is no host any more. */
  tellAt: ReadonlyMap<PublicKey, { key: PublicKey; headSeq: number }>;
}

export function expireFacts(command: ExpireItems, rows: RowReader, settings: RelaySettings): ExpireFacts {
  const { targetPubkey, seqs, nowMs } = command;
  const { ackedThrough } = targetRow(rows, targetPubkey);
  const due = seqs.flatMap((seq) => {
    const row = seq > ackedThrough ? rows.get('queue', rowKey.queue(targetPubkey, seq)) : undefined;
    return row && row.expiresAtMs <= nowMs ? row : [];
  });
  const tellAt = new Map<PublicKey, { key: PublicKey; headSeq: number }>();
  for (const { senderPubkey } of due) {
    const key = lineageOf(rows, senderPubkey).findLast((member) => rows.get('enrolment', member)?.revokedAtMs === null);
    if (key) tellAt.set(senderPubkey, { key, headSeq: targetRow(rows, key).headSeq });
  }
  return {
    relayPubkey: relayRow(rows).relayPubkey,
    retentionMs: retentionMs(settings.limits),
    dedupHorizonMs: dedupHorizonMs(settings.limits),
    account: rows.get('enrolment', targetPubkey)?.account ?? null,
    due,
    tellAt,
  };
}
