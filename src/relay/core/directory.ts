/**
 * The enrolments by name and age, kept in memory beside the enrolment rows: names are labels that many keys may
 * carry, and a look-up by name must not read a range while a command is being decided.
 *
 * Invariant: equals a `new Directory()` to which every enrolment row was applied.
 */
import { CROWDED_NAME_ENROLMENTS } from '../../protocol/limits.ts';
import { type HostName, foldHostName } from '../../protocol/names.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import type { EnrolmentRow } from './rows.ts';

/** An enrolment that was never used may lapse after this time, to make room. */
export const UNUSED_LAPSES_AFTER_MS = 86_400_000;

export class Directory {
  readonly #rows = new Map<PublicKey, EnrolmentRow>();
  readonly #byFingerprint = new Map<Sha256Hex, PublicKey>();
  readonly #liveByName = new Map<string, Set<PublicKey>>();
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
   * Every key that the host of this key ever had. Its lineage row drops the oldest of many, under which nothing is queued
   * and nothing known any more; a sender list, a deny entry or a receipt may name them all the same.
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
    return [...(this.#liveByName.get(foldedName) ?? [])];
  }

  /**
   * The one live enrolment that `name` means: the only one that carries it, or the only one of the caller's account. A
   * crowded name means no host.
   */
  findByName(name: HostName, account: string | null): EnrolmentRow | 'unknown' | 'ambiguous' {
    if (this.liveByName(foldHostName(name)).length === 0) return 'unknown';
    const rows = this.namesakes(name);
    const own = account === null ? [] : rows.filter((row) => row.account === account);
    const only = rows.length === 1 ? rows[0] : own.length === 1 ? own[0] : undefined;
    return only ?? 'ambiguous';
  }

  /** The live enrolments that carry `name`; none when it is crowded. */
  namesakes(name: HostName): EnrolmentRow[] {
    const keys = this.liveByName(foldHostName(name));
    return keys.length > CROWDED_NAME_ENROLMENTS ? [] : keys.flatMap((key) => this.#rows.get(key) ?? []);
  }

  carriers(name: HostName): EnrolmentRow[] {
    return this.liveByName(foldHostName(name)).flatMap((key) => this.#rows.get(key) ?? []);
  }

  /** The oldest live enrolment that was never used and is at least a day old. */
  oldestUnused(nowMs: number): EnrolmentRow | undefined {
    let oldest: EnrolmentRow | undefined;
    // Not the first in the map: a clock may have been set back between two enrolments.
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
    const name = foldHostName(row.hostName);
    const keys = this.#liveByName.get(name);
    if (keys) keys.add(row.hostPubkey);
    else this.#liveByName.set(name, new Set([row.hostPubkey]));
    if (row.seen) this.#unused.delete(row.hostPubkey);
    else this.#unused.set(row.hostPubkey, row);
    this.#liveCount++;
  }

  #removeLive(row: EnrolmentRow): void {
    const name = foldHostName(row.hostName);
    const keys = this.#liveByName.get(name);
    keys?.delete(row.hostPubkey);
    if (keys?.size === 0) this.#liveByName.delete(name);
    this.#liveCount--;
  }
}
