/**
 * What one look has found so far, over the state that it began with. Nothing of it counts until the look ends.
 *
 * The rules here are those of words and of pushing again. Words that rest on what the relay does not show, or on notes
 * that it did not sign after others, are said at the third refusal in a row; contradictions that it signed at once.
 */
import { DAY_MS, HOUR_MS } from '../../protocol/limits.ts';
import { noteHash } from '../../protocol/seen.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import {
  type EvidenceKind,
  type EvidenceRow,
  KEPT_EPOCHS_MAX,
  type KeptNote,
  LEFT_EPOCHS_MAX,
  type LookFacts,
  type LookOutcome,
  OWN_NOTES_MAX,
  type PendingNote,
  type RelayTrustRow,
  type TrustState,
} from './relay-trust.ts';
import { type SignedHead, evidenceOf, headOfKept, knowsOf, openHead } from './signed-heads.ts';

/** Ten minutes between two looks, less the fifth by which looks are spread. */
export const NEXT_LOOK_MS = 480_000;
const REFUSALS_MAX = 3;
/** What was refused last so long ago is forgotten. */
const REFUSED_KEPT_MS = 7 * DAY_MS;
const BEYOND_MAX = 8;
const ANSWERED_MAX = 16;
const ECHOES_MAX = 16;

export class LookDraft {
  readonly relayPubkey: PublicKey;
  readonly nowMs: number;
  readonly trust: RelayTrustRow;
  readonly rows: LookOutcome['rows'] = [];
  readonly pendingOver: PendingNote[] = [];
  setBack: LookOutcome['setBack'];
  isOwed = false;
  isSoon = false;
  readonly #kept: Map<Epoch, KeptNote>;
  readonly #evidence: EvidenceRow[] = [];
  #wantsPush = false;

  constructor({ relayPubkey, trust, kept }: TrustState, { nowMs }: LookFacts) {
    this.relayPubkey = relayPubkey;
    this.nowMs = nowMs;
    this.#kept = new Map(kept.map((note) => [note.epoch, note]));
    const lately = Object.entries(trust.refused).filter(([, { atMs }]) => nowMs - atMs < REFUSED_KEPT_MS);
    // Each member is replaced where it changes, but for `refused`.
    this.trust = { ...trust, refused: Object.fromEntries(lately.map(([what, times]) => [what, { ...times }])) };
  }

  /** The newest note that was joined; undefined before the first look. */
  get newest(): SignedHead | undefined {
    return this.trust.current === null ? undefined : this.keptOf(this.trust.current);
  }

  keptOf(epoch: Epoch): SignedHead | undefined {
    const kept = this.#kept.get(epoch);
    return kept && headOfKept(kept);
  }

  /** This head is the newest now; its epoch may be another than before. */
  keep(head: SignedHead): void {
    const { trust } = this;
    const { epoch, note } = head;
    if (trust.current !== null && trust.current !== epoch)
      trust.left = lastOf(trust.left, trust.current, LEFT_EPOCHS_MAX);
    trust.left = trust.left.filter((left) => left !== epoch);
    // Its peers' notes are joined from now on.
    trust.echoes = trust.echoes.filter((echo) => echo.epoch !== epoch);
    trust.current = epoch;
    trust.back = null;
    trust.ownNotes = [...trust.ownNotes, { epoch, hash: noteHash(note), note }].slice(-OWN_NOTES_MAX);
    this.#kept.set(epoch, keptOf(head, this.nowMs));
  }

  /** The relay went behind what it signed: that is joined when the log has outgrown it. */
  goBeyond(head: SignedHead): void {
    const beyond = { ...keptOf(head, this.nowMs), isTold: false };
    this.trust.beyond = [...this.trust.beyond, beyond].slice(-BEYOND_MAX);
  }

  /** The relay has answered that it begins a new epoch. True once a note: what it says must follow. */
  isNewEpochToCome({ note }: SignedHead): boolean {
    const { trust } = this;
    const hash = noteHash(note);
    if (trust.answered.includes(hash)) return false;
    trust.answered = lastOf(trust.answered, hash, ANSWERED_MAX);
    this.owe(true);
    return true;
  }

  /** From the next look on, the relay is asked to sign that it goes on after this note of a peer. */
  echo({ peerId, epoch, note }: PendingNote): void {
    const others = this.trust.echoes.filter((one) => one.peerId !== peerId);
    this.trust.echoes = [...others, { peerId, epoch, hash: noteHash(note) }].slice(-ECHOES_MAX);
  }

