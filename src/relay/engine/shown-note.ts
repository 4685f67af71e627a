/**
 * Judges a checkpoint that a host shows to the relay, as this relay signed it.
 *
 * Pure but for the tree that it reads. A relay whose store was put back to a copy cannot know it by itself. It learns
 * it from what it signed before:
 *   - a note of the current epoch that is no head of its log, or larger than it;
 *   - a note of an epoch that it does not know, signed after a note of its current epoch: `after` of the one is the
 *     hash of `knew`, which holds the hash of the other.
 *
 * Nobody but the holder of the relay's key can make such a note, and each ends one epoch: when another has begun, the
 * note contradicts nothing any more. What lies beyond the end of an earlier epoch is no news: the epoch ended since.
 */
import { type Checkpoint, plainNote } from '../../protocol/checkpoint.ts';
import type { Epoch } from '../../protocol/names.ts';
import { rootHash } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { afterOf, decodeKnew, knewHolds, noteHash } from '../../protocol/seen.ts';
import type { LogTree, TreeView } from '../store/log-tree.ts';

export interface ShownNote {
  note: string;
  /** Base64. */
  knew?: string;
  /** A note of the current epoch that `knew` holds. */
  older?: string;
}

/**
 * `malformed`: a note is no plain note of this relay, or `knew` has another length. `known`: the note is a head of an
 * epoch of this log. `contradicted`: the current epoch, which is to end.
 */
export type ShownVerdict =
  | 'malformed'
  | { known: boolean; contradicted?: undefined }
  | { known: false; contradicted: Epoch };

export function judgeNote(shown: ShownNote, relayPubkey: PublicKey, tree: Pick<LogTree, 'view'>): ShownVerdict {
  const { checkpoint } = plainNote(shown.note, relayPubkey) ?? {};
  const older = shown.older === undefined ? undefined : plainNote(shown.older, relayPubkey);
  const knew = shown.knew === undefined ? undefined : decodeKnew(shown.knew);
  const isMalformed = (shown.older !== undefined && !older) || (shown.knew !== undefined && !knew);
  if (!checkpoint || isMalformed) return 'malformed';
  const current = currentView(tree);
  const view = tree.view(checkpoint.epoch);
  if (!view) {
    const isLater = older?.checkpoint.epoch === current.epoch && isAfter(checkpoint, knew, older.note);
    return isLater ? { known: false, contradicted: current.epoch } : { known: false };
  }
  if (isHead(checkpoint, view)) return { known: true };
  return view.epoch === current.epoch ? { known: false, contradicted: current.epoch } : { known: false };
}

export function currentView(tree: Pick<LogTree, 'view'>): TreeView {
  const view = tree.view();
  if (!view) throw new Error('invariant: a relay that serves has an epoch');
  return view;
}

function isHead({ size, rootHash: root }: Checkpoint, view: TreeView): boolean {
  return size <= view.size && rootHash(size, view.read).equals(root);
}

/** Says whether the relay signed the checkpoint after this note. */
function isAfter({ after }: Checkpoint, knew: Buffer | undefined, note: string): boolean {
  return knew !== undefined && after?.equals(afterOf(knew)) === true && knewHolds(knew, noteHash(note));
}
