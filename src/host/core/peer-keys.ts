/**
 * Decides whether what a paired host signed counts, by the key that signed it and the host that brought it. Pure.
 *
 * A present key counts. A key that the host gave up counts only for what it signed before the rotation. A signature
 * cannot prove its own date: a thief of the old key can date it back. So the way the item came must prove it as well:
 *   - the host itself brought it under its present key: over the LAN by its own hop, over a relay by its own push. Its
 *     outbox sends what it wrote before the rotation with the bytes that were signed then;
 *   - or it came from a relay's queue under an old key: then it was pushed before the rotation. A relay that learned of
 *     the rotation accepts nothing under the old key, and neither does one that has this host's list of senders, which
 *     holds present keys only. An item that claims to be younger than the rotation is refused.
 * Both hold for `RETIRED_KEY_MS` after this host learned of the rotation: an outbox keeps nothing longer.
 */
import { HOP_SKEW_MAX_MS } from '../../protocol/hop.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { GIVE_UP_MS } from './outbox-row.ts';
import type { QuarantineReason } from './quarantine.ts';
import type { PeerRow } from './rows.ts';

export const RETIRED_KEY_MS = GIVE_UP_MS;
/** The most by which the clocks of two hosts of one relay differ. */
const CLOCKS_APART_MS = 2 * HOP_SKEW_MAX_MS;

export interface Bringing {
  via: 'lan' | 'relay';
  /** The key that signed it: a present or former key of the peer. */
  signingKey: PublicKey;
  /** The key that brought it, and the paired host that has or had it; undefined when no paired host did. */
  bringingKey: PublicKey;
  bringer: PeerRow | undefined;
  /** When it was written, by its own claim. */
  writtenAtMs: number;
  nowMs: number;
  /** A date of this host's as the clock of now would have given it. */
  momentMs: (datedMs: number) => number;
}

interface SignatureDoubt {
  reason: QuarantineReason;
  /** For people. */
  detail: string;
}

/** Says why what `peer` signed does not count; `undefined` when it does, if its signature verifies. */
export function doubtOfSignature(peer: PeerRow, bringing: Bringing): SignatureDoubt | undefined {
  const { hostName } = peer;
  const { signingKey, bringingKey, bringer, nowMs } = bringing;
  if (bringer && bringer.peerId !== peer.peerId) {
    return { reason: 'sender-mismatch', detail: `${hostName} signed it, another host brought it` };
  }
  const retiredAtMs = retiredAt(peer, signingKey);
  // A new key of the peer may be seen at a relay before it is learned.
  if (retiredAtMs === null) return undefined;
  const given = `${hostName} gave up the key that signed it`;
  if (nowMs >= bringing.momentMs(retiredAtMs) + RETIRED_KEY_MS)
    return { reason: 'retired-key', detail: `${given} more than 60 days ago` };
  if (!bringer) return { reason: 'unknown-sender', detail: `${given}, and it came under a key of no paired host` };
  if (retiredAt(peer, bringingKey) === null) return undefined;
  if (bringing.via === 'lan') return { reason: 'retired-key', detail: `${given}, and it came under such a key` };
  if (bringing.writtenAtMs <= retiredAtMs + CLOCKS_APART_MS) return undefined;
  return { reason: 'retired-key', detail: `${given} before the time of writing that it claims` };
}

/** When this host learned that the peer gave up the key; null for the present key. */
export function retiredAt({ keys }: PeerRow, key: PublicKey): number | null {
  return keys.find(({ publicKey }) => publicKey === key)?.retiredAtMs ?? null;
}

/**
 * The keys from which a relay is to accept mail for this host: the present key of every paired host. A host signs every
 * hop with its present key, and registers that key first at a restored relay, so only a thief pushes with an old one.
 */
export function acceptedSenders(peers: readonly Pick<PeerRow, 'keys' | 'unpairedAtMs'>[]): PublicKey[] {
  return peers
    .filter(({ unpairedAtMs }) => unpairedAtMs === null)
    .flatMap(({ keys }) => keys)
    .filter(({ retiredAtMs }) => retiredAtMs === null)
    .map(({ publicKey }) => publicKey)
    .toSorted();
}
