/**
 * The rows against the replay: byte for byte, both in the order of their keys.
 *
 * Left out on both sides are queue rows that were acked and wait for the collector; of the replay, dedup rows whose
 * time was purged. Each stored row is also asked for by its key, as the relay does: a damaged table can answer a walk
 * rightly and a look-up wrongly.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { TableName, Tables } from '../core/rows.ts';
import { PREFIX, REPLAYED_TABLES, firstKeyOf, prefixRange, queueRowKey, seqOf } from '../store/keys.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import type { OfflineStore } from '../store/offline.ts';
import { joined, runsOf } from '../store/pairs.ts';
import type { ReplayedRows } from '../store/replay.ts';
import { decodeRow } from '../store/row-codec.ts';
import { isOfStore, lookedUp } from './looked-up.ts';
import { FINDINGS_TOLD_MAX, type Findings, type Progress } from './finding.ts';
import { isHashed, rowNames } from './row-names.ts';
import { attempt } from './verify-log.ts';

export interface RowsAudit {
  rows: number;
  bytes: number;
}

const PROGRESS_ROWS = 10_000;

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
  return (_key, stored, byLog) => {
    const alone = stored && byLog ? undefined : attempt(() => decodeRow('dedup', '', (stored ?? byLog) as Buffer));
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
    if (!stored)
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
  const row = table === 'queue' && value ? decodeRow('queue', queueRowKey(key), value) : undefined;
  return row ? ` (${row.kind} ${row.itemId})` : '';
}

function changed(table: TableName, key: Buffer, stored: Buffer, byLog: Buffer): string {
  const text = textualKey(table, key);
  const expected = decodeRow(table, text, byLog);
  const found = attempt(() => decodeRow(table, text, stored));
  if (!found) return 'what is stored cannot be read';
  const words = Object.keys(expected).flatMap((name) => {
    const member = name as keyof Tables[TableName];
    const [is, should] = [JSON.stringify(found[member]), JSON.stringify(expected[member])];
    return is === should ? [] : `${name} is ${is} and by the log ${should}`;
  });
  return words.length === 0 ? 'it is stored in other bytes' : words.join(', ');
}

/** As much of the textual key as the decoders want. */
function textualKey(table: TableName, key: Buffer): string {
  if (table === 'queue') return queueRowKey(key);
  return table === 'enrolment' ? firstKeyOf(key) : '';
}
