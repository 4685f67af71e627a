/**
 * Verifies the log: replays its records into the rows and trees.
 *
 * Nothing can be replayed behind the first record that is missing or altered. The checksums of later records are still
 * verified, so that the operator learns how much is gone.
 */
import { caught } from '../../lib/caught.ts';
import { byFingerprint, describeEvent } from '../core/describe-event.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { readableRowsOf } from '../store/item-run.ts';
import { PREFIX, logKey, lsnOf, prefixRange } from '../store/keys.ts';
import { DamagedRecord, decodeRecord, guessEvent } from '../store/record.ts';
import { type StoredRecord, recordsIn } from '../store/record-run.ts';
import { readableRow, runsOf } from '../store/scan.ts';
import { FINDINGS_LISTED_MAX, type FindingCode, type Findings, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { ReplayFailed } from './replay.ts';
import { hasRowsOf } from './replay-start.ts';
import { type Verification, isOfStore } from './verification.ts';

export async function* verifyLog(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, findings, rows, checkpoints, startLsn, skipsOldRecords, counted } = verification;
  const { store } = offline;
  const bad: BadRecord[] = [];
  let firstBadLsn: number | undefined;
  const addBad = (record: BadRecord): void => {
    firstBadLsn ??= record.lsn;
    if (bad.length < FINDINGS_LISTED_MAX) bad.push(record);
    else findings.addUnlisted(record.code, 1);
  };
  const firstLsn = skipsOldRecords && startLsn !== undefined ? startLsn + 1 : store.firstLsn;
  let expected = firstLsn;
  let records = 0;
  if (startLsn === undefined) {
    const what = `log records up to ${firstLsn - 1} were pruned, and no checkpoint that is whole stands for them`;
    addBad({ code: 'CHECKPOINT_MISSING', lsn: firstLsn, what });
  }
  const range = { ...prefixRange(PREFIX.log), ...(skipsOldRecords && { gte: logKey(firstLsn) }) };
  for await (const run of runsOf(offline.level, range)) {
    for (const [lsn, record, ofRun] of run.flatMap((pair) => recordsOf(pair, verification))) {
      if (lsn < expected) {
        findings.add('KEY_UNEXPECTED', `a log record has the number ${lsn}: they begin at ${firstLsn}`);
        continue;
      }
      if (ofRun !== undefined) {
        const what = `log records ${expected} to ${lsn} cannot be read (${ofRun})`;
        addBad({ code: 'RECORD_DAMAGED', lsn: expected, what });
        expected = lsn + 1;
        continue;
      }
      if (lsn > expected) addBad({ code: 'RECORD_MISSING', lsn: expected, what: missingClause(expected, lsn - 1) });
      expected = lsn + 1;
      records++;
      const fault = replayRecord(lsn, record, verification, firstBadLsn !== undefined);
      if (fault) addBad(fault);
      if (rows.isFull) await rows.flush();
      const checkpoint = checkpoints.get(lsn);
      if (!checkpoint || firstBadLsn !== undefined || lsn <= (startLsn ?? lsn)) continue;
      if (await hasRowsOf(offline, checkpoint, rows)) continue;
      const message =
        `the rows of checkpoint ${lsn} are not those that the log gives: they had gone wrong before it was taken; ` +
        'poste relay log rebuild leaves it out';
      findings.add('CHECKPOINT_DIFFERS', message, { lsn });
    }
    yield { stage: 'log', done: expected - 1, of: store.lastLsn };
  }
  if (expected === firstLsn && !skipsOldRecords)
    addBad({ code: 'RECORD_MISSING', lsn: firstLsn, what: 'the log holds no record' });
  await rows.flush();
  await addFindings(offline, bad, findings);
  verification.firstBadLsn = firstBadLsn;
  verification.isReplayed = firstBadLsn === undefined;
  counted.records = records;
}

/** A record, or the last one of a run that does not tell its records, and why. */
type FoundRecord = StoredRecord | [...StoredRecord, fault: string];

