/**
 * What paired hosts tell each other of a relay: its notes, which each host checks with the key that it has pinned.
 *
 * Pure. Nobody believes anybody: a note counts when the relay signed it, and what a peer says that it knew counts when
 * the relay signed the hash of it. What contradicts a note of this host is evidence at once. The rest waits for a look
 * (relay-look.ts), which asks the relay how the two belong together.
 */
import { DAY_MS } from '../../protocol/limits.ts';
import { KNEW_BYTES, type SeenEntry, noteHash } from '../../protocol/seen.ts';
import {
  type EvidenceRow,
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
  /** There is no room for it now: it is to be heard when it comes again. */
  isPassedOver?: true;
}

const NOTHING_NEW: Heard = { evidence: [], isOwed: false };

/** Takes note of what a peer told of the pinned relay. What is no note of that relay says nothing. */
export function hear(known: Known, heard: { peerId: PeerId; entry: SeenEntry }, { nowMs }: LookFacts): Heard {
  const { relayPubkey, trust, kept } = known;
  const { peerId, entry } = heard;
  if (entry.relay !== relayPubkey) return NOTHING_NEW;
  const told = openHead(entry.checkpoint, relayPubkey, { knew: entry.knew, peerId });
  if (!told) return NOTHING_NEW;
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
  if (!isRoomFor(told, known)) return { ...NOTHING_NEW, isPassedOver: true };
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

/**
 * What is told to a peer: the newest note; and every other time, while there is evidence that is younger than 30 days
 * and not dismissed, one of its notes in turn. `turn` counts what was told to the peer. Null before the first look.
 */
export function seenFor(
  { relayPubkey, trust, kept }: Pick<TrustState, 'relayPubkey' | 'trust' | 'kept'>,
  evidence: readonly EvidenceRow[],
  turn: number,
  { nowMs, randomBytes }: LookFacts,
): SeenEntry | null {
  const told = evidence
    .filter(({ foundAtMs, dismissedAtMs }) => dismissedAtMs === null && nowMs - foundAtMs < TOLD_EVIDENCE_MS)
    .flatMap(({ notes }) => notes);
  const inTurn = turn % 2 === 1 ? told[((turn - 1) / 2) % told.length] : undefined;
  const shown = inTurn ?? kept.find(({ epoch }) => epoch === trust.current);
  if (!shown) return null;
  const knew = shown.knew ?? randomBytes(KNEW_BYTES).toString('base64');
  // In the order of canonical JSON, in which it is sealed.
  return { checkpoint: shown.note, knew, relay: relayPubkey };
}
