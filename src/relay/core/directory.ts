/**
 * Two indexes in memory, as no range may be read while a command is being decided: the enrolments by name and age, for
 * names are labels that many keys may carry; and the deny entries and the open invites, as an enrolment is matched
 * against all deny entries.
 *
 * Invariants: they equal a `new Directory()` to which every enrolment row was applied, and a `new Admissions()` to
 * which every deny and invite row was applied.
 */
import { CROWDED_NAME_ENROLMENTS } from '../../protocol/limits.ts';
import { type HostName, foldHostName } from '../../protocol/names.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import { type DenyRow, type DenySelectors, type EnrolmentRow, type InviteRow, type RowChange, rowKey } from './rows.ts';

/** An enrolment that was never used may lapse after this time, to make room. */
export const UNUSED_LAPSES_AFTER_MS = 86_400_000;

/** The live enrolments that carry one name. */
interface Carriers {
  keys: Set<PublicKey>;
  /** The number of them in each account, and in none. */
  accounts: Map<string | null, number>;
}

/** The live enrolments of other keys that carry a name. */
export interface Namesakes {
  count: number;
  /** Their accounts; `null` where one has none. */
  accounts: Pick<ReadonlySet<string | null>, 'has'>;
}

export class Directory {
  readonly #rows = new Map<PublicKey, EnrolmentRow>();
  readonly #byFingerprint = new Map<Sha256Hex, PublicKey>();
  /** The key alone where one host carries the name, as most names are: two collections for each cost a start more. */
  readonly #liveByName = new Map<string, PublicKey | Carriers>();
  /** Live and never used. */
  readonly #unused = new Map<PublicKey, EnrolmentRow>();
  /** By the key that took their place. */
  readonly #rotatedInto = new Map<PublicKey, Set<PublicKey>>();
  #liveCount = 0;

  /** Every key that was ever admitted. */
  get count(): number {
    return this.#rows.size;
  }

  get liveCount(): number {
    return this.#liveCount;
  }

  get(key: PublicKey): EnrolmentRow | undefined {
    return this.#rows.get(key);
  }

  /** Every enrolment, revoked ones included, in no order that means anything. */
  all(): IterableIterator<EnrolmentRow> {
    return this.#rows.values();
  }

  /** The key with this fingerprint, live or not. */
  byFingerprint(fingerprint: Sha256Hex): PublicKey | undefined {
    return this.#byFingerprint.get(fingerprint);
  }

