/**
 * Thrown where the rows of one queue contradict what is to happen to it, as when more would be released than is
 * charged. Nothing of such an event may be kept; the queues of others are as they were.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEvent } from './event.ts';

export class BrokenQueue extends Error {
  readonly targetPubkey: PublicKey;

  constructor(targetPubkey: PublicKey, message: string, options?: ErrorOptions) {
    super(message, options);
    this.targetPubkey = targetPubkey;
  }
}

/** The key whose queue or charges an event is about; of an `ItemAccepted`, which may have many targets, none. */
export function queueOf(event: RelayEvent): PublicKey | undefined {
  if ('targetPubkey' in event) return event.targetPubkey;
  if ('oldPubkey' in event) return event.oldPubkey;
  return 'hostPubkey' in event ? event.hostPubkey : undefined;
}
