/**
 * Who is kept out and who was invited, in memory beside the deny and invite rows: an enrolment is held against every
 * deny entry, and a range must not be read while a command is being decided.
 *
 * Invariant: equals `new Admissions()` told every deny and invite row again.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { DenyRow, DenySelectors, InviteRow, RowChange } from './rows.ts';

/** What a deny entry is held against: a host as it is, or as it would be. */
export interface DeniableHost {
  /** Fingerprints of every key of its lineage. */
  fingerprints: ReadonlySet<Sha256Hex>;
  clientId: string | null;
  account: string | null;
  org: string | null;
}

export class Admissions {
  readonly #denied = new Map<string, DenyRow>();
  readonly #invites = new Map<string, InviteRow>();

  get deniedCount(): number {
    return this.#denied.size;
  }

  get inviteCount(): number {
    return this.#invites.size;
  }

  /** Tells of a changed row; of other tables nothing is kept. */
  apply(change: RowChange): void {
    if (change.table === 'deny') put(this.#denied, change.key, change.row);
    else if (change.table === 'invite') put(this.#invites, change.key, change.row);
  }

  isDenied(host: DeniableHost, nowMs: number): boolean {
    for (const entry of this.#denied.values()) if (entry.untilMs > nowMs && isMatch(entry, host)) return true;
    return false;
  }

  /** The entries that stand, for whoever applies them again. */
  standing(nowMs: number): DenyRow[] {
    return [...this.#denied.values()].filter(({ untilMs }) => untilMs > nowMs);
  }

  openInvites(nowMs: number): InviteRow[] {
    return [...this.#invites.values()].filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  }

  /** What may be forgotten, at most `max` of it. */
  lapsed(nowMs: number, max: number): { denied: DenySelectors[]; invites: Sha256Hex[] } {
    const denied: DenySelectors[] = [];
    const invites: Sha256Hex[] = [];
    for (const { hostFp, clientId, account, org, untilMs } of this.#denied.values()) {
      if (denied.length === max) break;
      if (untilMs <= nowMs) denied.push({ hostFp, clientId, account, org });
    }
    for (const [hash, { expiresAtMs }] of this.#invites) {
      if (denied.length + invites.length === max) break;
      if (expiresAtMs <= nowMs) invites.push(hash as Sha256Hex);
    }
    return { denied, invites };
  }
}

/** Several selectors in one entry are a conjunction. */
export function isMatch({ hostFp, clientId, account, org }: DenySelectors, host: DeniableHost): boolean {
  if (hostFp !== null && !host.fingerprints.has(hostFp)) return false;
  if (clientId !== null && clientId !== host.clientId) return false;
  if (account !== null && account !== host.account) return false;
  return org === null || org === host.org;
}

function put<Row>(rows: Map<string, Row>, key: string, row: Row | null): void {
  if (row) rows.set(key, row);
  else rows.delete(key);
}
