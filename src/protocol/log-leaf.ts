/**
 * A leaf of the relay's log as others see it: the answer that proves it, and what they may read of a record.
 * relay/store/record.ts has the layouts of all records.
 */
import { encodeBase64 } from './encodings.ts';
import type { PublicKey } from './public-key.ts';

/** The bytes in front of the fields of a record: its format and a checksum. DO NOT CHANGE, as all of these. */
export const RECORD_HEAD_BYTES = 5;
/** The version of every event that there is, behind its tag. */
export const RECORD_VERSION = 1;
/** The tag of the event that accepted an item. */
export const ACCEPTED_TAG = 20;

interface LeafInTree {
  epoch: string;
  /** A signed note of the tree. */
  checkpoint: string;
  index: number;
  leaf: Buffer;
  proof: readonly Buffer[];
}

/** The answer of `log/link` and `log/proof`; a witness opens an epoch by that of its link. */
export function leafDocument(relayPubkey: PublicKey, { epoch, checkpoint, index, leaf, proof }: LeafInTree) {
  return {
    relay_pubkey: relayPubkey,
    epoch,
    checkpoint,
    index,
    record_b64: encodeBase64(leaf),
    proof: proof.map(encodeBase64),
  };
}
