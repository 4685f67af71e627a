/**
 * Decides whether a host key is enrolled, and under what name, account and authority; and what an enrolled host
 * publishes about itself: whose mail it takes, and the key to seal its mail with.
 *
 * Invariants ("Enrolment record", rules 1 to 6; "Sender allowlist", rules 1 to 3; "Encryption-key advertisement"):
 *   - hosts are keys: a name is a label, and unique only inside a proven account;
 *   - re-enrolling the same key is idempotent and never clears `revoked_at`;
 *   - a weaker authority never overwrites what a stronger one recorded;
 *   - a crowded name refuses no host;
 *   - a newer statement replaces an older one, never the other way, and the same statement again changes nothing, so
 *     that a replayed hop is harmless;
 *   - a list of the same senders at a later time is recorded by its time alone: it makes older ones stale, also those
 *     that this relay never saw, and the answer to the host holds the time that it signed;
 *   - nothing is taken that was issued more than 5 minutes ahead of this clock.
 */
import { CROWDED_NAME_ENROLMENTS, ISSUED_AHEAD_MAX_MS, LISTED_SENDERS_MAX } from '../../protocol/limits.ts';
import type { EnrolHost, NoteHostSeen, PublishEncKey, PublishSenders } from './command.ts';
import {
  type Decided,
  type Done,
  type EncKeyOutcome,
  type EnrolOutcome,
  type HostFacts,
  type Refusal,
  type SendersOutcome,
  chargedFor,
  decisionOf,
  fingerprints,
  issuedAhead,
  notAdmitted,
  refusal,
} from './decision.ts';
import type { EnrolmentLapsed, HostEnrolled, InviteSpent, RelayEvent } from './event.ts';
import { LOG_FORMAT, MARKS_FORMAT } from './log-format.ts';
import { isVouchedFor } from './mail-use.ts';
import type {
  AuthorityName,
  EnrolmentRecord,
  EnrolmentRow,
  EncKeyRow,
  InviteRow,
  SendersRow,
  UsageRow,
} from './rows.ts';

const AUTHORITY_RANK: Readonly<Record<AuthorityName, number>> = { 'host-key': 0, 'account-token': 1 };

export function decideEnrol(
  command: EnrolHost,
  facts: HostFacts,
  logFormat = LOG_FORMAT,
): Decided<EnrolOutcome> | Refusal {
  const { rows, directory, settings } = facts;
  const { hostPubkey, hostName, nowMs } = command;
  const enrolment = rows.get('enrolment', hostPubkey);
  if (enrolment && enrolment.revokedAtMs !== null) return refusal('ENROL_REFUSED', 'this host key is revoked');
  if (!command.answer.ok) {
    const reason = command.answer.reason ?? 'not admitted';
    return refusal('ENROL_REFUSED', 'the authority of this relay refused the host key', { reason });
  }
  if (isDenied(command, enrolment, facts)) return notAdmitted('the host is on the deny-list');
  const record = recordAfter(command, enrolment);
  const namesakes = directory.namesakesOf(hostName, hostPubkey);
  if (record.account !== null && namesakes.accounts.has(record.account)) {
    return refusal('NAME_TAKEN', 'another live key of this account carries the host name');
  }
  const outcome: EnrolOutcome = {
    type: 'Enrolled',
    hostPubkey,
    host: hostName,
    enrolledAtMs: record.enrolledAtMs,
    authorizedBy: record.authorizedBy,
    account: record.account,
    crowded: namesakes.count + 1 > CROWDED_NAME_ENROLMENTS,
  };
  const events: RelayEvent[] =
    enrolment && isUnchanged(enrolment, record)
      ? []
      : [enrolled(command, enrolment, record, chargedFor(rows, directory, hostPubkey))];
  const spent = inviteSpent(command, enrolment, facts);
  if (spent && logFormat >= MARKS_FORMAT) events.push(spent);
  if (enrolment) return decisionOf(outcome, ...events);
  if (settings.admission === 'invite') {
    if (!inviteOf(command, facts))
      return notAdmitted('this relay lets invited hosts in, and the proof is no open invite');
    if (!spent) return notAdmitted('the invite has expired');
    if (logFormat < MARKS_FORMAT) events.unshift(spent);
  }
  if (directory.liveCount < settings.enrolmentsMax) return decisionOf(outcome, ...events);
  const unused = directory.oldestUnused(nowMs);
  if (!unused) return refusal('ENROLMENTS_FULL', 'this relay has no room for another host');
  return decisionOf(outcome, lapsed(unused, chargedFor(rows, directory, unused.hostPubkey), nowMs), ...events);
}

function isDenied(
  { hostPubkey, answer, nowMs }: EnrolHost,
  before: EnrolmentRow | undefined,
  { directory, admissions }: HostFacts,
): boolean {
  const host = {
    fingerprints: fingerprints(directory, hostPubkey),
    clientId: answer.clientId ?? before?.clientId ?? null,
    account: answer.account ?? before?.account ?? null,
    org: answer.org ?? before?.org ?? null,
  };
  return admissions.isDenied(host, nowMs);
}

function inviteOf({ inviteHash }: EnrolHost, { rows }: HostFacts): InviteRow | undefined {
  return inviteHash && rows.get('invite', inviteHash);
}

/** Spends an open invite for a host that is new, or is not vouched for where anybody may enrol. */
function inviteSpent(
  command: EnrolHost,
  enrolment: EnrolmentRow | undefined,
  facts: HostFacts,
): InviteSpent | undefined {
  const { inviteHash, hostPubkey, nowMs: atMs } = command;
  const invite = inviteOf(command, facts);
  const isOfUse = !enrolment || (facts.settings.admission === 'open' && !isVouchedFor(enrolment));
  if (!isOfUse || !inviteHash || !invite || invite.expiresAtMs <= atMs) return undefined;
  return { type: 'InviteSpent', inviteHash, hostPubkey, atMs };
}

