/**
 * Decides who is admitted no longer, who is kept out, and who is invited.
 *
 * Invariants ("Enrolment record", rule 4; "Enrolment", rule 9):
 *   - a revoked key stays revoked;
 *   - a deny entry outlives every token that was issued before it;
 *   - an invite is known by the hash of its token, lets one host in, and lapses.
 */
import { DENY_KEPT_MS } from '../../protocol/limits.ts';
import type { DenyHosts, IssueInvite, LapseAdmissions, RevokeHost } from './command.ts';
import {
  type Decided,
  type Done,
  type InviteOutcome,
  type Refusal,
  type RevokeOutcome,
  decisionOf,
  presentKey,
  refusal,
} from './decision.ts';
import { type Directory, isMatch } from './directory.ts';
import type { DenySelectors, EnrolmentRow, RowReader } from './rows.ts';

/** Deny entries that stand at most: an authority that pushes more than this in a day is not well. */
export const DENY_ENTRIES_MAX = 100_000;
export const INVITES_MAX = 10_000;

export function decideRevoke(
  { hostPubkey, cause, nowMs }: RevokeHost,
  enrolment: EnrolmentRow | undefined,
): Decided<RevokeOutcome> | Refusal {
  if (!enrolment) return refusal('NOT_ENROLLED', 'no such host is enrolled');
  const isNew = enrolment.revokedAtMs === null;
  const outcome: RevokeOutcome = { type: 'Revoked', isNew };
  return isNew ? decisionOf(outcome, { type: 'HostRevoked', hostPubkey, cause, atMs: nowMs }) : decisionOf(outcome);
}

export function decideDeny(command: DenyHosts, isKnown: boolean, standing: number): Decided<Done> | Refusal {
  if (!isKnown && standing >= DENY_ENTRIES_MAX) return refusal('UNAVAILABLE', 'too many deny entries stand');
  const { type: _type, nowMs: atMs, ...entry } = command;
  return decisionOf({ type: 'Done' }, { type: 'DenyEntryAdded', ...entry, untilMs: atMs + DENY_KEPT_MS, atMs });
}

export function deniedHosts(selectors: DenySelectors, rows: RowReader, directory: Directory): EnrolmentRow[] {
  const others = { ...selectors, hostFp: null };
  return [...hostsMeant(selectors, rows, directory)].filter(
    (host) => host.revokedAtMs === null && isMatch(others, { ...host, fingerprints: new Set() }),
  );
}

/** Finds the host that has or had the key with the fingerprint, or every host where the entry names none. */
function* hostsMeant({ hostFp }: DenySelectors, rows: RowReader, directory: Directory): Generator<EnrolmentRow> {
  if (hostFp === null) {
    yield* directory.all();
    return;
  }
  const known = directory.byFingerprint(hostFp);
  const row = known && directory.get(presentKey(rows, known));
  if (row) yield row;
}

export function decideInvite(command: IssueInvite, open: number): Decided<InviteOutcome> | Refusal {
  if (open >= INVITES_MAX) return refusal('UNAVAILABLE', 'too many invites are open');
  const { type: _type, nowMs: atMs, ...invite } = command;
  return decisionOf({ type: 'Invited', expiresAtMs: invite.expiresAtMs }, { type: 'InviteIssued', ...invite, atMs });
}

/** An invite that the operator revokes lapses before its time. */
export function decideLapse({ denied, invites, nowMs }: LapseAdmissions): Decided<Done> {
  const done: Done = { type: 'Done' };
  if (denied.length === 0 && invites.length === 0) return decisionOf(done);
  return decisionOf(done, { type: 'AdmissionsLapsed', denied, invites, atMs: nowMs });
}
