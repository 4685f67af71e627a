import type { Epoch } from '../../protocol/names.ts';

/** A witness of the relay, and the newest checkpoint that it was seen to cosign. */
export interface WitnessOfRelay {
  /** Its verifier key. */
  vkey: string;
  /** The time of that cosignature; before the first, when the witness was named. */
  atMs: number;
  epoch: Epoch | null;
  size: number;
}