/**
 * The first accepted hop of a key is recorded, so that the enrolment does not lapse; and the first v2 hop, so that none
 * of v1 is taken afterwards, once every relay of the log knows such a record.
 */
export function decideHostSeen(
  { hostPubkey, hopVersion, nowMs: atMs }: NoteHostSeen,
  enrolment: EnrolmentRow | undefined,
  logFormat: number,
): Decided<Done> {
  const done: Done = { type: 'Done' };
  const isOfV2 = hopVersion === 2 && logFormat >= MARKS_FORMAT;
  if (!enrolment || (isOfV2 ? enrolment.madeV2Hop : enrolment.seen)) return decisionOf(done);
  return decisionOf(done, { type: isOfV2 ? 'V2HopMade' : 'HostSeen', hostPubkey, atMs });
}

function recordAfter(command: EnrolHost, before: EnrolmentRow | undefined): EnrolmentRecord {
  const { answer } = command;
  const weaker = before !== undefined && AUTHORITY_RANK[command.authorizedBy] < AUTHORITY_RANK[before.authorizedBy];
  const proven = weaker
    ? {
        account: before.account,
        org: before.org,
        clientId: before.clientId,
        authorizedBy: before.authorizedBy,
      }
    : {
        account: answer.account ?? before?.account ?? null,
        org: answer.org ?? before?.org ?? null,
        clientId: answer.clientId ?? before?.clientId ?? null,
        authorizedBy: command.authorizedBy,
      };
  return {
    hostName: command.hostName,
    ownerFp: command.ownerFp,
    ...proven,
    // The authority that answered now decides how long, even where the record of a stronger one stays.
    validUntilMs: answer.validUntilMs ?? null,
    enrolledAtMs: before?.enrolledAtMs ?? command.nowMs,
  };
}

function isUnchanged(before: EnrolmentRow, record: EnrolmentRecord): boolean {
  const names = Object.keys(record) as (keyof EnrolmentRecord)[];
  return names.every((name) => before[name] === record[name]);
}

function enrolled(
  command: EnrolHost,
  before: EnrolmentRow | undefined,
  record: EnrolmentRecord,
  charged: UsageRow,
): HostEnrolled {
  const formerAccount = before?.account ?? null;
  const accountChanged = record.account !== formerAccount;
  return {
    type: 'HostEnrolled',
    hostPubkey: command.hostPubkey,
    ...record,
    formerAccount: accountChanged ? formerAccount : null,
    chargedItems: accountChanged ? charged.items : 0,
    chargedBytes: accountChanged ? charged.bytes : 0,
    atMs: command.nowMs,
  };
}

/** The end of an enrolment that was never used. */
export function lapsed(enrolment: EnrolmentRow, charged: UsageRow, atMs: number): EnrolmentLapsed {
  const isCharged = enrolment.account !== null;
  return {
    type: 'EnrolmentLapsed',
    hostPubkey: enrolment.hostPubkey,
    account: enrolment.account,
    releasedItems: isCharged ? charged.items : 0,
    releasedBytes: isCharged ? charged.bytes : 0,
    atMs,
  };
}

export function decidePublishSenders(
  command: PublishSenders,
  published: SendersRow | undefined,
  logFormat: number,
): Decided<SendersOutcome> | Refusal {
  const { callerPubkey, hostPubkey, iatMs, nowMs } = command;
  if (hostPubkey !== callerPubkey) return refusal('KEY_MISMATCH', 'the list names another host key than the caller');
  if (command.senders.length > LISTED_SENDERS_MAX) {
    return refusal('BAD_REQUEST', `a list may hold ${LISTED_SENDERS_MAX} senders`);
  }
  if (iatMs > nowMs + ISSUED_AHEAD_MAX_MS) return issuedAhead();
  const senders = [...new Set(command.senders)].toSorted();
  const outcome: SendersOutcome = { type: 'SendersListed', senders: senders.length, iatMs };
  const isSame = published !== undefined && haveSameKeys(published.senders, senders);
  if (published && published.iatMs >= iatMs) return isSame && published.iatMs === iatMs ? decisionOf(outcome) : stale();
  const type = logFormat >= MARKS_FORMAT ? 'SendersDated' : 'SendersRenewed';
  if (isSame) return decisionOf(outcome, { type, hostPubkey, iatMs, atMs: nowMs });
  return decisionOf(outcome, { type: 'SendersPublished', hostPubkey, senders, iatMs, atMs: nowMs });
}

export function decidePublishEncKey(
  command: PublishEncKey,
  published: EncKeyRow | undefined,
): Decided<EncKeyOutcome> | Refusal {
  const { hostPubkey, encPub, advertisedAtMs, sig, nowMs } = command;
  if (advertisedAtMs > nowMs + ISSUED_AHEAD_MAX_MS) return issuedAhead();
  const outcome: EncKeyOutcome = { type: 'EncKeyShown', atMs: advertisedAtMs };
  if (published && published.atMs >= advertisedAtMs) {
    return published.atMs === advertisedAtMs && published.encPub === encPub ? decisionOf(outcome) : stale();
  }
  return decisionOf(outcome, { type: 'EncKeyPublished', hostPubkey, encPub, advertisedAtMs, sig, atMs: nowMs });
}

function haveSameKeys(listed: readonly string[], asked: readonly string[]): boolean {
  const keys = new Set(listed);
  return keys.size === asked.length && asked.every((key) => keys.has(key));
}

function stale(): Refusal {
  return refusal('STALE_LIST', 'a newer one is published, or another one of the same time');
}
