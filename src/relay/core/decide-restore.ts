/**
 * Decides what a store that was made of a backup takes over from the store that it replaces.
 *
 * Invariants ("Restore and doubt", rule 1):
 *   - what was taken away stays away: revoked keys, denied hosts, spent invites, lapsed enrolments;
 *   - authority is never made: a host that enrolled after the backup has to enrol again;
 *   - a rotation is done again, so that no queue is left under a key that no host has;
 *   - no sequence number is given twice, and a newer statement of a host replaces an older one.
 *
 * All of it is events, decided in this order and in the epoch that the restore begins: the epoch of the backup ends
 * where the backup ended, and no reader ever sees two histories of it.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RotateKey } from './command.ts';
import { deniedHosts } from './decide-admission.ts';
import { lapsed } from './decide-enrolment.ts';
import { type Waiting, keyRotated } from './decide-rotation.ts';
import type { Directory } from './directory.ts';
import type { HostEnrolled, HostRevoked, RelayEvent, SeqFloor } from './event.ts';
import { type HostFacts, chargedFor, sendersRow, targetRow } from './decision.ts';
import {
  type DenyRow,
  type EncKeyRow,
  type EnrolmentRow,
  type RestoreRow,
  type RotationRow,
  type RowReader,
  type SendersRow,
  NEW_ENROLMENT,
  enrolmentRecord,
  rowKey,
} from './rows.ts';

/** Floors, and invites, that one event holds at most. */
const LISTED_AT_ONCE = 500;
/** Restores of the replaced store that are taken over, the newest. */
const RESTORES_KEPT = 1000;

/** The store that gives way, as far as it is read. */
export interface ReplacedStore {
  epoch: Epoch;
  lastLsn: number;
  /** True when the backup became this store: it holds the backup's last record, unaltered. */
  continuesBackup: boolean;
  enrolments: ReadonlyMap<PublicKey, EnrolmentRow>;
  senders: ReadonlyMap<PublicKey, SendersRow>;
  encKeys: ReadonlyMap<PublicKey, EncKeyRow>;
  /** By the key that was replaced. */
  rotations: ReadonlyMap<PublicKey, RotationRow>;
  denied: readonly DenyRow[];
  openInvites: ReadonlySet<string>;
  /** The last sequence number of every target. */
  heads: ReadonlyMap<PublicKey, number>;
  restores: readonly RestoreRow[];
}

/** Make this store the one that serves. */
interface RestoreRelay {
  epoch: Epoch;
  backupEpoch: Epoch;
  backupLsn: number;
  backupCreatedAtMs: number;
  nowMs: number;
}

/** The store as the backup has it, and as the events before have made it. */
interface RestoredRows {
  rows: RowReader;
  directory: Directory;
}

export function decideRestore(
  { nowMs: atMs, ...restore }: RestoreRelay,
  replaced: ReplacedStore | undefined,
  rows: RowReader,
): RelayEvent[] {
  const unknown = (replaced?.restores ?? []).filter((row) => !rows.get('restore', rowKey.restore(row)));
  return [
    { type: 'EpochRotated', epoch: restore.epoch, reason: 'restore', atMs },
    {
      type: 'RelayRestored',
      ...restore,
      replacedEpoch: replaced?.epoch ?? null,
      replacedLsn: replaced?.lastLsn ?? null,
      earlier: unknown.toSorted((a, b) => a.atMs - b.atMs).slice(-RESTORES_KEPT),
      atMs,
    },
  ];
}

/** Raises the floors of sequence numbers: none that the replaced store gave is given again, whatever the clock says. */
export function decideSeqFloors(replaced: ReplacedStore, rows: RowReader, atMs: number): RelayEvent[] {
  const floors: SeqFloor[] = [];
  for (const [targetPubkey, headSeq] of replaced.heads) {
    if (headSeq > targetRow(rows, targetPubkey).headSeq) floors.push({ targetPubkey, headSeq });
  }
  return slices(floors).map((slice) => ({ type: 'SeqFloorsRaised', floors: slice, atMs }));
}

