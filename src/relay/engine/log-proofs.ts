/**
 * Proves what the log of the relay holds: signed checkpoints, that one continues another, and that a record is in it.
 * Judges a checkpoint that a host shows to the relay, as this relay signed it.
 *
 * Everything here is of durable records. An item is proven to its sender alone: all others get the answer of an item
 * that never existed.
 *
 * A relay whose store was put back to a copy cannot know it by itself. It learns it from what it signed before:
 *   - a note of the current epoch that is no head of its log, or larger than it;
 *   - a note of an epoch that it does not know, signed after a note of its current epoch: `after` of the one is the
 *     hash of `knew`, which holds the hash of the other.
 *
 * Nobody but the holder of the relay's key can make such a note, and each ends one epoch: when another has begun, the
 * note contradicts nothing any more. What lies beyond the end of an earlier epoch is no news: the epoch ended since.
 */
import { keepRecent } from '../../lib/recent.ts';
import { type Checkpoint, signCheckpoint, plainNote } from '../../protocol/checkpoint.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch, ItemId } from '../../protocol/names.ts';
import { consistencyProof, inclusionProof, rootHash } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { relayRow } from '../core/decision.ts';
import { KNOWN_ROWS_ASKED_MAX } from '../core/decide-push.ts';
import { type DedupRow, rowKey } from '../core/rows.ts';
import { type TreeView, leafIndex, type LogTree } from '../store/log-tree.ts';
import { decodeWholeRecord } from '../store/record.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { afterOf, decodeKnew, knewHolds, noteHash } from '../../protocol/seen.ts';

/** That a leaf is in the tree of a checkpoint. */
export interface ProvenLeaf {
  epoch: Epoch;
  /** A signed note. */
  checkpoint: string;
  index: number;
  leaf: Buffer;
  proof: Buffer[];
}

interface ProvenGrowth {
  epoch: Epoch;
  proof: Buffer[];
}

/** An item as it was accepted: of any of these senders, for any of these targets, those named first preferred. */
interface AcceptedItem {
  itemId: ItemId;
  senders: readonly PublicKey[];
  targets: readonly PublicKey[];
  /** Leaves of the tree that it is to be proven in: all that there are when absent. */
  size?: number | undefined;
}

/** So many epochs that begin within a day are not looked behind. */
const EPOCHS_LOOKED_AT = 64;

/** Heads that stay signed: a host asks for all of its proofs under the one that it has, while the log grows. */
const HEADS_MAX = 64;

interface SignedHead {
  checkpoint: Checkpoint;
  /** Absent until it is asked for. */
  note?: string;
}

export class LogProofs {
  readonly #store: RelayStore;
  readonly #signer: Signer;
  /** By epoch and size; the one that was asked for last is the last. */
  readonly #heads = new Map<string, SignedHead>();

  #cosigned: { epoch: Epoch; note: string } | undefined;

  constructor(store: RelayStore, signer: Signer) {
    this.#store = store;
    this.#signer = signer;
  }

  /** The newest checkpoint of the current epoch, or the last one of an earlier epoch. */
  checkpoint(epoch?: string): string | undefined {
    const view = this.#store.tree.view(epoch);
    return view && this.#note(view, view.size);
  }

  /** That of the first `size` leaves; `undefined` when the tree of the epoch has not had so many. */
  checkpointAt(size: number, epoch?: string): string | undefined {
    const view = this.#store.tree.view(epoch);
    return view && isSizeOf(view, size) ? this.#note(view, size) : undefined;
  }

