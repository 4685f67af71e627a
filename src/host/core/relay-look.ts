/**
 * A look at a relay's log: what is asked, and what the answers mean. Each case of the table is a function here.
 *
 *     newest head ─▶ joined to what was kept ─▶ what the relay went behind ─▶ notes of peers ─▶ own rows
 *
 * Pure: it yields questions and is resumed with answers. Invariants:
 *   - a look in which a question was not answered changes nothing;
 *   - a head is kept when the relay proved that it continues the one before, when it contradicts it, and when the proof
 *     was refused thrice: so the newest note is always one that later ones can be held against;
 *   - what an honest relay can do, through outages, restores, resets and caches, is never called a contradiction.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { KNEW_NOTES_MAX, makeKnew, noteHash } from '../../protocol/seen.ts';
import { LookDraft, NEXT_LOOK_MS } from './look-draft.ts';
import { LogLinks, join } from './look-links.ts';
import { type Asking, isContradicted, isPartOf, newestHead } from './look-questions.ts';
import { proveRows } from './look-rows.ts';
import type { Answer, LogEnd, LookFacts, LookOutcome, Question, TrustState, PendingNote } from './relay-trust.ts';
import { type SignedHead, headOfKept, isAfter, isSameHead, headOfPending } from './signed-heads.ts';
import { echoedNote } from './heard-notes.ts';

/** A minute between two looks, less the fifth by which looks are spread. */
const CONFIRM_MS = 48_000;

/** Yields questions one by one. The outcome is to be written as a whole, over the state that was given. */
export function* look(state: TrustState, facts: LookFacts): Generator<Question, LookOutcome, Answer> {
  const draft = new LookDraft(state, facts);
  const steps = stepsOf(draft, state, makeKnew(knownHashes(state), facts.randomBytes));
  let step = steps.next();
  while (!step.done) {
    const answer = yield step.value;
    if (answer.type === 'none') return notEnded(state);
    step = steps.next(answer);
  }
  return draft.outcome();
}

function notEnded({ trust, kept }: TrustState): LookOutcome {
  const nothing = { pendingOver: [], evidence: [], rows: [], pushAgain: false };
  return { isEnded: false, trust, kept, ...nothing, isOwed: true, isSoon: false };
}

/** Four notes: the newest one, what waits for the relay's word by turns, and earlier epochs while there is room. */
function knownHashes({ trust, kept, pending }: TrustState): Sha256Hex[] {
  const own = kept.filter(({ epoch }) => epoch === trust.current);
  const earlier = kept.filter(({ epoch }) => epoch !== trust.current).toSorted((a, b) => b.atMs - a.atMs);
  const hashes = [
    ...own.map(hashOf),
    ...inTurn([...trust.beyond, ...pending], trust.looks).map(hashOf),
    ...inTurn(trust.echoes, trust.looks).map(({ hash }) => hash),
    ...earlier.map(hashOf),
  ];
  return [...new Set(hashes)].slice(0, KNEW_NOTES_MAX);
}

function hashOf({ note }: { note: string }): Sha256Hex {
  return noteHash(note);
}

/** The list from another place on at each look, as some of it finds room at a time. */
function inTurn<T>(list: readonly T[], looks: number): T[] {
  const from = list.length === 0 ? 0 : (looks * (KNEW_NOTES_MAX - 1)) % list.length;
  return [...list.slice(from), ...list.slice(0, from)];
}

function* stepsOf(draft: LookDraft, state: TrustState, knew: Buffer): Asking<void> {
  draft.trust.looks++;
  const head = yield* newestHead(draft.relayPubkey, knew);
  if (!head) return withoutHead(draft);
  if (!isFresh(draft, head)) return;
  if (!(yield* joinHead(draft, head))) return;
  const links = new LogLinks(draft.relayPubkey, head);
  yield* joinBeyond(draft, links);
  yield* comparePeerNotes(draft, links, state.pending);
  yield* proveRows(draft, links, state.rows);
}

/** A relay that showed a log and has none any more. One that never did is none that this host can look at. */
function withoutHead(draft: LookDraft): void {
  const { newest } = draft;
  if (newest) draft.isUnproven('head', [newest]);
}

/** Not of a cache. The third note without the `after` that was asked is of a relay that has become one of before. */
function isFresh(draft: LookDraft, { knew }: SignedHead): boolean {
  const { trust } = draft;
  if (knew === null && trust.givesAfter && !draft.isThird('after')) return false;
  trust.givesAfter = knew !== null;
  draft.clear('after');
  return true;
}

/** Joins the newest head to what was kept. False when that is not done yet: then nothing else is looked at. */
function* joinHead(draft: LookDraft, head: SignedHead): Asking<boolean> {
  const { newest } = draft;
  draft.clear('head');
  if (!newest) draft.keep(head);
  else if (newest.epoch !== head.epoch) return yield* joinOtherEpoch(draft, newest, head);
  else if (head.size < newest.size) return yield* joinSmaller(draft, newest, head);
  else return yield* joinLarger(draft, newest, head);
  return true;
}

