/**
 * The link: the first leaf of each tree of the relay's log. It names the epoch that begins, and the last checkpoint of
 * the epoch before.
 *
 * The leaf is the RFC 8785 form of the link. So the root of an epoch commits to every earlier epoch. A store that was
 * set back goes on in a new epoch, and never signs two histories in one.
 */
import { isObject, jsonIn } from './json.ts';
import { canonicalBytes, canonicalBytesIfAny } from './documents.ts';
import type { Sha256Hex } from './encodings.ts';
import type { Epoch } from './names.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

export interface LogLink {
  v: 1;
  type: 'relay-log-link';
  relay_pubkey: PublicKey;
  epoch: Epoch;
  /** The last possible checkpoint of the epoch before; `null` in the first epoch of a store. */
  previous: { epoch: Epoch; size: number; root_hash: Sha256Hex } | null;
}

export function logLinkBytes(fields: Omit<LogLink, 'v' | 'type'>): Buffer {
  const link: LogLink = { v: 1, type: 'relay-log-link', ...fields };
  return canonicalBytes(link);
}

/** The link, if `leaf` is the canonical form of one. */
export function parseLogLink(leaf: Buffer): LogLink | undefined {
  const link = jsonIn(leaf.toString('utf8'));
  return isLink(link) && canonicalBytesIfAny(link)?.equals(leaf) ? link : undefined;
}

function isLink(value: unknown): value is LogLink {
  if (!isObject(value) || value['v'] !== 1 || value['type'] !== 'relay-log-link') return false;
  const { relay_pubkey: key, epoch, previous } = value;
  if (parsePublicKey(key) === undefined || typeof epoch !== 'string') return false;
  if (previous === null) return true;
  if (!isObject(previous) || typeof previous['epoch'] !== 'string') return false;
  return isPositive(previous['size']) && /^[0-9a-f]{64}$/.test(String(previous['root_hash']));
}

function isPositive(size: unknown): boolean {
  return Number.isSafeInteger(size) && (size as number) > 0;
}