  /** The newest one of the current epoch that witnesses cosigned, with their cosignatures. */
  get cosigned(): string | undefined {
    const { epoch } = currentView(this.#store.tree);
    return this.#cosigned?.epoch === epoch ? this.#cosigned.note : undefined;
  }

  noteCosigned(cosigned: { epoch: Epoch; note: string } | undefined): void {
    this.#cosigned = cosigned;
  }

  /** Says whether the log has an epoch of this name. */
  isEpoch(epoch: string): boolean {
    return this.#store.tree.view(epoch) !== undefined;
  }

  /** When the last epoch began because something contradicted the log, of those whose first record is kept. */
  async lastContradictedMs(): Promise<number | undefined> {
    for (const { firstLsn } of this.#store.tree.newest(EPOCHS_LOOKED_AT).toReversed()) {
      const record = await this.#store.record(firstLsn);
      const event = record && decodeWholeRecord(firstLsn, record).event;
      if (event?.type !== 'EpochRotated') return undefined;
      if (event.reason === 'log-contradicted' || event.reason === 'log-in-doubt') return event.atMs;
    }
    return undefined;
  }

  /** The newest of all, with these 32 bytes: it says that no newer one was signed before the relay saw them. */
  checkpointAfter(after: Buffer): string {
    const view = currentView(this.#store.tree);
    return signCheckpoint({ ...this.#headOf(view, view.size).checkpoint, after }, this.#signer);
  }

  /** Judges a note that a host shows. */
  judge(shown: ShownNote): ShownVerdict {
    return judgeNote(shown, this.#signer.publicKey, this.#store.tree);
  }

  /** Leaf 0 of an epoch: what it says of the epoch before. */
  link(epoch?: string): ProvenLeaf | undefined {
    const view = this.#store.tree.view(epoch);
    return view && this.#proven(view, 0, view.link(), view.size);
  }

  /** That the tree of `to` leaves begins with that of `from`; `bad sizes` when it has not had them. */
  growth(from: number, to: number, epoch?: string): ProvenGrowth | 'bad sizes' | undefined {
    const view = this.#store.tree.view(epoch);
    if (!view) return undefined;
    if (from > to || !isSizeOf(view, from) || !isSizeOf(view, to)) return 'bad sizes';
    return { epoch: view.epoch, proof: consistencyProof(from, to, view.read) };
  }

  /**
   * The record that accepted an item, in the tree of the epoch that accepted it. `unknown`: forgotten, or not among the
   * leaves that `size` names; `pruned`: only its hash is kept; `bad size`: the tree has not had so many leaves.
   */
  async item(item: AcceptedItem): Promise<ProvenLeaf | 'unknown' | 'pruned' | 'bad size'> {
    const known = this.#dedupRow(item);
    const view = known && this.#store.tree.viewOf(known.lsn);
    if (!known || !view) return 'unknown';
    const { size = view.size } = item;
    const index = leafIndex(view, known.lsn);
    if (!isSizeOf(view, size)) return 'bad size';
    if (index >= size) return 'unknown';
    const record = await this.#store.record(known.lsn);
    if (!record) return 'pruned';
    const { event } = decodeWholeRecord(known.lsn, record);
    if (event.type !== 'ItemAccepted' || event.senderPubkey !== known.senderPubkey || event.itemId !== item.itemId) {
      throw new Error('invariant: a dedup row names the record that accepted its item');
    }
    return this.#proven(view, index, record, size);
  }

  #dedupRow({ itemId, senders, targets }: AcceptedItem): DedupRow | undefined {
    const { dedupPurgedMs } = relayRow(this.#store);
    // An item is known under these keys, if it is known.
    const known = senders.filter((sender) => this.#store.get('sender', sender));
    if (known.length * targets.length > KNOWN_ROWS_ASKED_MAX) return undefined;
    for (const target of targets) {
      for (const sender of known) {
        const row = this.#store.get('dedup', rowKey.dedup(sender, target, itemId));
        if (row && row.dedupUntilMs > dedupPurgedMs) return row;
      }
    }
    return undefined;
  }

  #proven(view: TreeView, index: number, leaf: Buffer, size: number): ProvenLeaf {
    const proof = inclusionProof(index, size, view.read);
    return { epoch: view.epoch, checkpoint: this.#note(view, size), index, leaf, proof };
  }

  #note(view: TreeView, size: number): string {
    const head = this.#headOf(view, size);
    return (head.note ??= signCheckpoint(head.checkpoint, this.#signer));
  }

  /** The first leaves of a tree never change, and neither does their head. */
  #headOf({ epoch, read }: TreeView, size: number): SignedHead {
    const key = `${epoch} ${size}`;
    const head = this.#heads.get(key) ?? { checkpoint: { epoch, size, rootHash: rootHash(size, read) } };
    keepRecent(this.#heads, key, head, HEADS_MAX);
    return head;
  }
}

function isSizeOf(view: TreeView, size: number): boolean {
  return size >= 1 && size <= view.size;
}

interface ShownNote {
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
type ShownVerdict = 'malformed' | { known: boolean; contradicted?: undefined } | { known: false; contradicted: Epoch };

function judgeNote(shown: ShownNote, relayPubkey: PublicKey, tree: Pick<LogTree, 'view'>): ShownVerdict {
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

function currentView(tree: Pick<LogTree, 'view'>): TreeView {
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
