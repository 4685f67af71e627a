/**
 * What a host knows of a relay's log: rows, what a look asks and is answered, and what it finds. relay-look.ts decides
 * a look, heard-notes.ts what a peer tells.
 *
 * A note is plain (checkpoint.ts) and was verified with the relay's pinned key before it is in any of these.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch, ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerId } from './rows.ts';

/** Epochs of which a host keeps a note. */
export const KEPT_EPOCHS_MAX = 8;
/** Epochs that are known to have been left. */
export const LEFT_EPOCHS_MAX = 64;
/** Own notes that are kept, to be known again in what a peer knew. */
export const OWN_NOTES_MAX = 64;
/** Notes of peers that are not joined yet, of one relay. */
export const PENDING_NOTES_MAX = 64;

/** The newest note of an epoch that was joined to those before it. */
export interface KeptNote {
  epoch: Epoch;
  size: number;
  root: Sha256Hex;
  note: string;
  /** What this host knew as it asked, in base64; null where the note has no `after`. */
  knew: string | null;
  atMs: number;
}

/** The state of the looks at one relay. */
export interface RelayTrustRow {
  /** The epoch of the newest note; null before the first look. */
  current: Epoch | null;
  /** Those that the relay left, the last one last. */
  left: Epoch[];
  /** The last notes of this host, the newest one last; `hash` is `noteHash` (seen.ts). */
  ownNotes: { epoch: Epoch; hash: Sha256Hex; note: string }[];
  /** Refusals in a row, by what was refused. */
  refused: Record<string, Refusals>;
  /** The relay showed less than it had, or an epoch that it had left: since when, and whether it was shown the note. */
  back: { hash: Sha256Hex; sinceMs: number } | null;
  /** Notes whose contradiction the relay has answered with a new epoch, which is to be seen. */
  answered: Sha256Hex[];
  /** What was kept before the relay went back behind it. */
  beyond: (KeptNote & { isTold: boolean })[];
  /** Notes of peers of epochs that this host does not see: the relay is asked to sign that it goes on after them. */
  echoes: { peerId: PeerId; epoch: Epoch; hash: Sha256Hex }[];
  /** The links back from a new epoch were followed so far. `leaf` is the hash of the first leaf of that epoch. */
  walk: { leaf: Sha256Hex; links: number; at: LogEnd } | null;
  /** The relay signed a note with `after` before. */
  givesAfter: boolean;
  /** Looks that ended: what has no room in one `knew` takes turns. */
  looks: number;
  /** When all was pushed again last, the wait before it is done once more, and whether that is due. */
  pushedAgain: { atMs: number; waitMs: number; isDue: boolean } | null;
}

export const NEW_TRUST: RelayTrustRow = {
  current: null,
  left: [],
  ownNotes: [],
  refused: {},
  back: null,
  answered: [],
  beyond: [],
  echoes: [],
  walk: null,
  givesAfter: false,
  looks: 0,
  pushedAgain: null,
};

export interface Refusals {
  times: number;
  /** Of the last one that was counted. */
  atMs: number;
}

/** How an epoch ended, as the link of the next one says. */
export interface LogEnd {
  epoch: Epoch;
  size: number;
  root: Sha256Hex;
}

/** A note of a peer that is not joined yet. */
export interface PendingNote {
  peerId: PeerId;
  epoch: Epoch;
  note: string;
  /** What the peer knew as it asked, when the relay signed the hash of it. */
  knew: string | null;
  atMs: number;
}

export const EVIDENCE_KINDS = ['fork', 'set-back-unsaid', 'withheld', 'two-epochs', 'unproven', 'not-in-log'] as const;
export type EvidenceKind = (typeof EVIDENCE_KINDS)[number];

export interface EvidenceRow {
  /** Of the JCS of the texts of the notes, sorted: one text can be signed in many ways. */
  digest: Sha256Hex;
  relayPubkey: PublicKey;
  epoch: Epoch;
  kind: EvidenceKind;
  /** A signed contradiction; else words that rest on what was not shown. */
  isSigned: boolean;
  /** `peerId` is null for a note of this host. */
  notes: { note: string; knew: string | null; peerId: PeerId | null }[];
  /** Answers of link or consistency that join them, as served. */
  proof: unknown[];
  foundAtMs: number;
  dismissedAtMs: number | null;
  /** What is not in the log. */
  item?: { itemId: ItemId; rowId: number };
}

/** Evidence that this host keeps. */
export interface KeptEvidence extends EvidenceRow {
  /** Given once: no other evidence ever has it, whatever gives way. */
  number: number;
}

/** What a look begins with. */
export interface TrustState {
  relayPubkey: PublicKey;
  trust: RelayTrustRow;
  /** At most `KEPT_EPOCHS_MAX`. */
  kept: KeptNote[];
  /** At most `PENDING_NOTES_MAX`. */
  pending: PendingNote[];
  /** At most eight, the oldest first. */
  rows: RowToProve[];
}

/** An outbox row that the relay accepted and nobody confirmed. */
export interface RowToProve {
  rowId: number;
  itemId: ItemId;
  target: PublicKey;
  acceptedAtMs: number;
  /** Of the acceptance. */
  epoch: Epoch;
  proven: LogPlace | null;
  denied: Refusals | null;
  wireHash: Sha256Hex;
  seq: number;
}

/** A log that is known to hold a record. */
export interface LogPlace {
  epoch: Epoch;
  size: number;
}

/** What a look asks the relay. The questions of one look are asked one after another. */
export type Question =
  /** The newest checkpoint, signed after `knew`. */
  | { ask: 'head'; knew: Buffer }
  | { ask: 'headAt'; epoch: Epoch; size: number }
  | { ask: 'consistency'; epoch: Epoch; from: number; to: number }
  | { ask: 'link'; epoch: Epoch }
  /** In the first `size` leaves of the epoch that has the record; absent: in all of them. */
  | { ask: 'proof'; itemId: ItemId; target: PublicKey; size?: number }
  /** A note that the relay signed is shown to it; refused with 409 when it begins a new epoch therefore. */
  | { ask: 'show'; note: string; knew?: string; older?: string };

export type Answer =
  /** A string for notes. */
  | { type: 'answer'; document: unknown }
  | { type: 'refused'; status: number; code: string }
  /** No connection, 429 or 5xx: the look does not end. */
  | { type: 'none' };

export interface LookFacts {
  nowMs: number;
  /** So many fresh bytes. */
  randomBytes: (count: number) => Buffer;
}

export interface LookOutcome {
  /** False when a question was not answered: then nothing else counts, and the look stays owed. */
  isEnded: boolean;
  trust: RelayTrustRow;
  kept: KeptNote[];
  /** To be deleted. */
  pendingOver: PendingNote[];
  evidence: EvidenceRow[];
  /** Those that were asked about; of some it is not known. */
  rows: { rowId: number; proven?: LogPlace; denied?: Refusals }[];
  /**
   * True: the rows are pushed again as in a new epoch ("Receiving host rules", rules 7 and 8). It is bounded already.
   */
  pushAgain: boolean;
  /** Another look is owed: within a minute when `isSoon`, else within ten. */
  isOwed: boolean;
  isSoon: boolean;
  /** The relay says that its store was set back: of the epoch it had signed so many leaves, and goes on from fewer. */
  setBack?: { epoch: Epoch; signed: number; goesOnFrom: number };
}
