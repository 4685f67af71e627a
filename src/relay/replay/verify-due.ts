/**
 * The due indexes against the rows: what expires and what may be forgotten is named by an entry of its time, and of a
 * dedup row the entry names the right sender. Entries of rows that are gone are passed over by the sweep, and here.
 *
 * Entries lie in the order of their times and rows in that of their keys, so a part of the rows is held in memory while
 * the index is walked, and then the next part.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import { DEDUP_OWNERS, DEDUP_RUN_BYTES, EXPIRY_RUN_BYTES, PREFIX, prefixRange, seqOf } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { runsOf } from '../store/scan.ts';
import type { ReplayedRows } from './replay.ts';
import { verifiedBytes, rowName } from '../store/checksum.ts';
import { decodeRow } from '../store/row-codec.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, withLookUps } from './walks.ts';

const KEY = 32;
const TIME = 8;
const ADVICE = 'poste relay log rebuild makes the index anew';

/** How an index names rows, and what it must name. */
interface Index {
  prefix: typeof PREFIX.expiry | typeof PREFIX.dedupUntil;
  runBytes: number;
  /** The row's key, without its prefix, and the sender that a run names. */
  parse: (run: Buffer) => { row: Buffer; sender: Buffer };
  /** Where the replay has the rows, and what is due of one; `undefined` when nothing is. */
  rows: number;
  due(key: Buffer, value: Buffer): { dueMs: number; sender: Buffer } | undefined;
  words(key: Buffer, sender: Buffer): string;
}

const NOBODY = Buffer.alloc(0);

/** Answers how many bytes were read. Needs a replay that went through: `scratch` holds its rows. */
export async function* verifyDue(
  level: Level,
  scratch: BulkDatabase,
  replayed: ReplayedRows,
  partRows: number,
  findings: Findings,
): AsyncGenerator<Progress, number> {
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  let bytes = 0;
  let seen = 0;
  for (const index of [expiryIndex, dedupIndex(purgedMs)]) {
    let part = new Part(index, true);
    for await (const run of runsOf(scratch.level, prefixRange(index.rows))) {
      for (const [key, value] of run) {
        part.add(key, value);
        if (part.size < partRows) continue;
        bytes += await part.verify(level, findings);
        yield { stage: 'due', done: (seen += part.size), of: undefined };
        part = new Part(index, false);
      }
    }
    bytes += await part.verify(level, findings);
  }
  return bytes;
}

const expiryIndex: Index = {
  prefix: PREFIX.expiry,
  runBytes: EXPIRY_RUN_BYTES,
  parse: (run) => ({ row: run, sender: NOBODY }),
  rows: PREFIX.queue,
  due: (key, value) => ({ dueMs: decodeRow('queue', key, value).expiresAtMs, sender: NOBODY }),
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

/** Rows that follow each other, held against the whole index. */
class Part {
  readonly #index: Index;
  readonly #isFirst: boolean;
  readonly #due = new Map<string, DueRow>();
  #first: Buffer | undefined;
  #last: Buffer | undefined;

  /** With the first part of an index, its entries are judged besides. */
  constructor(index: Index, isFirst: boolean) {
    this.#index = index;
    this.#isFirst = isFirst;
  }

  get size(): number {
    return this.#due.size;
  }

  add(key: Buffer, value: Buffer): void {
    const due = this.#index.due(key, value);
    if (!due) return;
    const row = key.subarray(1);
    this.#due.set(markOf(row, timeBytes(due.dueMs)), { key, sender: due.sender, isNamed: false });
    this.#first ??= row;
    this.#last = row;
  }

  /** Answers how many bytes of the index were read, counted with the first part. */
  async verify(level: Level, findings: Findings): Promise<number> {
    let bytes = 0;
    const range = prefixRange(this.#index.prefix);
    for await (const entries of this.#isFirst ? withLookUps(level, range, findings) : runsOf(level, range)) {
      for (const [key, value] of entries) {
        bytes += key.length + value.length;
        const runs = this.#readable(key, value, findings);
        if (runs) this.#name(key.subarray(1, 1 + TIME), runs, findings);
      }
    }
    for (const { key, sender, isNamed } of this.#due.values()) {
      if (!isNamed) findings.add('DUE_MISSING', `${this.#index.words(key, sender)}. ${ADVICE}`);
    }
    return this.#isFirst ? bytes : 0;
  }

  #readable(key: Buffer, value: Buffer, findings: Findings): Buffer | undefined {
    if (!isOfStore(key, this.#isFirst ? findings : undefined)) return undefined;
    const runs = verifiedBytes(key, value);
    if (runs && runs.length % this.#index.runBytes === 0) return runs;
    const what = runs ? 'has a length of none' : 'does not match its checksum';
    if (this.#isFirst) findings.add('DUE_DAMAGED', `${rowName(key)} ${what}. ${ADVICE}`);
    return undefined;
  }

  /** Marks the rows of the part that an entry of `time` names. */
  #name(time: Buffer, value: Buffer, findings: Findings): void {
    const { runBytes, parse } = this.#index;
    if (!this.#first || !this.#last) return;
    for (let at = 0; at < value.length; at += runBytes) {
      const { row, sender } = parse(value.subarray(at, at + runBytes));
      if (Buffer.compare(row, this.#first) < 0 || Buffer.compare(row, this.#last) > 0) continue;
      const known = this.#due.get(markOf(row, time));
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
