/**
 * Proves what the log of the relay holds: signed checkpoints, that one continues another, and that a record is in it.
 *
 * Everything here is of durable records. An item is proven to its sender alone: all others get the answer of an item
 * that never existed.
 */
import { signCheckpoint } from '../../protocol/checkpoint.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { consistencyProof, inclusionProof, rootHash } from '../../protocol/merkle.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { relayRow } from '../core/decision.ts';
import { KNOWN_ROWS_ASKED_MAX } from '../core/decide-push.ts';
import { type DedupRow, rowKey } from '../core/rows.ts';
import { type TreeView, leafIndex } from '../store/log-tree.ts';
import { decodeWholeRecord } from '../store/record.ts';
import type { RelayStore } from '../store/relay-store.ts';

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
}

export class LogProofs {
  readonly #store: RelayStore;
  readonly #signer: Signer;
  /** The newest note that was signed. */
  #signed: { epoch: Epoch; size: number; note: string } | undefined;

  constructor(store: RelayStore, signer: Signer) {
    this.#store = store;
    this.#signer = signer;
  }

  /** The newest checkpoint of the current epoch, or the last one of an earlier epoch. */
  checkpoint(epoch?: string): string | undefined {
    const view = this.#store.tree.view(epoch);
    return view && this.#note(view);
  }

  /** Leaf 0 of an epoch: what it says of the epoch before. */
  link(epoch?: string): ProvenLeaf | undefined {
    const view = this.#store.tree.view(epoch);
    return view && this.#proven(view, 0, view.link());
  }

  /** That the tree of `to` leaves begins with that of `from`; `bad sizes` when it has not had them. */
  growth(from: number, to: number, epoch?: string): ProvenGrowth | 'bad sizes' | undefined {
    const view = this.#store.tree.view(epoch);
    if (!view) return undefined;
    if (from < 1 || from > to || to > view.size) return 'bad sizes';
    return { epoch: view.epoch, proof: consistencyProof(from, to, view.read) };
  }

  /** The record that accepted an item; `pruned` when only its hash is kept. Forgotten items are unknown. */
  async item(item: AcceptedItem): Promise<ProvenLeaf | 'unknown' | 'pruned'> {
    const known = this.#dedupRow(item);
    const view = known && this.#store.tree.viewOf(known.lsn);
    if (!known || !view) return 'unknown';
    const record = await this.#store.record(known.lsn);
    if (!record) return 'pruned';
    const { event } = decodeWholeRecord(known.lsn, record);
    if (event.type !== 'ItemAccepted' || event.senderPubkey !== known.senderPubkey || event.itemId !== item.itemId) {
      throw new Error('invariant: a dedup row names the record that accepted its item');
    }
    return this.#proven(view, leafIndex(view, known.lsn), record);
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

  #proven(view: TreeView, index: number, leaf: Buffer): ProvenLeaf {
    const proof = inclusionProof(index, view.size, view.read);
    return { epoch: view.epoch, checkpoint: this.#note(view), index, leaf, proof };
  }

  #note({ epoch, size, read }: TreeView): string {
    if (this.#signed?.epoch !== epoch || this.#signed.size !== size) {
      const note = signCheckpoint({ epoch, size, rootHash: rootHash(size, read) }, this.#signer);
      this.#signed = { epoch, size, note };
    }
    return this.#signed.note;
  }
}
