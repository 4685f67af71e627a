/**
 * The facts: the rows that one command needs, read through a `RowReader` that shows every command admitted before it,
 * durable or not. Synchronous: whatever needs a range was loaded before (see queue-index.ts and directory.ts).
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { type Limits, dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import type { Admissions } from './admissions.ts';
import type { AckItems, EnrolHost, ExpireItems, ExtendDedup, ReportLostItem, RotateKey } from './command.ts';
import type { Directory, Namesakes } from './directory.ts';
import { LOG_FORMAT } from './log-format.ts';
import type { Released } from './queue-index.ts';
import {
  EMPTY_TARGET,
  type EnrolmentRow,
  type InviteRow,
  type LineageMember,
  NO_USAGE,
  type QueueRow,
  type RelayRow,
  type RowReader,
  type SendersRow,
  type TargetRow,
  type UsageRow,
  rowKey,
} from './rows.ts';

/** The operator's settings. */
export interface RelaySettings {
  limits: Limits;
  /** Which hosts may enrol: all that the authority admits, or of those only hosts with an invite. */
  admission: 'open' | 'invite';
  enrolmentsMax: number;
  dedupRowsMax: number;
  /** What all mail may take of the disk, of which strangers have a part (mail-use.ts); absent: as the disk allows. */
  mailBudgetBytes?: number;
}

/** How facts are read: the rows, and whether a queued row's payload is there (checked for duplicates only). */
export interface FactSource extends RowReader {
  hasPayload(row: QueueRow): boolean;
}

/** A key of the sender and a key of a target under which an item may be known. */
export type KnownKeyPair = readonly [sender: PublicKey, target: PublicKey];

/** Pairs of one key of the sender. A target has up to 4,096 of them, too many to be listed one by one for each item. */
export type KnownKeyPairs = readonly [sender: PublicKey, targets: readonly PublicKey[]];

/** Of the pairs of these keys, those under which the item may be known. */
export type KnownPairs = (
  senders: readonly PublicKey[],
  targets: readonly PublicKey[],
  itemId: ItemId,
) => KnownKeyPairs[];

export function everyPair(senders: readonly PublicKey[], targets: readonly PublicKey[]): KnownKeyPairs[] {
  return senders.map((sender) => [sender, targets]);
}

export function* eachPair(pairs: readonly KnownKeyPairs[]): Generator<KnownKeyPair> {
  for (const [sender, targets] of pairs) for (const target of targets) yield [sender, target];
}

export function relayRow(rows: RowReader): RelayRow {
  const row = rows.get('relay', rowKey.relay);
  if (!row) throw new Error('invariant: the store is not initialised');
  return row;
}

export function targetRow(rows: RowReader, target: PublicKey): TargetRow {
  return rows.get('target', target) ?? EMPTY_TARGET;
}

/** The list that a host published, with the time at which it did so last. */
export function sendersRow(rows: RowReader, key: PublicKey): SendersRow | undefined {
  const row = rows.get('senders', key);
  const iatMs = Math.max(row?.iatMs ?? 0, rows.get('enrolment', key)?.sendersDatedMs ?? 0);
  return row && { ...row, iatMs };
}

/** The key that the host of this key has now. */
export function presentKey(rows: RowReader, key: PublicKey): PublicKey {
  let present = key;
  for (;;) {
    const next = rows.get('enrolment', present)?.rotatedTo;
    if (!next) return present;
    present = next;
  }
}

/**
 * The keys that rotations joined with this one and under which something may be known; the key alone when it never
 * rotated. The present one comes last. `Directory.keysOf` has those of before as well.
 */
export function lineageOf(rows: RowReader, key: PublicKey): readonly PublicKey[] {
  return lineageMembers(rows, key).map(({ hostPubkey }) => hostPubkey);
}

function lineageMembers(rows: RowReader, key: PublicKey): readonly LineageMember[] {
  const present = presentKey(rows, key);
  return rows.get('lineage', present)?.members ?? [{ hostPubkey: present, retiredAtMs: null }];
}

/**
 * What the account of a host is charged for: its queue, and what was counted under a key that it gave up when the row
 * was lost (a rotation moves what is there).
 */
export function chargedFor(rows: RowReader, directory: Directory, key: PublicKey): UsageRow {
  const charged: UsageRow = { ...NO_USAGE };
  for (const member of directory.keysOf(key)) {
    const { queueItems, queueBytes } = targetRow(rows, member);
    charged.items += queueItems;
    charged.bytes += queueBytes;
  }
  return charged;
}

export interface EnrolFacts {
  enrolment: EnrolmentRow | undefined;
  /** The proven accounts of the live enrolments of other keys that carry the name. */
  namesakeAccounts: Namesakes['accounts'];
  namesakes: number;
  liveEnrolments: number;
  enrolmentsMax: number;
  admission: RelaySettings['admission'];
  /** The invite that was brought, when it is open. */
  invite: InviteRow | undefined;
  logFormat: number;
  isDenied: boolean;
  /** The enrolment that gives way when there is no room, and what its account is charged for. */
  lapsing: { enrolment: EnrolmentRow; charged: UsageRow } | undefined;
  /** What an account of the host is charged for. */
  charged: UsageRow;
}

