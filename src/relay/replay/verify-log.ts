/**
 * Verifies the log: its records, the hash trees over them, and archives of it.
 *
 * Nothing can be replayed behind the first record that is missing or altered. The checksums of later records are still
 * verified, so that the operator learns how much is gone.
 */
import { countText } from '../core/count-text.ts';
import { HASH_BYTES, leafHash } from '../../protocol/merkle.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import {
  logKey,
  lsnOf,
  PREFIX,
  prefixRange,
  tileIndexOf,
  tileKey,
  tileLevelOf,
  TREE_PREFIXES,
  treeOf,
  CHECKPOINT_PREFIXES,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { leafIndex, type TreeStart, treeStarts } from '../store/log-tree.ts';
import { DamagedRecord, decodeRecord, decodeWholeRecord, guessEvent } from '../store/record.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import { byFingerprint, describeEvent } from '../core/describe-event.ts';
import { FINDINGS_LISTED_MAX, type FindingCode, Findings, type Progress, type Finding } from './finding.ts';
import { readableRow, runsOf } from '../store/scan.ts';
import { decodeTreePart, TILE_HASHES } from '../store/tiles.ts';
import type { OfflineStore } from './offline.ts';
import { auditedRecords } from './records.ts';
import {
  type ReplayedRows,
  type ReplayedTree,
  ReplayFailed,
  beginReplay,
  findCheckpoints,
  hasRowsOf,
} from './replay.ts';
import { type LeafedRecord, type RecordRange, type StoredWalk, isOfStore, joined, leafedRecords } from './walks.ts';
import { readPruned } from '../store/position.ts';

/** What the log is replayed into, and from where. */
interface Replayed {
  rows: ReplayedRows;
  /** Absent when it cannot begin. */
  tree: ReplayedTree | undefined;
  /** Where the rows are. */
  scratch: ScratchPairs;
  /** The rows after this record are there already; `undefined` when there is nothing to begin with. */
  startLsn: number | undefined;
  /** Checkpoints that are whole, by their LSN: the replay has to come by the same rows. */
  checkpoints: ReadonlyMap<number, RowCheckpoint>;
  /** The first record that is looked at; that of the store when absent. */
  firstLsn?: number;
  /** Reads them; when absent, this thread does. */
  records?: ((range: RecordRange) => AsyncIterable<LeafedRecord[]>) | undefined;
}

interface LogAudit {
  records: number;
  bytes: number;
  /** The first record that is missing, altered, or contradicts those before it. */
  firstBadLsn: number | undefined;
}

export async function* verifyLog(
  offline: OfflineStore,
  replayed: Replayed,
  findings: Findings,
): AsyncGenerator<Progress, LogAudit> {
  const { level, store } = offline;
  const bad: BadRecord[] = [];
  const audit: LogAudit = { records: 0, bytes: 0, firstBadLsn: undefined };
  const broken = (record: BadRecord): void => {
    audit.firstBadLsn ??= record.lsn;
    if (bad.length < FINDINGS_LISTED_MAX) bad.push(record);
    else findings.addUnlisted(record.code, 1);
  };
  const { firstLsn = store.firstLsn } = replayed;
  let expected = firstLsn;
  if (replayed.startLsn === undefined) {
    const what = `log records up to ${firstLsn - 1} were pruned, and no checkpoint that is whole stands for them`;
    broken({ code: 'CHECKPOINT_MISSING', lsn: firstLsn, what });
  }
  const range = { ...prefixRange(PREFIX.log), ...(replayed.firstLsn !== undefined && { gte: logKey(firstLsn) }) };
  for await (const run of replayed.records?.(range) ?? leafedRecords(level, range, false)) {
    for (const stored of run) {
      const { key, record: bytes } = stored;
      const lsn = lsnOf(key);
      if (!isOfStore(key, findings)) continue;
      if (lsn < expected) {
        findings.add('KEY_UNEXPECTED', `a log record has the number ${lsn}: they begin at ${firstLsn}`);
        continue;
      }
      if (lsn > expected) broken({ code: 'RECORD_MISSING', lsn: expected, what: missingClause(expected, lsn - 1) });
      expected = lsn + 1;
      audit.records++;
      audit.bytes += key.length + bytes.length;
      const fault = taken(lsn, stored, replayed, audit.firstBadLsn !== undefined);
      if (fault) broken(fault);
      if (replayed.rows.isFull) await replayed.rows.flush();
      const checkpoint = replayed.checkpoints.get(lsn);
      if (!checkpoint || audit.firstBadLsn !== undefined || lsn <= (replayed.startLsn ?? lsn)) continue;
      if (await hasRowsOf(checkpoint, replayed.rows, replayed.scratch)) continue;
      const message = `the rows of checkpoint ${lsn} are not those that the log gives: they had gone wrong before it was taken; poste relay log rebuild leaves it out`;
      findings.add('CHECKPOINT_DIFFERS', message, { lsn });
    }
    yield { stage: 'log', done: expected - 1, of: store.lastLsn };
  }
  if (expected === firstLsn && replayed.firstLsn === undefined)
    broken({ code: 'RECORD_MISSING', lsn: firstLsn, what: 'the log holds no record' });
  await replayed.rows.flush();
  await tell(offline, bad, findings);
  return audit;
}

