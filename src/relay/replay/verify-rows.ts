/**
 * The rows against the replay: byte for byte, both in the order of their keys.
 *
 * Left out on both sides are queue rows that were acked and wait for the collector; of the replay, dedup rows whose
 * time was purged. Each stored row is also asked for by its key, as the relay does: a damaged table can answer a walk
 * rightly and a look-up wrongly.
 */
import { hash } from 'node:crypto';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { rowKey, type TableName, type Tables } from '../core/rows.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import { MARK_PREFIXES, ROW_PREFIXES, wholeBytes } from '../store/checksum.ts';
import { firstKeyOf, PREFIX, prefixRange, REPLAYED_TABLES, seqOf } from '../store/keys.ts';
import { decodeRow } from '../store/row-codec.ts';
import { rowName, rowOwner } from '../store/row-name.ts';
import { runsOf } from '../store/scan.ts';
import { joined, isOfStore, lookedUp } from './walks.ts';
import { type Findings, FINDINGS_TOLD_MAX, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { auditedRecords } from './records.ts';
import type { ReplayedRows } from './replay.ts';
import { attempt } from './verify-log.ts';

export interface RowsAudit {
  rows: number;
  bytes: number;
}

const PROGRESS_ROWS = 10_000;
const ADVICE = 'poste relay log rebuild makes it anew from the log';

export async function* verifyRows(
  offline: OfflineStore,
  scratch: BulkDatabase,
  replayed: ReplayedRows,
  findings: Findings,
): AsyncGenerator<Progress, RowsAudit> {
  const differences: Difference[] = [];
  const audit: RowsAudit = { rows: 0, bytes: 0 };
  let untold = 0;
  for (const table of REPLAYED_TABLES) {
    const isOut = leftOut(table, replayed);
    const range = prefixRange(PREFIX[table]);
    for await (const { key, left, right } of joined(
      lookedUp(offline.level, range, findings),
      runsOf(scratch.level, range),
    )) {
      audit.bytes += key.length + (left?.length ?? 0);
      if (++audit.rows % PROGRESS_ROWS === 0) yield { stage: 'rows', done: audit.rows, of: undefined };
      if (!isOfStore(key, findings)) continue;
      if (left && right ? left.equals(right) : isOut(key, left, right)) continue;
      if (differences.length < FINDINGS_TOLD_MAX) differences.push({ table, key, stored: left, byLog: right });
      else untold++;
    }
  }
  await tell(offline, differences, untold, findings);
  return audit;
}

/** What the rows and due entries tell by themselves, where there is no replay to hold them against. */
export async function* verifyChecksums(
  { level }: OfflineStore,
  findings: Findings,
): AsyncGenerator<Progress, RowsAudit> {
  const audit: RowsAudit = { rows: 0, bytes: 0 };
  for (const prefix of ROW_PREFIXES) {
    // Those are judged with the store as a whole, whatever its log says.
    if (MARK_PREFIXES.has(prefix)) continue;
    for await (const run of lookedUp(level, prefixRange(prefix), findings)) {
      for (const [key, value] of run) {
        audit.rows++;
        audit.bytes += key.length + value.length;
        if (!isOfStore(key, findings) || wholeBytes(key, value)) continue;
        findings.add('ROW_DAMAGED', `${rowName(key)} does not match its checksum`, { key: key.toString('hex') });
      }
      yield { stage: 'rows', done: audit.rows, of: undefined };
    }
  }
  return audit;
}

/** One row that is not as the log has it. */
interface Difference {
  table: TableName;
  key: Buffer;
  stored: Buffer | undefined;
  byLog: Buffer | undefined;
}

type LeftOut = (key: Buffer, stored: Buffer | undefined, byLog: Buffer | undefined) => boolean;

function leftOut(table: TableName, replayed: ReplayedRows): LeftOut {
  if (table === 'queue') {
    const through = new Map<PublicKey, number>();
    return (key) => {
      const target = firstKeyOf(key);
      const known = through.get(target) ?? replayed.get('target', target)?.ackedThrough ?? 0;
      through.set(target, known);
      return seqOf(key) <= known;
    };
  }
  if (table !== 'dedup') return () => false;
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  // A checkpoint left out what was purged, and a replay from the first record still has it.
  return (key, stored, byLog) => {
    const alone = stored && byLog ? undefined : attempt(() => decodeRow('dedup', key, (stored ?? byLog) as Buffer));
    return alone !== undefined && alone.dedupUntilMs <= purgedMs;
  };
}

async function tell(
  offline: OfflineStore,
  differences: readonly Difference[],
  untold: number,
  findings: Findings,
): Promise<void> {
  const hashed = differences.filter(({ table }) => isHashed(table)).map(({ key }) => key.subarray(1).toString('hex'));
  const name = await rowNames(offline, new Set(hashed));
  for (const { table, key, stored, byLog } of differences) {
    const details = { table, key: key.toString('hex') };
    const row = `the ${table} row of ${name(table, key)}`;
    if (stored && !wholeBytes(key, stored))
      findings.add('ROW_DAMAGED', `${row} does not match its checksum${item(table, key, byLog)}. ${ADVICE}`, details);
    else if (!stored)
      findings.add(
        'ROW_MISSING',
        `${row} is not in the store, and by the log it is${item(table, key, byLog)}`,
        details,
      );
    else if (!byLog) findings.add('ROW_UNEXPECTED', `${row} is in the store, and by the log it is not`, details);
    else findings.add('ROW_DIFFERS', `${row} differs: ${changed(table, key, stored, byLog)}`, details);
  }
  findings.addUntold('ROW_DIFFERS', untold);
}

function item(table: TableName, key: Buffer, value: Buffer | undefined): string {
  const row = table === 'queue' && value ? decodeRow('queue', key, value) : undefined;
  return row ? ` (${row.kind} ${row.itemId})` : '';
}

function changed(table: TableName, key: Buffer, stored: Buffer, byLog: Buffer): string {
  const expected = decodeRow(table, key, byLog);
  const found = attempt(() => decodeRow(table, key, stored));
  if (!found) return 'what is stored cannot be read';
  const words = Object.keys(expected).flatMap((name) => {
    const member = name as keyof Tables[TableName];
    const [is, should] = [JSON.stringify(found[member]), JSON.stringify(expected[member])];
    return is === should ? [] : `${name} is ${is} and by the log ${should}`;
  });
  return words.length === 0 ? 'it is stored in other bytes' : words.join(', ');
}

/** Names a stored row as store/row-name.ts does. */
type RowNames = (table: TableName, key: Buffer) => string;

/**
 * The names of rows. Accounts, deny entries and dedup rows are stored under hashes: the log is searched for the texts of
 * those that are in `hashed`, in hexadecimal.
 */
async function rowNames(offline: OfflineStore, hashed: ReadonlySet<string>): Promise<RowNames> {
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
  return (table, key) => said.get(`${table} ${key.subarray(1).toString('hex')}`) ?? rowOwner(key);
}

/** Whether the key is a hash of what it means. */
function isHashed(table: TableName): boolean {
  return table === 'account' || table === 'deny' || table === 'dedup';
}
