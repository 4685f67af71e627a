/**
 * Decides whether a host goes on under another key, and brings its queue over.
 *
 * Invariants ("POST /v2/relay/rotate"):
 *   - name, account, queue and sender list follow the host, and the old key is revoked for good;
 *   - the old queue comes after the new key's own, in its order, at sequence numbers that neither key ever gave;
 *   - the same rotation again changes nothing, a circle is refused, and a revoked key never comes back.
 *
 * The rotation is one event whatever waits; the items follow in events of `MOVED_AT_ONCE`, and commands for either key
 * wait until the last of them (engine/queue-migrations.ts).
 */
import { ISSUED_AHEAD_MAX_MS } from '../../protocol/limits.ts';
import type { MoveItems, RotateKey } from './command.ts';
import { type Decided, type Done, type Refusal, type RotateOutcome, decided, refusal } from './decision.ts';
import type { AccountCharge, KeyRotated } from './event.ts';
import type { RotateFacts } from './facts.ts';
import type { EnrolmentRow, LineageMember, MoveRow, UsageRow } from './rows.ts';

/** Items that one event moves: each is read and written several times. */
export const MOVED_AT_ONCE = 100;
/** Keys of one host. The oldest are dropped for new ones when nothing can be known under them any more. */
export const LINEAGE_KEYS_MAX = 64;

export function decideRotate(command: RotateKey, facts: RotateFacts): Decided<RotateOutcome> | Refusal {
  const { newPubkey, iatMs, nowMs } = command;
  const { old, replacing, newQueue } = facts;
  if (!old) return refusal('NOT_ENROLLED', 'not enrolled');
  if (old.rotatedTo === newPubkey) {
    return decided({ type: 'KeyRotated', hostPubkey: newPubkey, movedItems: 0, headSeq: newQueue.headSeq });
  }
  if (old.revokedAtMs !== null) return refused('the old key is revoked');
  if (iatMs > nowMs + ISSUED_AHEAD_MAX_MS) {
    return refusal('IAT_IN_FUTURE', 'issued more than 5 minutes ahead of the clock of this relay');
  }
  if (facts.oldLineage.some(({ hostPubkey }) => hostPubkey === newPubkey))
    return refused('the host had this key before');
  if (replacing && replacing.revokedAtMs !== null) return refused('the new key is revoked');
  if (replacing?.account && old.account && replacing.account !== old.account) {
    return refused('the keys belong to different accounts');
  }
  if (facts.isDenied) return refused('the host is on the deny-list');
  const event = keyRotated(command, old, facts);
  if (event.lineage.length > LINEAGE_KEYS_MAX) return refused('the host changed its key too often');
  const { moved, firstSeq } = event;
  const headSeq = moved > 0 ? firstSeq + moved - 1 : newQueue.headSeq;
  return decided({ type: 'KeyRotated', hostPubkey: newPubkey, movedItems: moved, headSeq }, event);
}

/** What the rotation of `old` makes of both keys, whether or not it may be. */
export function keyRotated(command: RotateKey, old: EnrolmentRow, facts: RotateFacts): KeyRotated {
  const { oldPubkey, newPubkey, iatMs, signed, nowMs } = command;
  const { replacing, oldQueue, newQueue } = facts;
  const firstSeq = Math.max(oldQueue.headSeq + 1, newQueue.headSeq + 1, nowMs);
  const { items, bytes, notices } = facts.waiting;
  const proven = provenOf(old, replacing);
  return {
    type: 'KeyRotated',
    oldPubkey,
    newPubkey,
    iatMs,
    hostName: isNameFree(old, proven.account, facts) ? old.hostName : (replacing ?? old).hostName,
    ownerFp: (replacing ?? old).ownerFp,
    ...proven,
    enrolledAtMs: replacing?.enrolledAtMs ?? nowMs,
    seen: old.seen || replacing?.seen === true,
    lineage: joinedLineage(command, facts),
    movesSenders: (facts.oldSendersIatMs ?? -1) > (facts.newSendersIatMs ?? -1),
    firstSeq,
    moved: items + notices,
    items,
    bytes,
    charges: charges(old.account, replacing?.account ?? null, proven.account, facts),
    signed,
    atMs: nowMs,
  };
}

/** The next slice of a queue that is on its way; rows that are gone from it are not waited for. */
export function decideMove({ oldPubkey, fromSeqs, nowMs }: MoveItems, move: MoveRow): Decided<Done> {
  const { newPubkey, nextSeq, left } = move;
  return decided(
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

function refused(reason: string): Refusal {
  return refusal('ENROL_REFUSED', reason, { reason });
}

/** Oldest first. What nothing can be known under any more makes room. */
function joinedLineage({ newPubkey, nowMs }: RotateKey, facts: RotateFacts): LineageMember[] {
  const retired = [...facts.oldLineage, ...facts.newLineage.filter(({ retiredAtMs }) => retiredAtMs !== null)]
    .map(({ hostPubkey, retiredAtMs }) => ({ hostPubkey, retiredAtMs: retiredAtMs ?? nowMs }))
    .toSorted((a, b) => a.retiredAtMs - b.retiredAtMs);
  let surplus = retired.length + 1 - LINEAGE_KEYS_MAX;
  const kept = retired.filter(({ retiredAtMs }) => surplus-- <= 0 || retiredAtMs + facts.knownForMs > nowMs);
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
function isNameFree(old: EnrolmentRow, account: string | null, { namesakeAccounts }: RotateFacts): boolean {
  return account === old.account || !namesakeAccounts.has(account);
}

function charges(
  oldAccount: string | null,
  newAccount: string | null,
  account: string | null,
  { oldCharged, newCharged }: RotateFacts,
): AccountCharge[] {
  const list: AccountCharge[] = [];
  const charge = (of: string | null, sign: 1 | -1, { items, bytes }: UsageRow): void => {
    if (of !== null && items > 0) list.push({ account: of, items: sign * items, bytes: sign * bytes });
  };
  if (oldAccount !== account) {
    charge(oldAccount, -1, oldCharged);
    charge(account, 1, oldCharged);
  }
  if (newAccount !== account) {
    charge(newAccount, -1, newCharged);
    charge(account, 1, newCharged);
  }
  return list;
}