  /**
   * Every key that the host of this key ever had. Its lineage row drops the oldest of many, under which nothing is
   * queued and nothing known any more; a sender list, a deny entry or a receipt may name them all the same.
   */
  keysOf(key: PublicKey): ReadonlySet<PublicKey> {
    let present = key;
    for (let next = this.#rows.get(present)?.rotatedTo; next; next = this.#rows.get(present)?.rotatedTo) present = next;
    const keys = new Set([present]);
    // Those that are added are walked as well.
    for (const one of keys) for (const former of this.#rotatedInto.get(one) ?? []) keys.add(former);
    return keys;
  }

  liveByName(foldedName: string): PublicKey[] {
    const carriers = this.#liveByName.get(foldedName);
    if (carriers === undefined) return [];
    return typeof carriers === 'string' ? [carriers] : [...carriers.keys];
  }

  /**
   * The one live enrolment that `name` means: the only one that carries it, or the only one of the caller's account. A
   * crowded name means no host.
   */
  findByName(name: HostName, account: string | null): EnrolmentRow | 'unknown' | 'ambiguous' {
    if (!this.#liveByName.has(foldHostName(name))) return 'unknown';
    const rows = this.namesakes(name);
    const own = account === null ? [] : rows.filter((row) => row.account === account);
    const only = rows.length === 1 ? rows[0] : own.length === 1 ? own[0] : undefined;
    return only ?? 'ambiguous';
  }

  /** The live enrolments that carry `name`; none when it is crowded. */
  namesakes(name: HostName): EnrolmentRow[] {
    const carriers = this.#liveByName.get(foldHostName(name));
    const isCrowded = typeof carriers === 'object' && carriers.keys.size > CROWDED_NAME_ENROLMENTS;
    return isCrowded ? [] : this.carriers(name);
  }

  /** Counts those that carry `name`, `except` left out, with their accounts, however many they are. */
  namesakesOf(name: HostName, except: PublicKey): Namesakes {
    const carriers = this.#liveByName.get(foldHostName(name));
    if (carriers === undefined || carriers === except) return { count: 0, accounts: new Set() };
    if (typeof carriers === 'string') return { count: 1, accounts: new Set([this.#accountOf(carriers)]) };
    const { keys, accounts } = carriers;
    if (!keys.has(except)) return { count: keys.size, accounts };
    const own = this.#accountOf(except);
    const isOther = (account: string | null): boolean => (accounts.get(account) ?? 0) > (account === own ? 1 : 0);
    return { count: keys.size - 1, accounts: { has: isOther } };
  }

  carriers(name: HostName): EnrolmentRow[] {
    return this.liveByName(foldHostName(name)).flatMap((key) => this.#rows.get(key) ?? []);
  }

  /**
   * The oldest live enrolment that was never used and is at least a day old. Walks through all that were never used,
   * which is asked for where a relay is full alone: a clock may be set back between two enrolments, so they do not
   * stand in the order of their times.
   */
  oldestUnused(nowMs: number): EnrolmentRow | undefined {
    let oldest: EnrolmentRow | undefined;
    for (const row of this.#unused.values()) if (!oldest || row.enrolledAtMs < oldest.enrolledAtMs) oldest = row;
    return oldest && nowMs - oldest.enrolledAtMs >= UNUSED_LAPSES_AFTER_MS ? oldest : undefined;
  }

  /** Takes over that the row of `key` is now `row`; `null`: there is none. */
  apply(key: PublicKey, row: EnrolmentRow | null): void {
    const before = this.#rows.get(key);
    if (before && before.revokedAtMs === null) this.#removeLive(before);
    if (row) this.#rows.set(key, row);
    else this.#rows.delete(key);
    if (row?.rotatedTo) this.#noteRotated(key, row.rotatedTo);
    if (row && !before) this.#byFingerprint.set(hostFingerprint(key), key);
    else if (!row) this.#byFingerprint.delete(hostFingerprint(key));
    if (row && row.revokedAtMs === null) this.#addLive(row);
    else this.#unused.delete(key);
  }

  /** A key that was rotated stays so. */
  #noteRotated(key: PublicKey, into: PublicKey): void {
    const keys = this.#rotatedInto.get(into);
    if (keys) keys.add(key);
    else this.#rotatedInto.set(into, new Set([key]));
  }

  #addLive(row: EnrolmentRow): void {
    const { hostPubkey, account } = row;
    const name = foldHostName(row.hostName);
    const carriers = this.#liveByName.get(name);
    if (carriers === undefined) this.#liveByName.set(name, hostPubkey);
    else if (typeof carriers === 'object') addCarrier(carriers, hostPubkey, account);
    else {
      const both: Carriers = { keys: new Set(), accounts: new Map() };
      addCarrier(both, carriers, this.#accountOf(carriers));
      addCarrier(both, hostPubkey, account);
      this.#liveByName.set(name, both);
    }
    if (row.seen) this.#unused.delete(hostPubkey);
    else this.#unused.set(hostPubkey, row);
    this.#liveCount++;
  }

  #removeLive({ hostName, hostPubkey, account }: EnrolmentRow): void {
    const name = foldHostName(hostName);
    const carriers = this.#liveByName.get(name);
    if (carriers === hostPubkey) this.#liveByName.delete(name);
    else if (typeof carriers === 'object') {
      carriers.keys.delete(hostPubkey);
      const left = (carriers.accounts.get(account) ?? 0) - 1;
      if (left > 0) carriers.accounts.set(account, left);
      else carriers.accounts.delete(account);
      if (carriers.keys.size === 0) this.#liveByName.delete(name);
    }
    this.#liveCount--;
  }

  #accountOf(key: PublicKey): string | null {
    return this.#rows.get(key)?.account ?? null;
  }
}

function addCarrier({ keys, accounts }: Carriers, key: PublicKey, account: string | null): void {
  keys.add(key);
  accounts.set(account, (accounts.get(account) ?? 0) + 1);
}

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
