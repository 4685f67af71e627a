/**
 * Which row a stored key means, in words: hosts by fingerprint, queue rows by target and seq. Accounts, deny entries
 * and dedup rows are stored under hashes, so the log is asked what was hashed.
 */
import { hash } from 'node:crypto';
import type { TableName } from '../core/rows.ts';
import { rowKey } from '../core/rows.ts';
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { restoreTimeOf, seqOf } from '../store/keys.ts';
import type { OfflineStore } from '../store/offline.ts';
import { timeWords } from './event-words.ts';
import { auditedRecords } from './records.ts';

const KEY = 32;

export type RowNames = (table: TableName, key: Buffer) => string;

/** What rows are called whose keys are among `hashed`, in hexadecimal, and every other row. */
export async function rowNames(offline: OfflineStore, hashed: ReadonlySet<string>): Promise<RowNames> {
  const said = new Map<string, string>();
  const note = (table: TableName, text: string, words: string): void => {
    const mark = hash('sha256', text, 'hex');
    if (hashed.has(mark)) said.set(`${table} ${mark}`, words);
  };
  if (hashed.size > 0) {
    for await (const run of auditedRecords(offline)) {
      for (const { event } of run) {
        if (event.type === 'ItemAccepted') {
          for (const { hostPubkey } of event.targets) {
            const words = `item ${event.itemId} of ${displayFingerprint(event.senderPubkey)} for ${displayFingerprint(hostPubkey)}`;
            note('dedup', rowKey.dedup(event.senderPubkey, hostPubkey, event.itemId), words);
          }
        } else if (event.type === 'HostEnrolled' || event.type === 'KeyRotated') {
          if (event.account !== null) note('account', event.account, event.account);
        } else if (event.type === 'DenyEntryAdded') {
          note('deny', rowKey.deny(event), rowKey.deny(event));
        }
      }
    }
  }
  return (table, key) => said.get(`${table} ${key.subarray(1).toString('hex')}`) ?? plainName(table, key);
}

/** Whether the key is a hash of what it means. */
export function isHashed(table: TableName): boolean {
  return table === 'account' || table === 'deny' || table === 'dedup';
}

function plainName(table: TableName, key: Buffer): string {
  switch (table) {
    case 'relay':
    case 'heartbeat':
      return 'the relay';
    case 'restore':
      return `the restore of ${timeWords(restoreTimeOf(key))}`;
    case 'queue':
      return `${hostAt(key, 0)} at seq ${seqOf(key)}`;
    case 'share':
      return `sender ${hostAt(key, 1)} at ${hostAt(key, 0)}`;
    case 'account':
    case 'deny':
    case 'dedup':
    case 'invite':
      return `key ${key.subarray(1).toString('hex')}`;
    default:
      return hostAt(key, 0);
  }
}

function hostAt(key: Buffer, position: number): string {
  return displayFingerprint(publicKeyFromBytes(key.subarray(1 + position * KEY, 1 + (position + 1) * KEY)));
}
