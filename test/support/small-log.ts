/** A log of a relay in memory, with the trees, proofs and signatures of a real one: cheap to copy and to cut. */
import { type Checkpoint, signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { type Sha256Hex, encodeBase64 } from '../../src/protocol/encodings.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { logLinkBytes } from '../../src/protocol/log-link.ts';
import {
  type HashReader,
  consistencyProof,
  inclusionProof,
  leafHash,
  nodeHash,
  rootHash,
} from '../../src/protocol/merkle.ts';
import { afterOf } from '../../src/protocol/seen.ts';
import type { LogEnd } from '../../src/host/core/relay-trust.ts';
import { relay } from './hosts.ts';

/** One epoch. The hashes of perfect subtrees are kept, so that a leaf more costs one hash or two. */
export class SmallLog {
  readonly epoch: Epoch;
  readonly previous: LogEnd | null;
  readonly #leaves: Buffer[];
  readonly #levels: Buffer[][];
  /** By their size: what was signed stays so, as the log only grows. */
  readonly #notes = new Map<number, string>();

  /** Begins with the link to how the epoch before ended; as a copy, with the first leaves of that log. */
  constructor(epoch: Epoch, previous: LogEnd | null = null, of?: { leaves: Buffer[]; levels: Buffer[][] }) {
    this.epoch = epoch;
    this.previous = previous;
    this.#leaves = of?.leaves ?? [];
    this.#levels = of?.levels ?? [];
    if (of) return;
    const before = previous && { epoch: previous.epoch, size: previous.size, root_hash: previous.root };
    this.append(logLinkBytes({ relay_pubkey: relay.key, epoch, previous: before }));
  }

  get size(): number {
    return this.#leaves.length;
  }

  append(...leaves: (Buffer | string)[]): this {
    for (const leaf of leaves) {
      const bytes = Buffer.from(leaf);
      this.#leaves.push(bytes);
      let hash: Buffer | undefined = leafHash(bytes);
      for (let level = 0; hash; level++) {
        const hashes: Buffer[] = (this.#levels[level] ??= []);
        hashes.push(hash);
        const left: Buffer | undefined = hashes.length % 2 === 0 ? hashes.at(-2) : undefined;
        hash = left && nodeHash(left, hash);
      }
    }
    return this;
  }

  /** A log of its own, of the first `size` leaves. */
  copy(size = this.size): SmallLog {
    const levels = this.#levels.map((hashes, level) => hashes.slice(0, Math.floor(size / 2 ** level)));
    return new SmallLog(this.epoch, this.previous, { leaves: this.#leaves.slice(0, size), levels });
  }

  /** The next epoch, which says that this one ended with its first `size` leaves. */
  next(epoch: Epoch, size = this.size): SmallLog {
    return new SmallLog(epoch, this.end(size));
  }

  end(size = this.size): LogEnd {
    return { epoch: this.epoch, size, root: this.root(size).toString('hex') as Sha256Hex };
  }

  root(size = this.size): Buffer {
    return rootHash(size, this.#read);
  }

  checkpoint(size = this.size): Checkpoint {
    return { epoch: this.epoch, size, rootHash: this.root(size) };
  }

  /** A plain note of the first `size` leaves; with `knew`, one that is signed after it. */
  note(size = this.size, knew?: Buffer): string {
    if (knew) return signCheckpoint({ ...this.checkpoint(size), after: afterOf(knew) }, relay.signer);
    const note = this.#notes.get(size) ?? signCheckpoint(this.checkpoint(size), relay.signer);
    this.#notes.set(size, note);
    return note;
  }

  /** The answer of `log/link`, and of `log/proof` for another leaf. */
  leafAt(index: number, size = this.size): object {
    return {
      relay_pubkey: relay.key,
      epoch: this.epoch,
      checkpoint: this.note(size),
      index,
      record_b64: encodeBase64(this.#leaves[index] ?? Buffer.alloc(0)),
      proof: inclusionProof(index, size, this.#read).map(encodeBase64),
    };
  }

  /** The answer of `log/consistency`; undefined where it is refused. */
  consistency(from: number, to: number): object | undefined {
    if (from < 1 || from > to || to > this.size) return undefined;
    const proof = consistencyProof(from, to, this.#read).map(encodeBase64);
    return { relay_pubkey: relay.key, epoch: this.epoch, from, to, proof };
  }

  readonly #read: HashReader = (level, index) => {
    const hash = this.#levels[level]?.[index];
    if (!hash) throw new RangeError('the subtree is not in the log');
    return hash;
  };
}
