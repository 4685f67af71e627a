/** Epochs that tell each other apart and repeat from run to run. */
import { EPOCH_RANDOM_BYTES, type Epoch, epochFromRandom } from '../../src/protocol/names.ts';

/** The epoch number `number`, 0 to 255. */
export function epochNumbered(number: number): Epoch {
  return epochFromRandom(Buffer.alloc(EPOCH_RANDOM_BYTES, number));
}

/** A source of ever new epochs, beginning with `epochNumbered(first)`. */
export function epochSource(first = 1): () => Epoch {
  let next = first;
  return () => epochNumbered(next++);
}
