/**
 * Who is kept out and who was invited, in memory beside the deny and invite rows: an enrolment is held against the
 * deny entries, and a range must not be read while a command is being decided.
 *
 * Invariant: equals `new Admissions()` told every deny and invite row again.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import { type DenyRow, type DenySelectors, type InviteRow, type RowChange, rowKey } from './rows.ts';

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
  /** The same entries, filed under one selector of each: a host is held against the few that may mean it. */
  readonly #filed = new Map<string, Map<string, DenyRow>>();
  readonly #invites = new Map<string, InviteRow>();

  get deniedCount(): number {
    return this.#denied.size;
  }

  get inviteCount(): number {
    return this.#invites.size;
  }

  /** Tells of a changed row; of other tables nothing is kept. */
  apply(change: RowChange): void {
    if (change.table === 'deny') this.#applyDeny(change.key, change.row);
    else if (change.table === 'invite') put(this.#invites, change.key, change.row);
  }

  hasEntry(selectors: DenySelectors): boolean {
    return this.#denied.has(rowKey.deny(selectors));
  }

  isDenied(host: DeniableHost, nowMs: number): boolean {
    for (const place of placesOf(host)) {
      for (const entry of this.#filed.get(place)?.values() ?? []) {
        if (entry.untilMs > nowMs && isMatch(entry, host)) return true;
      }
    }
    return false;
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

  #applyDeny(key: string, row: DenyRow | null): void {
    // The selectors are the key: both rows are filed in the same place.
    const selectors = row ?? this.#denied.get(key);
    put(this.#denied, key, row);
    if (!selectors) return;
    const place = placeOf(selectors);
    const filed = this.#filed.get(place) ?? new Map<string, DenyRow>();
    put(filed, key, row);
    put(this.#filed, place, filed.size > 0 ? filed : null);
  }
}

/** Where an entry is filed: under the selector that the fewest hosts share. */
function placeOf({ hostFp, clientId, account, org }: DenySelectors): string {
  if (hostFp !== null) return `host ${hostFp}`;
  if (clientId !== null) return `client ${clientId}`;
  return account === null ? `org ${org ?? ''}` : `account ${account}`;
}

/** Wherever an entry that means this host may be filed. */
function* placesOf({ fingerprints, clientId, account, org }: DeniableHost): Generator<string> {
  for (const fingerprint of fingerprints) yield `host ${fingerprint}`;
  if (clientId !== null) yield `client ${clientId}`;
  if (account !== null) yield `account ${account}`;
  if (org !== null) yield `org ${org}`;
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