export interface RotatedRow extends EnrolmentRow {
  revokedAtMs: number;
  rotatedTo: PublicKey;
}

/** The rotated keys of the replaced store, each after those that were rotated into it. */
export function rotationsInOrder({ enrolments }: ReplacedStore): RotatedRow[] {
  const rotated = [...enrolments.values()].filter(isRotated).toSorted((a, b) => a.revokedAtMs - b.revokedAtMs);
  const waitsFor = new Map<PublicKey, number>();
  for (const { rotatedTo } of rotated) waitsFor.set(rotatedTo, (waitsFor.get(rotatedTo) ?? 0) + 1);
  const ready = rotated.filter(({ hostPubkey }) => !waitsFor.has(hostPubkey));
  for (const { rotatedTo } of ready) {
    const left = (waitsFor.get(rotatedTo) ?? 0) - 1;
    waitsFor.set(rotatedTo, left);
    const next = enrolments.get(rotatedTo);
    // Appended while it is walked: a chain follows its beginning.
    if (left === 0 && next && isRotated(next)) ready.push(next);
  }
  return ready;
}

/** A rotation revokes the old key in the same event. */
function isRotated(row: EnrolmentRow): row is RotatedRow {
  return row.rotatedTo !== null;
}

/**
 * One rotation again, over the restored rows. Both keys signed it once, so neither the deny-list nor the clock is
 * asked. Where the restored store knows the old key as live, its queue, name and authority go on under the new one.
 * Where it never knew it, only the two keys are joined: the new one has to enrol by itself. In another history the keys
 * may have gone the other way: then the new one is revoked here.
 */
export function decidePreservedRotation(
  gone: RotatedRow,
  signed: RotationRow | null,
  facts: HostFacts,
  waiting: Waiting,
  nowMs: number,
): RelayEvent[] {
  const { hostPubkey: oldPubkey, rotatedTo: newPubkey, revokedAtMs: iatMs } = gone;
  const known = facts.rows.get('enrolment', oldPubkey);
  const replacing = facts.rows.get('enrolment', newPubkey);
  const old = known ?? withoutAuthority(gone);
  const isPossible = old.revokedAtMs === null && (replacing?.revokedAtMs ?? null) === null;
  if (!isPossible) return [];
  const command: RotateKey = { type: 'RotateKey', oldPubkey, newPubkey, iatMs, signed, nowMs };
  const rotated = keyRotated(command, old, facts, waiting);
  if (known) return [rotated];
  const joined = [enrolmentEvent(old, nowMs), rotated];
  if (replacing) return joined;
  return [
    ...joined,
    { type: 'EnrolmentLapsed', hostPubkey: newPubkey, account: null, releasedItems: 0, releasedBytes: 0, atMs: nowMs },
  ];
}

/** Every key that the replaced store knew as revoked or rotated. */
export function decidePreservedRevocations(replaced: ReplacedStore, rows: RowReader, atMs: number): RelayEvent[] {
  const events: RelayEvent[] = [];
  for (const gone of replaced.enrolments.values()) {
    if (gone.revokedAtMs === null) continue;
    const row = rows.get('enrolment', gone.hostPubkey);
    if (row && row.revokedAtMs !== null) continue;
    // A key that is not known could enrol as any other. It has no account here: the account was never charged for what
    // the backup may have in its queue, and would be released of it when that is acked or expires.
    if (!row) events.push(enrolmentEvent(withoutAuthority(gone), atMs));
    events.push(revocationEvent(gone.hostPubkey, 'carried', atMs));
  }
  return events;
}

/**
 * An enrolment that was never used gives way when the relay is full. One of the backup that the replaced store no
 * longer has gave way there, so it lapses here too. A replaced store of another history tells nothing of the backup's
 * hosts.
 */