/** Same epoch, and as large or larger. */
function* joinLarger(draft: LookDraft, kept: SignedHead, head: SignedHead): Asking<boolean> {
  const joined = yield* join(draft, kept, head, { head, documents: [] });
  if (joined === 'refused' && !draft.isUnproven('own', [kept, head])) return false;
  for (const what of ['own', 'old', 'link', 'end']) draft.clear(what);
  draft.keep(head);
  if (joined === 'joined') return true;
  // A store that was put back to a copy, and has grown since, does not know it.
  if (yield* isContradicted(kept, undefined)) draft.isNewEpochToCome(kept);
  draft.pushAgain();
  return true;
}

/** Same epoch, and smaller. */
function* joinSmaller(draft: LookDraft, kept: SignedHead, head: SignedHead): Asking<boolean> {
  if (yield* isPartOf(head, kept)) {
    // It knows what was kept, so this answer is only old: but what it signs as its newest after that is so only once.
    if (!isAfter(head, kept)) draft.owe();
    else if (draft.isThird('old')) return yield* goBack(draft, kept, head);
  } else if (isConfirmed(draft, kept, CONFIRM_MS)) return yield* goBack(draft, kept, head);
  return false;
}

/** The relay has been behind this note for so long. If not, that is to be confirmed. */
function isConfirmed(draft: LookDraft, { note }: SignedHead, afterMs: number): boolean {
  const { trust, nowMs } = draft;
  const hash = noteHash(note);
  if (trust.back?.hash !== hash) trust.back = { hash, sinceMs: nowMs };
  if (Math.abs(nowMs - trust.back.sinceMs) >= afterMs) return true;
  draft.owe(true);
  return false;
}

/** The relay is shown the note that it went behind. Unless it then begins a new epoch, its smaller head counts. */
function* goBack(draft: LookDraft, kept: SignedHead, head: SignedHead): Asking<boolean> {
  if ((yield* isContradicted(kept, draft.ownBefore(kept, head.epoch))) && draft.isNewEpochToCome(kept)) return false;
  draft.goBeyond(kept);
  const left = draft.keptOf(head.epoch);
  if (left && left.epoch !== kept.epoch && !isSameHead(left, head)) draft.goBeyond(left);
  draft.keep(head);
  draft.pushAgain();
  return true;
}

/** Another epoch: the links lead back to one that is kept, of which the end is known then. */
function* joinOtherEpoch(draft: LookDraft, newest: SignedHead, head: SignedHead): Asking<boolean> {
  const { trust } = draft;
  const links = new LogLinks(draft.relayPubkey, head);
  const ending = yield* links.endOf((epoch) => draft.keptOf(epoch) !== undefined, trust.walk);
  trust.walk = ending === 'further' ? links.walk : null;
  if (ending === 'further') {
    draft.owe(true);
    return false;
  }
  if (ending === 'refused') {
    if (!draft.isUnproven('link', [newest, head])) return false;
    enter(draft, head);
    return true;
  }
  const end = ending === 'none' ? undefined : ending.end;
  if (trust.left.includes(head.epoch) && end?.epoch !== newest.epoch) return yield* joinLeftEpoch(draft, newest, head);
  if (end && !(yield* joinEnd(draft, end, links))) return false;
  // Without an end that is kept its log begins anew, or with an epoch that this host never saw: that is no offence.
  enter(draft, head);
  return true;
}

/** An epoch that ended: its end covers what was kept of it, or the relay says that it was set back. */
function* joinEnd(draft: LookDraft, end: LogEnd, links: LogLinks): Asking<boolean> {
  const kept = draft.keptOf(end.epoch);
  if (!kept) return true;
  if (end.size < kept.size) {
    draft.setBack = { epoch: end.epoch, signed: kept.size, goesOnFrom: end.size };
    return true;
  }
  const joined = yield* join(draft, kept, end, links);
  if (joined === 'refused' && !draft.isUnproven('end', [kept, links.head], links.documents)) return false;
  if (joined !== 'joined') draft.pushAgain();
  return true;
}

/** An epoch that was left, and not begun anew, is shown again. */
function* joinLeftEpoch(draft: LookDraft, newest: SignedHead, head: SignedHead): Asking<boolean> {
  return isConfirmed(draft, newest, NEXT_LOOK_MS) && (yield* goBack(draft, newest, head));
}

/** A new epoch with its link says what it left behind. */
function enter(draft: LookDraft, head: SignedHead): void {
  draft.keep(head);
  draft.trust.beyond = [];
  for (const what of ['own', 'old', 'link', 'end']) draft.clear(what);
}