interface BadRecord {
  code: FindingCode;
  lsn: number;
  what: string;
  bytes?: Buffer;
}

/** Replays the record unless one before it is bad. */
function taken(
  lsn: number,
  { record: bytes, leaf }: LeafedRecord,
  { rows, tree, startLsn = 0 }: Replayed,
  isBroken: boolean,
): BadRecord | undefined {
  try {
    const entry = leaf ? decodeWholeRecord(lsn, bytes) : decodeRecord(lsn, bytes);
    if (isBroken) return undefined;
    if (lsn > startLsn) rows.apply(entry);
    tree?.add(entry, bytes, leaf);
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

async function tell(offline: OfflineStore, bad: readonly BadRecord[], findings: Findings): Promise<void> {
  if (bad.length === 0) return;
  const accepted = await acceptedAt(offline, new Set(bad.map(({ lsn }) => lsn)));
  for (const [at, { code, lsn, what, bytes }] of bad.entries()) {
    const words =
      code === 'REPLAY_FAILED' || code === 'CHECKPOINT_MISSING' ? '' : `: ${meaning(accepted.get(lsn), bytes)}`;
    const advice = at === 0 ? `. ${ADVICE}` : '';
    findings.add(code, `${what}${words}${advice}`, { lsn });
  }
}

const ADVICE =
  'What follows it cannot be replayed, so the rows cannot be compared or rebuilt: restore the newest backup that verifies; senders push again what it lacks';

/** What the record held, as far as the rows or its own bytes still show. */
function meaning(accepted: readonly string[] | undefined, bytes: Buffer | undefined): string {
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
    for (const [key, value] of run) {
      const row = readableRow('queue', key, value);
      const lsn = row && lsnOfHash.get(row.wireHash);
      if (!row || lsn === undefined) continue;
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

const TREE_ADVICE = 'poste relay log rebuild makes the tree anew from the log, whose records are whole';

/**
 * Compares every stored tile and first leaf with the trees that the replay made, byte for byte; returns how many bytes
 * were read. The right edge of the last tree is not stored: the report names its root, for comparison with a checkpoint.
 */
export async function* verifyTree(
  walk: StoredWalk,
  scratch: ScratchPairs,
  findings: Findings,
): AsyncGenerator<Progress, number> {
  let bytes = 0;
  for (const prefix of TREE_PREFIXES) {
    const range = prefixRange(prefix);
    for await (const run of joined(walk(range), scratch.runs(range))) {
      for (const { key, left, right } of run) {
        bytes += key.length + (left?.length ?? 0);
        if (!isOfStore(key, findings) || (left && right?.equals(left))) continue;
        const part = nameTreePart(key);
        const details = { key: key.toString('hex') };
        if (!left) findings.add('TREE_MISSING', `${part} is not in the store. ${TREE_ADVICE}`, details);
        else if (right) findings.add('TREE_DIFFERS', `${part} is not that of the records. ${TREE_ADVICE}`, details);
        else
          findings.add('TREE_UNEXPECTED', `${part} is in the store, and by the log it is not. ${TREE_ADVICE}`, details);
      }
    }
    yield { stage: 'tree', done: bytes, of: undefined };
  }
  return bytes;
}

function nameTreePart(key: Buffer): string {
  const tree = `of the hash tree that begins with record ${treeOf(key)}`;
  if (key[0] === PREFIX.logLink) return `the first leaf ${tree}`;
  return `tile ${tileIndexOf(key)} of level ${tileLevelOf(key)} ${tree}`;
}

interface ArchiveReport {
  findings: readonly Finding[];
  found: number;
  firstLsn: number;
  lastLsn: number;
  /** Records whose hash in the tree the archive has. */
  hashed: number;
  relayPubkey: PublicKey | undefined;
}

/**
 * Verifies an archive of the log whose file was already checked as a whole: that every record can be read and, as far
 * as the archive holds tiles, that the record is the one in the hash tree.
 */
export async function* verifyArchive(offline: OfflineStore): AsyncGenerator<Progress, ArchiveReport> {
  const { firstLsn, lastLsn } = offline.store;
  const findings = new Findings();
  let hashed = 0;
  let starts: TreeStart[] = [];
  try {
    starts = await treeStarts(offline.level);
    const hashes = new LeafHashes(offline.level, starts);
    for await (const run of auditedRecords(offline)) {
      for (const { lsn, record } of run) {
        const own = await hashes.of(lsn);
        if (!own) continue;
        hashed++;
        if (own.equals(leafHash(record))) continue;
        findings.add('TREE_DIFFERS', `log record ${lsn} is not the one that the hash tree holds`, { lsn });
      }
      yield { stage: 'archive', done: run.at(-1)?.lsn ?? 0, of: lastLsn };
    }
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add('RECORD_DAMAGED', error.message);
  }
  const { listed, total } = findings;
  return { findings: listed, found: total, firstLsn, lastLsn, hashed, relayPubkey: starts.at(-1)?.relayPubkey };
}

/** The hashes of records in the order of the log; `undefined` where the archive has no tile. */
class LeafHashes {
  readonly #level: Level;
  readonly #starts: readonly TreeStart[];
  #place = '';
  #tile: Buffer | undefined;

  constructor(level: Level, starts: readonly TreeStart[]) {
    this.#level = level;
    this.#starts = starts;
  }

  async of(lsn: number): Promise<Buffer | undefined> {
    const start = this.#starts.findLast(({ firstLsn }) => firstLsn <= lsn);
    if (!start) return undefined;
    const index = leafIndex(start, lsn);
    const key = tileKey(start.firstLsn, 0, Math.floor(index / TILE_HASHES));
    const place = key.toString('hex');
    if (place !== this.#place) {
      const value = await this.#level.get(key);
      this.#tile = value && decodeTreePart(key, value);
      this.#place = place;
    }
    const at = (index % TILE_HASHES) * HASH_BYTES;
    const hash = this.#tile?.subarray(at, at + HASH_BYTES);
    return hash?.length === HASH_BYTES ? hash : undefined;
  }
}

interface CheckpointsAudit {
  /** The rows after this record are in the scratch; `undefined` when no checkpoint stands for what was pruned. */
  startLsn: number | undefined;
  whole: ReadonlyMap<number, RowCheckpoint>;
  bytes: number;
}

/**
 * Verifies what stands for the pruned records: the mark that says how far the log was pruned, and the checkpoints of the
 * rows, each against its event. Loads the rows with which the replay begins into the scratch.
 */
export async function* verifyCheckpoints(
  offline: OfflineStore,
  walk: StoredWalk,
  scratch: ScratchPairs,
  findings: Findings,
): AsyncGenerator<Progress, CheckpointsAudit> {
  const { level } = offline;
  await verifyMark(level, findings);
  const bytes = await verifyKeys(walk, findings);
  const found = yield* findCheckpoints(offline);
  for (const { message } of found.damaged) {
    const advice = 'the one before or after it stands in for it; the relay takes another in its time';
    findings.add('CHECKPOINT_DAMAGED', `${message}: ${advice}`);
  }
  const start = yield* beginReplay(offline, found, scratch);
  if (start && start.unowned > 0) {
    const message = `nothing says when ${countText(start.unowned, 'dedup row')} of checkpoint ${start.throughLsn} may be forgotten, so that would never be`;
    findings.add('DUE_MISSING', message);
  }
  const whole = new Map(found.whole.map((checkpoint) => [checkpoint.throughLsn, checkpoint]));
  return { startLsn: start?.throughLsn, whole, bytes };
}

async function verifyMark(level: Level, findings: Findings): Promise<void> {
  for await (const run of runsOf(level, prefixRange(PREFIX.pruned))) for (const [key] of run) isOfStore(key, findings);
  try {
    await readPruned(level);
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add('MARK_DIFFERS', `${error.message}: restore the newest backup that verifies`);
  }
}

/** Parts without a mark are of a checkpoint that was cut short. Answers how many bytes were read. */
async function verifyKeys(walk: StoredWalk, findings: Findings): Promise<number> {
  let bytes = 0;
  for (const prefix of CHECKPOINT_PREFIXES) {
    for await (const run of walk(prefixRange(prefix))) {
      for (const [key, value] of run) {
        bytes += key.length + value.length;
        isOfStore(key, findings);
      }
    }
  }
  return bytes;
}