export function decidePreservedLapses(
  replaced: ReplacedStore,
  { rows, directory }: RestoredRows,
  atMs: number,
): RelayEvent[] {
  if (!replaced.continuesBackup) return [];
  return [...directory.all()]
    .filter((row) => row.revokedAtMs === null && !row.seen && !replaced.enrolments.has(row.hostPubkey))
    .map((enrolment) => lapsed(enrolment, chargedFor(rows, directory, enrolment.hostPubkey), atMs));
}

/** All of them, also those whose time has passed by a clock that may be wrong: a sweep forgets those. */
export function decidePreservedDenials(replaced: ReplacedStore, rows: RowReader, atMs: number): RelayEvent[] {
  return replaced.denied.flatMap(({ hostFp, clientId, account, org, reason, untilMs }): RelayEvent[] => {
    const selectors = { hostFp, clientId, account, org };
    const known = rows.get('deny', rowKey.deny(selectors));
    if (known && known.untilMs >= untilMs) return [];
    return [{ type: 'DenyEntryAdded', ...selectors, reason, untilMs, atMs }];
  });
}

/** The live hosts that deny entries of the replaced store mean. */
export function decideDeniedHosts(
  replaced: ReplacedStore,
  { rows, directory }: RestoredRows,
  atMs: number,
): RelayEvent[] {
  const keys = new Set(
    replaced.denied
      .filter(({ untilMs }) => untilMs > atMs)
      .flatMap((entry) => deniedHosts(entry, rows, directory))
      .map(({ hostPubkey }) => hostPubkey),
  );
  return [...keys].map((key) => revocationEvent(key, 'denied', atMs));
}

/** An invite of the backup may have been used since, unless the replaced store says that it is open. */
export function decideSpentInvites(
  replaced: ReplacedStore | undefined,
  openInvites: readonly Sha256Hex[],
  atMs: number,
): RelayEvent[] {
  const spent = openInvites.filter((invite) => !replaced?.openInvites.has(invite));
  return slices(spent).map((invites) => ({ type: 'AdmissionsLapsed', denied: [], invites, atMs }));
}

/** The newer sender lists and advertisements, also of hosts that have yet to enrol again: neither admits a host. */
export function decidePreservedStatements(replaced: ReplacedStore, rows: RowReader, atMs: number): RelayEvent[] {
  const events: RelayEvent[] = [];
  for (const [hostPubkey, { senders, ...list }] of replaced.senders) {
    const iatMs = Math.max(list.iatMs, replaced.enrolments.get(hostPubkey)?.sendersDatedMs ?? 0);
    const known = sendersRow(rows, hostPubkey);
    if (!known || known.iatMs < iatMs) events.push({ type: 'SendersPublished', hostPubkey, senders, iatMs, atMs });
  }
  for (const [hostPubkey, { encPub, atMs: advertisedAtMs, sig }] of replaced.encKeys) {
    const known = rows.get('encKey', hostPubkey);
    if (known && known.atMs >= advertisedAtMs) continue;
    events.push({ type: 'EncKeyPublished', hostPubkey, encPub, advertisedAtMs, sig, atMs });
  }
  return events;
}

function withoutAuthority(row: EnrolmentRow): EnrolmentRow {
  const none = { account: null, org: null, clientId: null, authorizedBy: 'host-key', validUntilMs: null } as const;
  return { ...row, ...none, ...NEW_ENROLMENT };
}

/** A key as the replaced store had it, so that it can be revoked. */
function enrolmentEvent(row: EnrolmentRow, atMs: number): HostEnrolled {
  const { hostPubkey } = row;
  const uncharged = { formerAccount: null, chargedItems: 0, chargedBytes: 0 };
  return { type: 'HostEnrolled', hostPubkey, ...enrolmentRecord(row), ...uncharged, atMs };
}

function revocationEvent(hostPubkey: PublicKey, cause: HostRevoked['cause'], atMs: number): HostRevoked {
  return { type: 'HostRevoked', hostPubkey, cause, atMs };
}

function slices<T>(list: readonly T[]): T[][] {
  const all: T[][] = [];
  for (let from = 0; from < list.length; from += LISTED_AT_ONCE) all.push(list.slice(from, from + LISTED_AT_ONCE));
  return all;
}
