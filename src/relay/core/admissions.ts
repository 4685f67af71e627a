/**
 * The deny entries and the open invites, in memory beside their rows: an enrolment is matched against all deny entries,
 * and a range must not be read while a command is being decided.
 *
 * Invariant: equals a `new Admissions()` to which every deny and invite row was applied.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import { type DenyRow, type DenySelectors, type InviteRow, type RowChange, rowKey } from './rows.ts';

/** A host that a deny entry is matched against, as it is or as it would be. */
export interface DeniableHost {
  /** Fingerprints of every key of its lineage. */
  fingerprints: ReadonlySet<Sha256Hex>;
  clientId: string | null;
  account: string | null;
  org: string | null;
}

export type OpenInvite = InviteRow & { inviteHash: Sha256Hex };

export class Admissions {
  readonly #denied = new Map<string, DenyRow>();
  /** The same entries by one selector of each: a host is matched against the few that may apply. */
  readonly #byBucket = new Map<string, Map<string, DenyRow>>();
  readonly #invites = new Map<string, InviteRow>();

  get deniedCount(): number {
    return this.#denied.size;
  }

  get inviteCount(): number {
    return this.#invites.size;
  }

  apply(change: RowChange): void {
    if (change.table === 'deny') this.#applyDeny(change.key, change.row);
    else if (change.table === 'invite') put(this.#invites, change.key, change.row);
  }

  hasEntry(selectors: DenySelectors): boolean {
    return this.#denied.has(rowKey.deny(selectors));
  }

  isDenied(host: DeniableHost, nowMs: number): boolean {
    for (const bucket of bucketsOf(host)) {
      const entries = this.#byBucket.get(bucket);
      if (!entries) continue;
      for (const entry of entries.values()) if (entry.untilMs > nowMs && isMatch(entry, host)) return true;
    }
    return false;
  }

  openInvites(nowMs: number): OpenInvite[] {
    const open: OpenInvite[] = [];
    for (const [hash, row] of this.#invites)
      if (row.expiresAtMs > nowMs) open.push({ inviteHash: hash as Sha256Hex, ...row });
    return open;
  }

  hasInvite(inviteHash: Sha256Hex): boolean {
    return this.#invites.has(inviteHash);
  }

  /** The expired entries and invites, at most `max` of them. */
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
    // The selectors are the key, so both rows have the same bucket.
    const selectors = row ?? this.#denied.get(key);
    put(this.#denied, key, row);
    if (!selectors) return;
    const bucket = bucketOf(selectors);
    const entries = this.#byBucket.get(bucket) ?? new Map<string, DenyRow>();
    put(entries, key, row);
    put(this.#byBucket, bucket, entries.size > 0 ? entries : null);
  }
}

/** The bucket of an entry: the selector that the fewest hosts share. */
function bucketOf({ hostFp, clientId, account, org }: DenySelectors): string {
  if (hostFp !== null) return `host ${hostFp}`;
  if (clientId !== null) return `client ${clientId}`;
  return account === null ? `org ${org ?? ''}` : `account ${account}`;
}

/** The buckets that may hold an entry for this host. */
function* bucketsOf({ fingerprints, clientId, account, org }: DeniableHost): Generator<string> {
  for (const fingerprint of fingerprints) yield `host ${fingerprint}`;
  if (clientId !== null) yield `client ${clientId}`;
  if (account !== null) yield `account ${account}`;
  if (org !== null) yield `org ${org}`;
}

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