  /** An own note of that epoch, after which the relay signed this head. */
  ownBefore(head: SignedHead, epoch: Epoch): string | undefined {
    if (epoch === head.epoch) return undefined;
    return this.trust.ownNotes.findLast((own) => own.epoch === epoch && knowsOf(head, own.hash))?.note;
  }

  /** As `ownBefore`, as a head of its own, if there is one. */
  ownHeadBefore(head: SignedHead, epoch: Epoch): SignedHead[] {
    const note = this.ownBefore(head, epoch);
    const own = note === undefined ? undefined : openHead(note, this.relayPubkey);
    return own ? [own] : [];
  }

  owe(isSoon = false): void {
    this.isOwed = true;
    this.isSoon ||= isSoon;
  }

  /** Thrice: true at the third look in a row that is refused this, each ten minutes after the one before. */
  isThird(what: string): boolean {
    const { trust, nowMs } = this;
    const refused = (trust.refused[what] ??= { times: 0, atMs: -Infinity });
    if (nowMs < refused.atMs) refused.atMs = nowMs;
    if (nowMs - refused.atMs >= NEXT_LOOK_MS) {
      refused.times++;
      refused.atMs = nowMs;
    }
    if (refused.times < REFUSALS_MAX) {
      this.owe();
      return false;
    }
    this.clear(what);
    return true;
  }

  clear(what: string): void {
    delete this.trust.refused[what];
  }

  /** A contradiction that the relay signed. */
  sayFork(one: SignedHead, other: SignedHead, proof: readonly unknown[] = []): void {
    this.#say('fork', true, [one, other], proof);
  }

  /** Words at the third refusal; true when they are said. */
  isUnproven(what: string, heads: readonly SignedHead[], proof: readonly unknown[] = []): boolean {
    if (!this.isThird(what)) return false;
    this.#say('unproven', false, heads, proof);
    return true;
  }

  /** Words on notes that the relay signed one after the other, else testimony. True when they are said. */
  isSaid(kind: EvidenceKind, isSigned: boolean, what: string, heads: readonly SignedHead[]): boolean {
    if (!isSigned && !this.isThird(what)) return false;
    this.#say(kind, isSigned, heads);
    return true;
  }

  sayLeftOut(head: SignedHead, item: EvidenceRow['item']): void {
    this.#say('not-in-log', false, [head], [], item);
  }

  #say(
    kind: EvidenceKind,
    isSigned: boolean,
    heads: readonly SignedHead[],
    proof: readonly unknown[] = [],
    item?: EvidenceRow['item'],
  ): void {
    const { relayPubkey, nowMs } = this;
    this.#evidence.push(evidenceOf({ relayPubkey, kind, isSigned, heads, proof, ...(item && { item }), nowMs }));
  }

  /** All is to be pushed again: at most once an hour; each time within a day doubles the wait, up to a day. */
  pushAgain(): void {
    this.#wantsPush = true;
  }

  #isPushedNow(): boolean {
    const { trust, nowMs } = this;
    const last = trust.pushedAgain;
    if (!this.#wantsPush && !last?.isDue) return false;
    const sinceMs = last ? Math.abs(nowMs - last.atMs) : Infinity;
    if (last && sinceMs < last.waitMs) {
      trust.pushedAgain = { ...last, isDue: true };
      this.owe();
      return false;
    }
    const waitMs = last && sinceMs < DAY_MS ? Math.min(DAY_MS, 2 * last.waitMs) : HOUR_MS;
    trust.pushedAgain = { atMs: nowMs, waitMs, isDue: false };
    return true;
  }

  /** What a look that ended has found. */
  outcome(): LookOutcome {
    const pushAgain = this.#isPushedNow();
    const { trust, rows, pendingOver, isOwed, isSoon, setBack } = this;
    const newestFirst = [...this.#kept.values()].toSorted(
      (a, b) => Number(b.epoch === trust.current) - Number(a.epoch === trust.current) || b.atMs - a.atMs,
    );
    return {
      isEnded: true,
      trust,
      kept: newestFirst.slice(0, KEPT_EPOCHS_MAX),
      pendingOver,
      evidence: this.#evidence,
      rows,
      pushAgain,
      isOwed,
      isSoon,
      ...(setBack && { setBack }),
    };
  }
}

function keptOf({ epoch, size, root, note, knew }: SignedHead, atMs: number): KeptNote {
  return { epoch, size, root, note, knew, atMs };
}

/** The list with `last` at its end, once, and without what is too much at its beginning. */
export function lastOf<T>(list: readonly T[], last: T, countMax: number): T[] {
  return [...list.filter((one) => one !== last), last].slice(-countMax);
}
