/**
 * Heads of a relay's log as the relay signed them, how two of them contradict each other, and the evidence of it. Pure.
 */
import { canonicalBytes } from '../../protocol/documents.ts';
import { noteText, plainNote } from '../../protocol/checkpoint.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { afterOf, decodeKnew, knewHolds, noteHash } from '../../protocol/seen.ts';
import type { EvidenceKind, EvidenceRow, KeptNote, LogEnd, PendingNote } from './relay-trust.ts';
import type { PeerId } from './rows.ts';

/** The relay's word for the first `size` leaves of an epoch. */
export interface SignedHead extends LogEnd {
  /** A plain note. */
  note: string;
  /** In base64; null where the note has no `after`, or what it is the hash of is not known. */
  knew: string | null;
  /** Null when this host asked for it. */
  peerId: PeerId | null;
}

/** The head in a note, if the relay signed it. `knew` counts when the relay signed the hash of it. */
export function openHead(
  note: string,
  relayPubkey: PublicKey,
  { knew = null, peerId = null }: { knew?: string | null; peerId?: PeerId | null } = {},
): SignedHead | undefined {
  const opened = plainNote(note, relayPubkey);
  if (!opened) return undefined;
  const { epoch, size, rootHash, after } = opened.checkpoint;
  const bytes = knew === null ? undefined : decodeKnew(knew);
  const isSigned = bytes !== undefined && after !== undefined && after.equals(afterOf(bytes));
  const root = rootHash.toString('hex') as Sha256Hex;
  return { epoch, size, root, note: opened.note, knew: isSigned ? knew : null, peerId };
}

export function headOfKept({ epoch, size, root, note, knew }: KeptNote): SignedHead {
  return { epoch, size, root, note, knew, peerId: null };
}

/** Pending notes were verified before they were stored, and are only read here. */
export function headOfPending({ epoch, note, knew, peerId }: PendingNote): SignedHead {
  const [, size, root = ''] = note.split('\n', 3);
  return {
    epoch,
    size: Number(size),
    root: Buffer.from(root, 'base64').toString('hex') as Sha256Hex,
    note,
    knew,
    peerId,
  };
}

export function isSameHead(one: LogEnd, other: LogEnd): boolean {
  return one.epoch === other.epoch && one.size === other.size && one.root === other.root;
}

/** One epoch and size, and two roots: no log has both. */
export function areForked(one: LogEnd, other: LogEnd): boolean {
  return one.epoch === other.epoch && one.size === other.size && one.root !== other.root;
}

/** Says whether the relay signed `later` after it had signed `earlier`. */
export function isAfter(later: SignedHead, earlier: SignedHead): boolean {
  return knowsOf(later, noteHash(earlier.note));
}

export function knowsOf({ knew }: SignedHead, hash: Sha256Hex): boolean {
  const bytes = knew === null ? undefined : decodeKnew(knew);
  return bytes !== undefined && knewHolds(bytes, hash);
}

interface Found {
  relayPubkey: PublicKey;
  kind: EvidenceKind;
  isSigned: boolean;
  /** At least one; the first names the epoch. */
  heads: readonly SignedHead[];
  proof?: readonly unknown[];
  item?: EvidenceRow['item'];
  nowMs: number;
}

export function evidenceOf({ relayPubkey, kind, isSigned, heads, proof = [], item, nowMs }: Found): EvidenceRow {
  const [first] = heads;
  if (!first) throw new Error('invariant: evidence is of a note');
  const texts = heads.map(({ note }) => noteText(note)).toSorted();
  return {
    // One head may leave out several items.
    digest: sha256Hex(canonicalBytes(item ? [...texts, item.itemId] : texts)),
    relayPubkey,
    epoch: first.epoch,
    kind,
    isSigned,
    notes: heads.map(({ note, knew, peerId }) => ({ note, knew, peerId })),
    proof: [...proof],
    foundAtMs: nowMs,
    dismissedAtMs: null,
    ...(item && { item }),
  };
}
