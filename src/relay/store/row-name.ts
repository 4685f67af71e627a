/**
 * What a stored row is called in messages for the operator: hosts by fingerprint, queue rows by target and seq. Accounts,
 * deny entries, invites and dedup rows are stored under hashes, which is all that their keys tell.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import { KEY_BYTES, PREFIX, dueTimeOf, restoreTimeOf, seqOf } from './keys.ts';

const KEY = 32;

const KINDS = new Map<number, string>(Object.entries(PREFIX).map(([kind, prefix]) => [prefix, kind]));

/** The table, or what else the prefix of the key is of. */
export function rowKind(key: Buffer): string {
  return KINDS.get(key[0] ?? 0) ?? 'unknown';
}

/** As "a target row": says nothing of whom it is. */
export function rowSort(key: Buffer): string {
  const kind = rowKind(key);
  return `${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind} row`;
}

/** As "the target row of SHA256:…". */
export function rowName(key: Buffer): string {
  const kind = rowKind(key);
  if (KEY_BYTES[key[0] ?? 0] !== key.length) return `the ${kind} row under the key ${key.toString('hex')}`;
  switch (key[0]) {
    case PREFIX.expiry:
    case PREFIX.dedupUntil:
      return `the ${kind} entry of ${isoTime(dueTimeOf(key))}`;
    case PREFIX.collected:
      return `the mark that says how far the queue of ${hostAt(key, 0)} is collected`;
    default:
      return `the ${kind} row of ${rowOwner(key)}`;
  }
}

/** Of what a row is. */
export function rowOwner(key: Buffer): string {
  switch (key[0]) {
    case PREFIX.relay:
    case PREFIX.heartbeat:
      return 'the relay';
    case PREFIX.restore:
      return `the restore of ${isoTime(restoreTimeOf(key))}`;
    case PREFIX.queue:
      return `${hostAt(key, 0)} at seq ${seqOf(key)}`;
    case PREFIX.share:
      return `sender ${hostAt(key, 1)} at ${hostAt(key, 0)}`;
    case PREFIX.account:
    case PREFIX.deny:
    case PREFIX.dedup:
    case PREFIX.invite:
      return `key ${key.subarray(1).toString('hex')}`;
    default:
      return key.length > KEY ? hostAt(key, 0) : `key ${key.toString('hex')}`;
  }
}

function hostAt(key: Buffer, position: number): string {
  return displayFingerprint(publicKeyFromBytes(key.subarray(1 + position * KEY, 1 + (position + 1) * KEY)));
}