export function enrolFacts(
  command: EnrolHost,
  rows: RowReader,
  directory: Directory,
  admissions: Admissions,
  settings: RelaySettings,
  logFormat = LOG_FORMAT,
): EnrolFacts {
  const { hostPubkey, answer, inviteHash, nowMs } = command;
  const enrolment = rows.get('enrolment', hostPubkey);
  const namesakes = directory.namesakesOf(command.hostName, hostPubkey);
  const lapsing = directory.oldestUnused(nowMs);
  return {
    enrolment,
    namesakeAccounts: namesakes.accounts,
    namesakes: namesakes.count,
    liveEnrolments: directory.liveCount,
    enrolmentsMax: settings.enrolmentsMax,
    admission: settings.admission,
    invite: inviteHash && rows.get('invite', inviteHash),
    logFormat,
    isDenied: admissions.isDenied(
      {
        fingerprints: fingerprints(directory, hostPubkey),
        clientId: answer.clientId ?? enrolment?.clientId ?? null,
        account: answer.account ?? enrolment?.account ?? null,
        org: answer.org ?? enrolment?.org ?? null,
      },
      nowMs,
    ),
    lapsing: lapsing && { enrolment: lapsing, charged: chargedFor(rows, directory, lapsing.hostPubkey) },
    charged: chargedFor(rows, directory, hostPubkey),
  };
}

/** Fingerprints of every key of the host. */
export function fingerprints(directory: Directory, ...keys: readonly PublicKey[]): Set<Sha256Hex> {
  return new Set(keys.flatMap((key) => Array.from(directory.keysOf(key), hostFingerprint)));
}

/** Items of a queue and their wire bytes, and the notices, for which no quota is charged. */
export type Waiting = Pick<Released, 'items' | 'bytes' | 'notices'>;

export interface RotateFacts {
  old: EnrolmentRow | undefined;
  /** What the new key is enrolled as already. */
  replacing: EnrolmentRow | undefined;
  oldLineage: readonly LineageMember[];
  newLineage: readonly LineageMember[];
  /** How long after its last push something may be known under a key. */
  knownForMs: number;
  /** The proven accounts of the live enrolments that carry the old key's name, that of the new key left out. */
  namesakeAccounts: Namesakes['accounts'];
  isDenied: boolean;
  oldQueue: TargetRow;
  newQueue: TargetRow;
  /** What an account of the old key's host, and of the new key's, is charged for. */
  oldCharged: UsageRow;
  newCharged: UsageRow;
  /** What is in the old key's queue, counted item by item: one whose row was lost is not among them. */
  waiting: Waiting;
  oldSendersIatMs: number | undefined;
  newSendersIatMs: number | undefined;
}

export function rotateFacts(
  { oldPubkey, newPubkey, nowMs }: RotateKey,
  rows: RowReader,
  directory: Directory,
  admissions: Admissions,
  settings: RelaySettings,
  waiting: Waiting,
): RotateFacts {
  const old = rows.get('enrolment', oldPubkey);
  const replacing = rows.get('enrolment', newPubkey);
  const keys = fingerprints(directory, oldPubkey, newPubkey);
  const { limits } = settings;
  return {
    old,
    replacing,
    oldLineage: lineageMembers(rows, oldPubkey),
    newLineage: lineageMembers(rows, newPubkey),
    knownForMs: retentionMs(limits) + dedupHorizonMs(limits),
    namesakeAccounts: old ? directory.namesakesOf(old.hostName, newPubkey).accounts : new Set(),
    isDenied: [old, replacing].some((row) => row && admissions.isDenied({ ...row, fingerprints: keys }, nowMs)),
    oldQueue: targetRow(rows, oldPubkey),
    newQueue: targetRow(rows, newPubkey),
    oldCharged: chargedFor(rows, directory, oldPubkey),
    newCharged: chargedFor(rows, directory, newPubkey),
    waiting,
    oldSendersIatMs: sendersRow(rows, oldPubkey)?.iatMs,
    newSendersIatMs: sendersRow(rows, newPubkey)?.iatMs,
  };
}

export interface AckFacts {
  epoch: Epoch;
  queue: TargetRow;
  account: string | null;
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

export interface ExtendFacts {
  dedupHorizonMs: number;
  /** Of the rows asked for: those that still wait. */
  waiting: QueueRow[];
}

export function extendFacts(command: ExtendDedup, rows: RowReader, settings: RelaySettings): ExtendFacts {
  const { targetPubkey, seqs } = command;
  const { ackedThrough } = targetRow(rows, targetPubkey);
  const waiting = seqs.flatMap((seq) =>
    seq > ackedThrough ? (rows.get('queue', rowKey.queue(targetPubkey, seq)) ?? []) : [],
  );
  return { dedupHorizonMs: dedupHorizonMs(settings.limits), waiting };
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
  /** The live key of each sender, which gets the notice, and its queue's head; absent when it is no host any more. */
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
    const key = presentKey(rows, senderPubkey);
    if (rows.get('enrolment', key)?.revokedAtMs === null)
      tellAt.set(senderPubkey, { key, headSeq: targetRow(rows, key).headSeq });
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
