/**
 * Notes of peers, held against the newest head: one log holds them all, or the relay contradicts itself, or refuses to
 * say. A note of an epoch that this host does not see says nothing by itself, since a restore may have taken it away.
 * The relay is then asked to sign that it goes on after it.
 */
import { echoedNote } from './heard-notes.ts';
import { type LookDraft, NEXT_LOOK_MS } from './look-draft.ts';
import { type LogLinks, join } from './look-links.ts';
import { type Asking, isContradicted, isPartOf } from './look-questions.ts';
import type { PendingNote } from './relay-trust.ts';
import { type SignedHead, headOfPending, isAfter } from './signed-heads.ts';

/** Notes that one look compares. */
const COMPARED_MAX = 8;

export function* comparePeerNotes(draft: LookDraft, links: LogLinks, pending: readonly PendingNote[]): Asking<void> {
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
