/** The log of one epoch of a relay, and what the relay signs of it: small, in memory, with as many copies as wanted. */
import { signCheckpoint } from '../../src/protocol/checkpoint.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { logLinkBytes } from '../../src/protocol/log-link.ts';
import { afterOf, makeKnew, noteHash } from '../../src/protocol/seen.ts';
import { epochNumbered } from './epochs.ts';
import type { ConsistencyAnswer, EvidenceDocument, LinkAnswer } from './evidence-oracle.ts';
import { relay, type TestHost } from './hosts.ts';
import { naiveConsistency, naivePath, naiveRoot } from './merkle-oracle.ts';

/** A note, and the `knew` that the relay signed with it. */
export interface Signed {
  note: string;
  knew?: string;
}

export class SignedLog {
  readonly epoch: Epoch;
  readonly #by: TestHost;
  readonly #leaves: Buffer[];

  private constructor(epoch: Epoch, leaves: Buffer[], by: TestHost) {
    this.epoch = epoch;
    this.#leaves = leaves;
    this.#by = by;
  }

  /** Begins with the link alone. `before`: the log that the epoch goes on from. */
  static begin(number: number, before: SignedLog | null = null, by: TestHost = relay): SignedLog {
    const epoch = epochNumbered(number);
    const end = before && { epoch: before.epoch, size: before.size, root: naiveRoot(before.#leaves) };
    const previous = end && { epoch: end.epoch, size: end.size, root_hash: end.root.toString('hex') as never };
    return new SignedLog(epoch, [logLinkBytes({ relay_pubkey: by.key, epoch, previous })], by);
  }

  get size(): number {
    return this.#leaves.length;
  }

  grow(...texts: string[]): this {
    this.#leaves.push(...texts.map((text) => Buffer.from(text)));
    return this;
  }

  /** Another history: the first `size` leaves, and more of its own from then on. */
  copy(size = this.size): SignedLog {
    return new SignedLog(this.epoch, this.#leaves.slice(0, size), this.#by);
  }

  /** Signs the head of the first `size` leaves; after these notes, if any are given. */
  sign({ size = this.size, after }: { size?: number; after?: readonly Signed[] } = {}): Signed {
    const head = { epoch: this.epoch, size, rootHash: naiveRoot(this.#leaves.slice(0, size)) };
    if (!after) return { note: signCheckpoint(head, this.#by.signer) };
    const hashes = after.map(({ note }) => noteHash(note));
    const knew = makeKnew(hashes, (count) => Buffer.alloc(count, size));
    return { note: signCheckpoint({ ...head, after: afterOf(knew) }, this.#by.signer), knew: knew.toString('base64') };
  }

  consistency(from: number, to = this.size): ConsistencyAnswer & { relay_pubkey: string } {
    const proof = naiveConsistency(from, this.#leaves.slice(0, to)).map((hash) => hash.toString('base64'));
    return { relay_pubkey: this.#by.key, epoch: this.epoch, from, to, proof };
  }

  /** The proof of the first leaf, or of another one. */
  link(size = this.size, index = 0): LinkAnswer & { relay_pubkey: string; epoch: string } {
    return {
      relay_pubkey: this.#by.key,
      epoch: this.epoch,
      checkpoint: this.sign({ size }).note,
      index,
      record_b64: this.#leaves[index]!.toString('base64'),
      proof: naivePath(index, this.#leaves.slice(0, size)).map((hash) => hash.toString('base64')),
    };
  }
}

/** The document that a host would export. */
export function evidenceOf(
  signed: readonly Signed[],
  proof?: EvidenceDocument['proof'],
  key: string = relay.key,
): EvidenceDocument & Record<string, unknown> {
  const knew = signed.flatMap((one) => one.knew ?? []);
  return {
    v: 1,
    type: 'relay-evidence',
    kind: 'fork',
    relay_pubkey: key,
    notes: signed.map(({ note }) => note),
    ...(knew.length > 0 && { knew }),
    ...(proof && { proof }),
  };
}
