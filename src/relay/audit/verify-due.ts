/**
 * The due indexes against the rows: what expires and what may be forgotten is named by an entry of its time, and of a
 * dedup row the entry names the right sender. Entries of rows that are gone are passed over by the sweep, and here.
 *
 * Entries lie in the order of their times and rows in that of their keys, so a part of the rows is held in memory while
 * the index is walked, and then the next part.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import {
  DEDUP_OWNERS,
  DEDUP_RUN_BYTES,
  EXPIRY_RUN_BYTES,
  PREFIX,
  prefixRange,
  queueRowKey,
  seqOf,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { runsOf } from '../store/pairs.ts';
import type { ReplayedRows } from '../store/replay.ts';
import { decodeRow } from '../store/row-codec.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, lookedUp } from './looked-up.ts';

const KEY = 32;
const TIME = 8;
/** A part is told by the last byte of a key. */
const PARTS_MAX = 256;
const ADVICE = 'poste relay log rebuild makes the index anew';

/** How an index names rows, and what it must name. */
interface Index {
  prefix: typeof PREFIX.expiry | typeof PREFIX.dedupUntil;
  runBytes: number;
  /** The row's key, without its prefix, and the sender that a run names. */
  parse(run: Buffer): { row: Buffer; sender: Buffer };
  /** Where the replay has the rows, and what is due of one; `undefined` when nothing is. */
  rows: number;
  due(key: Buffer, value: Buffer): { dueMs: number; sender: Buffer } | undefined;
  words(key: Buffer, sender: Buffer): string;
}

const NOBODY = Buffer.alloc(0);

/** Answers how many bytes were read. Needs a replay that went through: `scratch` holds its rows, `rows` at most. */
export async function* verifyDue(
  level: Level,
  scratch: BulkDatabase,
  replayed: ReplayedRows,
  { rows, partRows }: { rows: number; partRows: number },
  findings: Findings,
): AsyncGenerator<Progress, number> {
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  const parts = Math.min(PARTS_MAX, Math.max(1, Math.ceil(rows / partRows)));
  const indexes = [expiryIndex, dedupIndex(purgedMs)];
  let bytes = 0;
  for (const [at, index] of indexes.entries()) {
    for (let part = 0; part < parts; part++) {
      yield { stage: 'due', done: at * parts + part, of: indexes.length * parts };
      const isIn = (row: Buffer): boolean => (row.at(-1) ?? 0) % parts === part;
      const read = await verifyPart(level, scratch, index, isIn, part === 0, findings);
      if (part === 0) bytes += read;
    }
  }
  return bytes;
}

const expiryIndex: Index = {
  prefix: PREFIX.expiry,
  runBytes: EXPIRY_RUN_BYTES,
  parse: (run) => ({ row: run, sender: NOBODY }),
  rows: PREFIX.queue,
  due: (key, value) => ({ dueMs: decodeRow('queue', queueRowKey(key), value).expiresAtMs, sender: NOBODY }),
  words: (key) => {
    const target = displayFingerprint(publicKeyFromBytes(key.subarray(1, 1 + KEY)));
    return `nothing says when the item for ${target} at seq ${seqOf(key)} expires, so it never would`;
  },
};

function dedupIndex(purgedMs: number): Index {
  return {
    prefix: PREFIX.dedupUntil,
    runBytes: DEDUP_RUN_BYTES,
    parse: (run) => ({ row: run.subarray(KEY), sender: run.subarray(0, KEY) }),
    rows: DEDUP_OWNERS,
    due: (_key, owner) => {
      const dueMs = Number(owner.readBigUInt64BE(0));
      return dueMs <= purgedMs ? undefined : { dueMs, sender: owner.subarray(TIME) };
    },
    words: (key, sender) => {
      const row = `dedup row ${key.subarray(1).toString('hex')}`;
      return `nothing says when an item of ${senderText(sender)} may be forgotten (${row}), so it never would be`;
    },
  };
}

/** A row of the part, and whether an entry of its time named it. */
interface DueRow {
  key: Buffer;
  sender: Buffer;
  isNamed: boolean;
}

/** Answers how many bytes of the index were read. */
async function verifyPart(
  level: Level,
  scratch: BulkDatabase,
  index: Index,
  isIn: (row: Buffer) => boolean,
  isFirst: boolean,
  findings: Findings,
): Promise<number> {
  const due = new Map<string, DueRow>();
  for await (const run of runsOf(scratch.level, prefixRange(index.rows))) {
    for (const [key, value] of run) {
      const row = isIn(key) ? index.due(key, value) : undefined;
      if (row) due.set(markOf(key.subarray(1), timeBytes(row.dueMs)), { key, sender: row.sender, isNamed: false });
    }
  }
  let bytes = 0;
  const range = prefixRange(index.prefix);
  for await (const entries of isFirst ? lookedUp(level, range, findings) : runsOf(level, range)) {
    for (const [key, value] of entries) {
      bytes += key.length + value.length;
      if (!isOfStore(key, isFirst ? findings : undefined)) continue;
      if (value.length % index.runBytes !== 0) {
        const message = `the due entry ${key.toString('hex')} has a length of none. ${ADVICE}`;
        if (isFirst) findings.add('DUE_DAMAGED', message);
        continue;
      }
      const time = key.subarray(1, 1 + TIME);
      for (let at = 0; at < value.length; at += index.runBytes) {
        const { row, sender } = index.parse(value.subarray(at, at + index.runBytes));
        const known = isIn(row) ? due.get(markOf(row, time)) : undefined;
        if (!known) continue;
        if (known.sender.equals(sender)) known.isNamed = true;
        else {
          // The purge would count the row against whom the entry names.
          const message = `a due entry names another sender than the dedup row of ${senderText(known.sender)} has. ${ADVICE}`;
          findings.add('DUE_DAMAGED', message);
        }
      }
    }
  }
  for (const { key, sender, isNamed } of due.values()) {
    if (!isNamed) findings.add('DUE_MISSING', `${index.words(key, sender)}. ${ADVICE}`);
  }
  return bytes;
}

function markOf(row: Buffer, time: Buffer): string {
  return row.toString('latin1') + time.toString('latin1');
}

function senderText(sender: Buffer): string {
  return displayFingerprint(publicKeyFromBytes(sender));
}

function timeBytes(timeMs: number): Buffer {
  const bytes = Buffer.allocUnsafe(TIME);
  bytes.writeBigUInt64BE(BigInt(timeMs));
  return bytes;
}
