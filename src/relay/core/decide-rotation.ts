/**
 * Decides whether a host goes on under another key, and brings its queue over.
 *
 * Invariants ("POST /v2/relay/rotate"):
 *   - name, account, queue and sender list follow the host, and the old key is revoked for good;
 *   - the old queue comes after the new key's own, in its order, at sequence numbers that neither key ever gave;
 *   - the same rotation again changes nothing, a circle is refused, and a revoked key never comes back.
 *
 * The rotation is one event whatever waits; the items follow in events of `MOVED_AT_ONCE`, and commands for either key
 * wait until the last of them (engine/queues.ts).
 */
import { ISSUED_AHEAD_MAX_MS, dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { MoveItems, RotateKey } from './command.ts';
import {
  type Decided,
  type Done,
  type HostFacts,
  type Refusal,
  type RotateOutcome,
  accountOf,
  chargedFor,
  decisionOf,
  fingerprints,
  issuedAhead,
  lineageMembers,
  lineageOf,
  notAdmitted,
  refusal,
  sendersRow,
  targetRow,
} from './decision.ts';
import type { AccountCharge, KeyRotated } from './event.ts';
import type { Released } from './queue-index.ts';
import type { EnrolmentRow, LineageMember, MoveRow, UsageRow } from './rows.ts';

/** Items that one event moves: each is read and written several times. */
export const MOVED_AT_ONCE = 100;
/** Keys of one host. The oldest are dropped for new ones when nothing can be known under them any more. */
export const LINEAGE_KEYS_MAX = 64;

/** Items of a queue and their wire bytes, and the notices, for which no quota is charged. */
export type Waiting = Pick<Released, 'items' | 'bytes' | 'notices'>;

/** `waiting`: what is in the old key's queue, counted item by item; one whose row was lost is not among them. */
export function decideRotate(command: RotateKey, facts: HostFacts, waiting: Waiting): Decided<RotateOutcome> | Refusal {
  const { oldPubkey, newPubkey, iatMs, nowMs } = command;
  const { rows, directory, admissions } = facts;
  const old = rows.get('enrolment', oldPubkey);
  const replacing = rows.get('enrolment', newPubkey);
  const newHeadSeq = targetRow(rows, newPubkey).headSeq;
  if (!old) return refusal('NOT_ENROLLED', 'not enrolled');
  if (old.rotatedTo === newPubkey) {
    return decisionOf({ type: 'KeyRotated', hostPubkey: newPubkey, movedItems: 0, headSeq: newHeadSeq });
  }
  if (old.revokedAtMs !== null) return notAdmitted('the old key is revoked');
  if (iatMs > nowMs + ISSUED_AHEAD_MAX_MS) return issuedAhead();
  if (lineageOf(rows, oldPubkey).includes(newPubkey)) return notAdmitted('the host had this key before');
  if (replacing && replacing.revokedAtMs !== null) return notAdmitted('the new key is revoked');
  if (replacing?.account && old.account && replacing.account !== old.account) {
    return notAdmitted('the keys belong to different accounts');
  }
  const keys = fingerprints(directory, oldPubkey, newPubkey);
  const isDenied = [old, replacing].some((row) => row && admissions.isDenied({ ...row, fingerprints: keys }, nowMs));
  if (isDenied) return notAdmitted('the host is on the deny-list');
  const event = keyRotated(command, old, facts, waiting);
  if (event.lineage.length > LINEAGE_KEYS_MAX) return notAdmitted('the host changed its key too often');
  const { moved, firstSeq } = event;
  const headSeq = moved > 0 ? firstSeq + moved - 1 : newHeadSeq;
  return decisionOf({ type: 'KeyRotated', hostPubkey: newPubkey, movedItems: moved, headSeq }, event);
}

/** Makes the event of a rotation of `old`, whether or not the rotation may be. */
export function keyRotated(
  command: RotateKey,
  old: EnrolmentRow,
  facts: HostFacts,
  { items, bytes, notices }: Waiting,
): KeyRotated {
  const { oldPubkey, newPubkey, iatMs, signed, nowMs } = command;
  const { rows } = facts;
  const replacing = rows.get('enrolment', newPubkey);
  const firstSeq = Math.max(targetRow(rows, oldPubkey).headSeq + 1, targetRow(rows, newPubkey).headSeq + 1, nowMs);
  const proven = provenOf(old, replacing);
  const [oldSendersMs, newSendersMs] = [oldPubkey, newPubkey].map((key) => sendersRow(rows, key)?.iatMs ?? -1);
  return {
    type: 'KeyRotated',
    oldPubkey,
    newPubkey,
    iatMs,
    hostName: isNameFree(old, newPubkey, proven.account, facts) ? old.hostName : (replacing ?? old).hostName,
    ownerFp: (replacing ?? old).ownerFp,
    ...proven,
    enrolledAtMs: replacing?.enrolledAtMs ?? nowMs,
    seen: old.seen || replacing?.seen === true,
    lineage: joinedLineage(command, facts),
    movesSenders: (oldSendersMs ?? -1) > (newSendersMs ?? -1),
    firstSeq,
    moved: items + notices,
    items,
    bytes,
    charges: charges(command, old.account, proven.account, facts),
    signed,
    atMs: nowMs,
  };
}

/** The next slice of a queue that is on its way; rows that are gone from it are not waited for. */
export function decideMove({ oldPubkey, fromSeqs, nowMs }: MoveItems, move: MoveRow): Decided<Done> {
  const { newPubkey, nextSeq, left } = move;
  return decisionOf(
    { type: 'Done' },
    {
      type: 'ItemsMoved',
      oldPubkey,
      newPubkey,
      fromSeqs,
      firstSeq: nextSeq,
      left: fromSeqs.length === 0 ? 0 : Math.max(0, left - fromSeqs.length),
      atMs: nowMs,
    },
  );
}

/** Oldest first. What nothing can be known under any more makes room. */
function joinedLineage({ oldPubkey, newPubkey, nowMs }: RotateKey, { rows, settings }: HostFacts): LineageMember[] {
  /** Something may be known under a key for so long after its last push. */
  const knownForMs = retentionMs(settings.limits) + dedupHorizonMs(settings.limits);
  const ofNew = lineageMembers(rows, newPubkey);
  const retired = [...lineageMembers(rows, oldPubkey), ...ofNew.filter(({ retiredAtMs }) => retiredAtMs !== null)]
    .map(({ hostPubkey, retiredAtMs }) => ({ hostPubkey, retiredAtMs: retiredAtMs ?? nowMs }))
    .toSorted((a, b) => a.retiredAtMs - b.retiredAtMs);
  let surplus = retired.length + 1 - LINEAGE_KEYS_MAX;
  const kept = retired.filter(({ retiredAtMs }) => surplus-- <= 0 || retiredAtMs + knownForMs > nowMs);
  return [...kept, { hostPubkey: newPubkey, retiredAtMs: null }];
}

type Proven = Pick<EnrolmentRow, 'account' | 'org' | 'clientId' | 'authorizedBy' | 'validUntilMs'>;

/** A proven account and its authority stay, whichever key had them; of two of one account the longer lived. */
function provenOf(old: EnrolmentRow, replacing: EnrolmentRow | undefined): Proven {
  const from = replacing && (old.account === null || outlives(replacing, old)) ? replacing : old;
  const { account, org, clientId, authorizedBy, validUntilMs } = from;
  return { account, org, clientId, authorizedBy, validUntilMs };
}

function outlives(replacing: EnrolmentRow, old: EnrolmentRow): boolean {
  if (replacing.account === null) return false;
  return (replacing.validUntilMs ?? Infinity) >= (old.validUntilMs ?? Infinity);
}

/** A name is unique inside a proven account: where another host of it has the name, the new key keeps its own. */
function isNameFree(
  old: EnrolmentRow,
  newPubkey: PublicKey,
  account: string | null,
  { directory }: HostFacts,
): boolean {
  return account === old.account || !directory.namesakesOf(old.hostName, newPubkey).accounts.has(account);
}

/** Charges the queue of each key to the account that the host has from now on. */
function charges(
  { oldPubkey, newPubkey }: RotateKey,
  oldAccount: string | null,
  account: string | null,
  { rows, directory }: HostFacts,
): AccountCharge[] {
  const list: AccountCharge[] = [];
  const charge = (of: string | null, sign: 1 | -1, { items, bytes }: UsageRow): void => {
    if (of !== null && items > 0) list.push({ account: of, items: sign * items, bytes: sign * bytes });
  };
  for (const [key, former] of [
    [oldPubkey, oldAccount],
    [newPubkey, accountOf(rows, newPubkey)],
  ] as const) {
    if (former === account) continue;
    const charged = chargedFor(rows, directory, key);
    charge(former, -1, charged);
    charge(account, 1, charged);
  }
  return list;
}
