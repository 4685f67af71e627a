/**
 * What paired hosts tell each other of a relay: its notes, which each host checks with the key that it has pinned.
 *
 * Pure. Nobody believes anybody: a note counts when the relay signed it, and what a peer says that it knew counts when
 * the relay signed the hash of it. What contradicts a note of this host is evidence at once. The rest waits for a look
 * (relay-look.ts), which asks the relay how the two belong together.
 *
 * The newest note is told until the peer says that it has heard it. Told again it would say nothing new: what a relay
 * does later shows in the note of a later look. Evidence is told whether it was heard or not.
 */
import { DAY_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { KNEW_BYTES, type SeenEntry, markOf, noteHash } from '../../protocol/seen.ts';
import {
  type EvidenceRow,
  type KeptNote,
  type LookFacts,
  PENDING_NOTES_MAX,
  type PendingNote,
  type RelayTrustRow,
  type TrustState,
} from './relay-trust.ts';
import type { PeerId } from './rows.ts';
import {
  type SignedHead,
  areForked,
  evidenceOf,
  headOfKept,
  headOfPending,
  isSameHead,
  knowsOf,
  openHead,
} from './signed-heads.ts';

/** While it is younger, evidence is told to peers. */
export const TOLD_EVIDENCE_MS = 30 * DAY_MS;

type OwnNote = RelayTrustRow['ownNotes'][number];
type Known = Pick<TrustState, 'relayPubkey' | 'trust' | 'kept' | 'pending'>;

interface Heard {
  /** To be stored, in the place of what is pending of this peer and epoch. */
  pending?: PendingNote;
  evidence: EvidenceRow[];
  /** A look is owed, soon. */
  isOwed: boolean;
  /** Why it is neither known nor kept. What found no room may be shown again. */
  passedOver?: 'no note' | 'no room';
}

const NOTHING_NEW: Heard = { evidence: [], isOwed: false };
const NO_NOTE: Heard = { ...NOTHING_NEW, passedOver: 'no note' };
const NO_ROOM: Heard = { ...NOTHING_NEW, passedOver: 'no room' };

/** Takes note of what a peer told of the pinned relay. What is no note of that relay says nothing. */
export function hear(known: Known, heard: { peerId: PeerId; entry: SeenEntry }, { nowMs }: LookFacts): Heard {
  const { relayPubkey, trust, kept } = known;
  const { peerId, entry } = heard;
  if (entry.relay !== relayPubkey) return NO_NOTE;
  const told = openHead(entry.checkpoint, relayPubkey, { knew: entry.knew, peerId });
  if (!told) return NO_NOTE;
  const forked = headsKnown(known).find((head) => areForked(head, told));
  if (forked) {
    const heads: [SignedHead, SignedHead] = [forked, told];
    const fork = evidenceOf({ relayPubkey, kind: 'fork', isSigned: true, heads, nowMs });
    return { evidence: [fork], isOwed: true };
  }
  if (kept.some((note) => isSameHead(note, told)) && echoedNote(told, trust) === undefined) return NOTHING_NEW;
  const isEchoed = trust.echoes.some(({ hash }) => hash === noteHash(told.note));
  const { epoch, note, knew } = told;
  if (isEchoed || known.pending.some((waiting) => waiting.peerId === peerId && waiting.note === note))
    return NOTHING_NEW;
  if (!isRoomFor(told, known)) return NO_ROOM;
  return { pending: { peerId, epoch, note, knew, atMs: nowMs }, evidence: [], isOwed: true };
}

function headsKnown({ trust, kept, pending }: Known): SignedHead[] {
  const own = [...kept, ...trust.beyond].map(headOfKept);
  return [...own, ...pending.map(headOfPending)];
}

/** One note a peer and epoch: the largest, and of these the last, as the peer has joined it to those before. */
function isRoomFor({ epoch, size, peerId }: SignedHead, { pending }: Known): boolean {
  const waiting = pending.find((one) => one.peerId === peerId && one.epoch === epoch);
  return waiting ? headOfPending(waiting).size <= size : pending.length < PENDING_NOTES_MAX;
}

/**
 * An own note of the present epoch after which the relay signed this one, of another epoch: so the present one was left
 * before. Undefined when there is none.
 */
export function echoedNote(head: SignedHead, { current, ownNotes }: RelayTrustRow): OwnNote | undefined {
  if (head.epoch === current) return undefined;
  return ownNotes.find(({ epoch, hash }) => epoch === current && knowsOf(head, hash));
}

/** What a host tells its peers of a relay until it has looked again. */
export interface ToldNote {
  entry: SeenEntry;
  /** By which peers say that they have heard it. */
  mark: string;
  /** Those that did. It is stored nowhere: after a start they are told once more. */
  heardBy: Set<PeerId>;
}

export function newestNoteOf({ trust, kept }: Pick<TrustState, 'trust' | 'kept'>): KeptNote | undefined {
  return kept.find(({ epoch }) => epoch === trust.current);
}

/** Returns what this host tells its peers of its newest note. Undefined before its first look. */
export function toldNoteOf(
  known: Pick<TrustState, 'relayPubkey' | 'trust' | 'kept'>,
  facts: LookFacts,
): ToldNote | undefined {
  const newest = newestNoteOf(known);
  if (!newest) return undefined;
  const entry = entryOf(newest, known.relayPubkey, facts);
  return { entry, mark: markOf(entry), heardBy: new Set() };
}

/** True when there is nothing that the peer has not heard, nor evidence to tell. */
export function isAllHeard(
  told: ToldNote | undefined,
  evidence: readonly EvidenceRow[],
  peerId: PeerId,
  nowMs: number,
): boolean {
  return told?.heardBy.has(peerId) === true && notesToTell(evidence, nowMs).length === 0;
}

/**
 * What is told to a peer: the newest note; and every other time, while there is evidence that is younger than 30 days
 * and not dismissed, one of its notes in turn. `turn` counts what was told to the peer. Null before the first look.
 */
export function seenFor(
  told: ToldNote | undefined,
  { relayPubkey, evidence }: { relayPubkey: PublicKey; evidence: readonly EvidenceRow[] },
  turn: number,
  facts: LookFacts,
): SeenEntry | null {
  const notes = notesToTell(evidence, facts.nowMs);
  const inTurn = turn % 2 === 1 ? notes[((turn - 1) / 2) % notes.length] : undefined;
  return inTurn ? entryOf(inTurn, relayPubkey, facts) : (told?.entry ?? null);
}

function notesToTell(evidence: readonly EvidenceRow[], nowMs: number): EvidenceRow['notes'] {
  return evidence
    .filter(({ foundAtMs, dismissedAtMs }) => dismissedAtMs === null && nowMs - foundAtMs < TOLD_EVIDENCE_MS)
    .flatMap(({ notes }) => notes);
}

function entryOf(
  { note, knew }: Pick<KeptNote, 'note' | 'knew'>,
  relay: PublicKey,
  { randomBytes }: LookFacts,
): SeenEntry {
  // In the order of canonical JSON, in which it is sealed.
  return { checkpoint: note, knew: knew ?? randomBytes(KNEW_BYTES).toString('base64'), relay };
}
