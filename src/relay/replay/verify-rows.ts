/**
 * The rows against the replay: byte for byte, both in the order of their keys.
 *
 * Left out on both sides are queue rows that were acked and wait for the collector; of the replay, dedup rows whose
 * time was purged. Each stored row is also asked for by its key, as the relay does: a damaged table can answer a walk
 * rightly and a look-up wrongly.
 */
import { hash } from 'node:crypto';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { rowKey, type TableName, type Tables } from '../core/rows.ts';
import { MARK_PREFIXES, ROW_AT, ROW_PREFIXES, rowKind, rowName, rowOwner, verifiedBytes } from '../store/checksum.ts';
import { areSame } from '../../protocol/encodings.ts';
import { isWholeRow, rowPairs } from '../store/item-run.ts';
import { PREFIX } from '../store/keys.ts';
import { rowOf } from '../store/row-codec.ts';
import { readableRow } from '../store/scan.ts';
import { FINDINGS_LISTED_MAX, type Findings, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { readEntries } from './records.ts';
import { type ReplayedRows, keptUntilMs, rowBytes } from './replay.ts';
import { type Judge, type StoredWalk, type Verification, compareWalks } from './verification.ts';

const ADVICE = 'poste relay log rebuild makes it anew from the log';

export async function* verifyRows(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, rows: replayed, findings, counted } = verification;
  const differences: Difference[] = [];
  let untold = 0;
  const isLeftOut = differencesLeftOut(replayed);
  const judge: Judge = (key, stored, byLog) => {
    if ((stored && byLog && isStored(key, stored, byLog)) || isLeftOut(key, stored, byLog)) return;
    const table = rowKind(key) as TableName;
    if (differences.length < FINDINGS_LISTED_MAX)
      differences.push({ table, key, stored, byLog: byLog && rowBytes(key, byLog) });
    else untold++;
  };
  const eachAlone = { ...verification, walk: loneRows(verification.walk) };
  const rows = yield* compareWalks(eachAlone, 'rows', replayed.prefixes, judge, (range) => replayed.runs(range));
  await addFindings(offline, differences, untold, findings);
  counted.rows = rows;
}

/** The same walk, with every row of a queue as if it lay alone. */
function loneRows(walk: StoredWalk): StoredWalk {
  return async function* lone(range) {
    for await (const run of walk(range)) yield run[0]?.[0][0] === PREFIX.queue ? run.flatMap(rowPairs) : run;
  };
}

/** Verifies the checksums of rows and due entries, where there is no replay to compare them with. */
export async function* verifyChecksums(verification: Verification): AsyncGenerator<Progress, void> {
  const { findings, counted } = verification;
  const judge: Judge = (key, stored) => {
    if (stored && isWholeRow(key, stored)) return;
    findings.add('ROW_DAMAGED', `${rowName(key)} does not match its checksum`, { key: key.toString('hex') });
  };
  // Marks are judged with the store as a whole, whatever its log says.
  const prefixes = ROW_PREFIXES.filter((prefix) => !MARK_PREFIXES.has(prefix));
  counted.rows = yield* compareWalks(verification, 'rows', prefixes, judge);
}

/** Says whether the bytes of the replayed row are stored, with their checksum. */
function isStored(key: Buffer, stored: Buffer, byLog: Buffer): boolean {
  const bytes = rowBytes(key, byLog);
  return (
    stored.length === ROW_AT + bytes.length &&
    areSame(stored, ROW_AT, bytes, 0, bytes.length) &&
    verifiedBytes(key, stored) !== undefined
  );
}

interface Difference {
  table: TableName;
  key: Buffer;
  stored: Buffer | undefined;
  byLog: Buffer | undefined;
}

/** Says whether a difference is none: acked rows, as one walk comes by them, and purged ones. */
function differencesLeftOut(replayed: ReplayedRows): (key: Buffer, stored?: Buffer, byLog?: Buffer) => boolean {
  const isAcked = replayed.ackedKeys();
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  return (key, stored, byLog) => {
    // A checkpoint left out what was purged, and a replay from the first record still has it.
    if (key[0] !== PREFIX.dedup || (stored && byLog)) return isAcked(key);
    const untilMs = byLog ? keptUntilMs(key, byLog) : readableRow('dedup', key, stored as Buffer)?.dedupUntilMs;
    return untilMs !== undefined && untilMs <= purgedMs;
  };
}

async function addFindings(
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
    if (stored && !verifiedBytes(key, stored))
      findings.add(
        'ROW_DAMAGED',
        `${row} does not match its checksum${itemText(table, key, byLog)}. ${ADVICE}`,
        details,
      );
    else if (!stored)
      findings.add(
        'ROW_MISSING',
        `${row} is not in the store, and by the log it is${itemText(table, key, byLog)}`,
        details,
      );
    else if (!byLog) findings.add('ROW_UNEXPECTED', `${row} is in the store, and by the log it is not`, details);
    else findings.add('ROW_DIFFERS', `${row} differs: ${describeChange(table, key, stored, byLog)}`, details);
  }
  findings.addUnlisted('ROW_DIFFERS', untold);
}

function itemText(table: TableName, key: Buffer, value: Buffer | undefined): string {
  const row = table === 'queue' && value ? rowOf('queue', key, value) : undefined;
  return row ? ` (${row.kind} ${row.itemId})` : '';
}

function describeChange(table: TableName, key: Buffer, stored: Buffer, byLog: Buffer): string {
  const expected = rowOf(table, key, byLog);
  const found = readableRow(table, key, stored);
  if (!found) return 'what is stored cannot be read';
  const words = Object.keys(expected).flatMap((name) => {
    const member = name as keyof Tables[TableName];
    const [is, should] = [JSON.stringify(found[member]), JSON.stringify(expected[member])];
    return is === should ? [] : `${name} is ${is} and by the log ${should}`;
  });
  return words.length === 0 ? 'it is stored in other bytes' : words.join(', ');
}

type RowNames = (table: TableName, key: Buffer) => string;

/**
 * The names of rows. Accounts, deny entries and dedup rows are stored under hashes: the log is searched for the texts
 * of those that are in `hashed`, in hexadecimal.
 */
async function rowNames(offline: OfflineStore, hashed: ReadonlySet<string>): Promise<RowNames> {
  const said = new Map<string, string>();
  const note = (table: TableName, text: string, words: string): void => {
    const mark = hash('sha256', text, 'hex');
    if (hashed.has(mark)) said.set(`${table} ${mark}`, words);
  };
  if (hashed.size > 0) {
    for await (const run of readEntries(offline)) {
      for (const { event } of run) {
        if (event.type === 'ItemAccepted') {
          for (const { hostPubkey } of event.targets) {
            const words =
              `item ${event.itemId} of ${displayFingerprint(event.senderPubkey)} ` +
              `for ${displayFingerprint(hostPubkey)}`;
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

/** Says whether the key is a hash of what it means. */
function isHashed(table: TableName): boolean {
  return table === 'account' || table === 'deny' || table === 'dedup';
}