/** What the relay went behind without a word: a log that has outgrown it must hold it. */
function* joinBeyond(draft: LookDraft, links: LogLinks): Asking<void> {
  const { trust } = draft;
  const { head } = links;
  const still: typeof trust.beyond = [];
  for (const beyond of trust.beyond) {
    const gone = headOfKept(beyond);
    const what = `beyond ${noteHash(gone.note)}`;
    const isOver = yield* isJoinedOrLeft(draft, gone, links);
    const before = draft.ownHeadBefore(gone, head.epoch);
    // An epoch after another one proves nothing by itself: the relay must have left it, as an earlier note of it shows.
    const isSigned = isAfter(head, gone) && (gone.epoch === head.epoch || before.length > 0);
    const heads = [gone, head, ...before];
    const isTold = isOver || beyond.isTold || draft.isSaid('set-back-unsaid', isSigned, what, heads);
    const isToGrow = gone.epoch === head.epoch && gone.size > head.size;
    if (!isOver && (!isTold || isToGrow)) still.push({ ...beyond, isTold });
    else draft.clear(what);
  }
  trust.beyond = still;
}

function* isJoinedOrLeft(draft: LookDraft, gone: SignedHead, links: LogLinks): Asking<boolean> {
  const { head } = links;
  if (gone.epoch !== head.epoch) {
    const ending = yield* links.endOf((epoch) => epoch === gone.epoch);
    return ending !== 'none' && ending !== 'refused';
  }
  return gone.size <= head.size && (yield* join(draft, gone, head, { head, documents: [] })) !== 'refused';
}

/** Notes that one look compares. */
const COMPARED_MAX = 8;

/**
 * Notes of peers, held against the newest head: one log holds them all, or the relay contradicts itself, or refuses to
 * say. A note of an epoch that this host does not see says nothing by itself, since a restore may have taken it away.
 * The relay is then asked to sign that it goes on after it.
 */
function* comparePeerNotes(draft: LookDraft, links: LogLinks, pending: readonly PendingNote[]): Asking<void> {
  const { looks } = draft.trust;
  const from = pending.length > COMPARED_MAX ? (looks * COMPARED_MAX) % pending.length : 0;
  const inTurn = [...pending.slice(from), ...pending.slice(0, from)];
  for (const note of inTurn.slice(0, COMPARED_MAX)) {
    const what = `heard ${note.peerId} ${note.epoch}`;
    if (yield* isOver(draft, links, { note, heard: headOfPending(note), what })) {
      draft.pendingOver.push(note);
      draft.clear(what);
    } else draft.owe();
  }
  if (pending.length > COMPARED_MAX) draft.owe();
}

interface Compared {
  note: PendingNote;
  heard: SignedHead;
  /** The name under which its refusals are counted. */
  what: string;
}

function* isOver(draft: LookDraft, links: LogLinks, compared: Compared): Asking<boolean> {
  const { heard, what } = compared;
  const newest = links.head;
  if (heard.epoch !== newest.epoch) {
    if (echoedNote(heard, draft.trust)) return yield* areTwoEpochs(draft, newest, heard, what);
    return yield* joinEnded(draft, links, compared);
  }
  if (heard.size > newest.size) return yield* isWithheld(draft, newest, heard, what);
  const joined = yield* join(draft, heard, newest, { head: newest, documents: [] });
  return joined !== 'refused' || draft.isUnproven(what, [heard, newest]);
}

/** The peer was shown a larger log: this host's answer is old, or the relay withholds from it. */
function* isWithheld(draft: LookDraft, newest: SignedHead, heard: SignedHead, what: string): Asking<boolean> {
  if (yield* isPartOf(newest, heard)) {
    // It knows the peer's note, so this answer is only old: but what it signs as its newest after that is so only once.
    if (isAfter(newest, heard)) return draft.isThird(what) && draft.isSaid('withheld', true, what, [heard, newest]);
    draft.clear(what);
    return false;
  }
  if ((yield* isContradicted(heard, undefined)) && draft.isNewEpochToCome(heard)) return false;
  return draft.isSaid('withheld', isAfter(newest, heard), what, [heard, newest]);
}

/**
 * The relay signed the peer's note, of another epoch, after an own note of the present one; and now the newest one, of
 * the present epoch, after the peer's: each says that it is younger than the other.
 */
function* areTwoEpochs(draft: LookDraft, newest: SignedHead, heard: SignedHead, what: string): Asking<boolean> {
  const own = draft.ownBefore(heard, newest.epoch);
  if ((yield* isContradicted(heard, own)) && draft.isNewEpochToCome(heard)) return false;
  const heads = [heard, newest, ...draft.ownHeadBefore(heard, newest.epoch)];
  return draft.isSaid('two-epochs', isAfter(newest, heard), what, heads);
}

/** A note of an epoch that ended is held against the end that the newest head commits to. */
function* joinEnded(draft: LookDraft, links: LogLinks, { note, heard, what }: Compared): Asking<boolean> {
  const ending = yield* links.endOf((epoch) => epoch === heard.epoch);
  if (ending === 'further') return false;
  if (typeof ending === 'object' && heard.size <= ending.end.size) {
    const joined = yield* join(draft, heard, ending.end, links);
    return joined !== 'refused' || draft.isUnproven(what, [heard, links.head], links.documents);
  }
  draft.echo(note);
  // It is over when the newest head was signed after it, as the relay may have begun this epoch only since.
  return links.head.knew === null ? draft.nowMs - note.atMs >= NEXT_LOOK_MS : isAfter(links.head, heard);
}