/** The records of a pair, whose bytes are counted; none of a key that is none of theirs. */
function recordsOf(pair: Pair, { findings, rows, counted }: Verification): FoundRecord[] {
  const [key, value] = pair;
  if (!isOfStore(key, findings)) return [];
  if (rows.half !== 'known') counted.bytes += key.length + value.length;
  const damaged = ({ message }: DamagedRecord): FoundRecord[] => [[lsnOf(key), value, message]];
  return caught(() => recordsIn(pair), DamagedRecord, damaged);
}

interface BadRecord {
  code: FindingCode;
  lsn: number;
  what: string;
  bytes?: Buffer;
}

/** Replays the record unless one before it is bad. */
function replayRecord(
  lsn: number,
  bytes: Buffer,
  { rows, tree, isTreeKnown, startLsn = 0 }: Verification,
  isBroken: boolean,
): BadRecord | undefined {
  try {
    const entry = decodeRecord(lsn, bytes);
    if (isBroken) return undefined;
    if (lsn > startLsn) rows.apply(entry);
    if (isTreeKnown) tree.add(entry, bytes);
    return undefined;
  } catch (error) {
    if (error instanceof DamagedRecord) return { code: 'RECORD_DAMAGED', lsn, what: error.message, bytes };
    if (!(error instanceof ReplayFailed)) throw error;
    return { code: 'REPLAY_FAILED', lsn, what: `log record ${lsn} contradicts those before it (${error.message})` };
  }
}

function missingClause(first: number, last: number): string {
  return first === last ? `log record ${first} is missing` : `log records ${first} to ${last} are missing`;
}

async function addFindings(offline: OfflineStore, bad: readonly BadRecord[], findings: Findings): Promise<void> {
  if (bad.length === 0) return;
  const accepted = await acceptedAt(offline, new Set(bad.map(({ lsn }) => lsn)));
  for (const [at, { code, lsn, what, bytes }] of bad.entries()) {
    const words =
      code === 'REPLAY_FAILED' || code === 'CHECKPOINT_MISSING' ? '' : `: ${describeLost(accepted.get(lsn), bytes)}`;
    const advice = at === 0 ? `. ${ADVICE}` : '';
    findings.add(code, `${what}${words}${advice}`, { lsn });
  }
}

const ADVICE =
  'What follows it cannot be replayed, so the rows cannot be compared or rebuilt: restore the newest backup ' +
  'that verifies; senders push again what it lacks';

/** Returns what the record held, as far as the rows or its own bytes still show. */
function describeLost(accepted: readonly string[] | undefined, bytes: Buffer | undefined): string {
  if (accepted) return `by the rows, it accepted ${accepted.join(', ')}`;
  const guess = bytes && guessEvent(bytes);
  return guess
    ? `it seems to say (unproven): ${describeEvent(guess).sentence(byFingerprint)}`
    : 'no row shows any more what it recorded';
}

/** The items whose dedup rows say that they were accepted at one of these places in the log. */
async function acceptedAt({ level }: OfflineStore, lsns: ReadonlySet<number>): Promise<Map<number, string[]>> {
  const lsnOfHash = new Map<string, number>();
  for await (const run of runsOf(level, prefixRange(PREFIX.dedup))) {
    for (const [key, value] of run) {
      const row = readableRow('dedup', key, value);
      if (row && lsns.has(row.lsn)) lsnOfHash.set(row.wireHash, row.lsn);
    }
  }
  const items = new Map<number, string[]>();
  const found = new Set<string>();
  for await (const run of runsOf(level, prefixRange(PREFIX.queue))) {
    for (const row of run.flatMap((pair) => readableRowsOf(pair) ?? [])) {
      const lsn = lsnOfHash.get(row.wireHash);
      if (lsn === undefined) continue;
      found.add(row.wireHash);
      const [sender, target] = [displayFingerprint(row.senderPubkey), displayFingerprint(row.targetPubkey)];
      push(items, lsn, `${row.kind} ${row.itemId} of ${sender}, which waits for ${target} at seq ${row.seq}`);
    }
  }
  for (const [wireHash, lsn] of lsnOfHash) {
    if (!found.has(wireHash)) push(items, lsn, `an item that waits no longer (wire hash ${wireHash})`);
  }
  return items;
}

function push(items: Map<number, string[]>, lsn: number, words: string): void {
  items.set(lsn, [...(items.get(lsn) ?? []), words]);
}
