/**
 * The due indexes against the rows: what expires and what may be forgotten is named by an entry of its time, and of a
 * dedup row the entry names the right sender. Entries of rows that are gone are passed over by the sweep, and here.
 *
 * Entries lie in the order of their times and rows in that of their keys, so a part of the rows is held in memory while
 * the index is walked, and then the next part.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { areSame } from '../../protocol/encodings.ts';
import { spread } from '../store/held-pairs.ts';
import { DEDUP_RUN_BYTES, EXPIRY_RUN_BYTES, PREFIX, prefixRange, seqOf, writeNumber } from '../store/keys.ts';
import { runsOf } from '../store/scan.ts';
import { verifiedBytes, rowName } from '../store/checksum.ts';
import { rowOf } from '../store/row-codec.ts';
import type { Findings, Progress } from './finding.ts';
import { knownUntilMs, senderAt } from './replay.ts';
import { type StoredWalk, type Verification, isOfStore } from './verification.ts';

const KEY = 32;
const TIME = 8;
const ADVICE = 'poste relay log rebuild makes the index anew';
/** A part begins with room for so many rows: memory by the tens of MiB is for stores that need it. */
const FIRST_ROWS = 64;

/** An index says how it names rows, and what it must name. */
interface Index {
  prefix: typeof PREFIX.expiry | typeof PREFIX.dedupUntil;
  runBytes: number;
  /** A run is a sender of so many bytes, and a row's key without its prefix. */
  senderBytes: number;
  /** The place of the rows in the replay, and what is due of one; `undefined` when nothing is. */
  rows: number;
  due(key: Buffer, value: Buffer): { dueMs: number; sender: Buffer } | undefined;
  words(key: Buffer, sender: Buffer): string;
}

const NOBODY = Buffer.alloc(0);

/** Needs a replay that went through. */
export async function* verifyDue(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, rows: replayed, partRows, findings } = verification;
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  let seen = 0;
  for (const index of [expiryIndex, dedupIndex(purgedMs)]) {
    if (replayed.half === (index === expiryIndex ? 'known' : 'others')) continue;
    let { walk } = verification;
    let part = new Part(index, partRows, true);
    for await (const run of replayed.runs(prefixRange(index.rows))) {
      for (const [key, value] of run) {
        part.add(key, value);
        if (part.size < partRows) continue;
        await part.verify(walk, findings);
        yield { stage: 'due', done: (seen += part.size), of: undefined };
        // The first part has counted the index, and looked its keys up.
        walk = (range) => runsOf(offline.level, range);
        part = new Part(index, partRows, false);
      }
    }
    await part.verify(walk, findings);
  }
}

const expiryIndex: Index = {
  prefix: PREFIX.expiry,
  runBytes: EXPIRY_RUN_BYTES,
  senderBytes: 0,
  rows: PREFIX.queue,
  due: (key, value) => ({ dueMs: rowOf('queue', key, value).expiresAtMs, sender: NOBODY }),
  words: (key) => {
    const target = displayFingerprint(publicKeyFromBytes(key.subarray(1, 1 + KEY)));
    return `nothing says when the item for ${target} at seq ${seqOf(key)} expires, so it never would`;
  },
};

function dedupIndex(purgedMs: number): Index {
  return {
    prefix: PREFIX.dedupUntil,
    runBytes: DEDUP_RUN_BYTES,
    senderBytes: KEY,
    rows: PREFIX.dedup,
    due: (_key, value) => {
      const dueMs = knownUntilMs(value);
      return dueMs <= purgedMs ? undefined : { dueMs, sender: value.subarray(senderAt(value)) };
    },
    words: (key, sender) => {
      const row = `dedup row ${key.subarray(1).toString('hex')}`;
      return `nothing says when an item of ${senderText(sender)} may be forgotten (${row}), so it never would be`;
    },
  };
}

/**
 * Rows that follow each other, held against the whole index. They lie one behind the other in one piece of memory: row
 * key, time, sender; and a table finds them by their keys.
 */
class Part {
  readonly #index: Index;
  readonly #isFirst: boolean;
  readonly #keyBytes: number;
  readonly #stride: number;
  readonly #rowsMax: number;
  #rows: Buffer = NOBODY;
  #places = new Int32Array(1);
  /** Says whether an entry of its time named the row. */
  #isNamed = new Uint8Array(0);
  #size = 0;

  /** With the first part of an index, its entries are judged besides. */
  constructor(index: Index, rowsMax: number, isFirst: boolean) {
    this.#index = index;
    this.#isFirst = isFirst;
    this.#keyBytes = index.runBytes - index.senderBytes;
    this.#stride = index.runBytes + TIME;
    this.#rowsMax = rowsMax;
  }

  get size(): number {
    return this.#size;
  }

  add(key: Buffer, value: Buffer): void {
    const due = this.#index.due(key, value);
    if (!due) return;
    const at = this.#size * this.#stride;
    if (at === this.#rows.length) this.#grow();
    this.#rows.set(key.subarray(1), at);
    writeNumber(this.#rows, due.dueMs, at + this.#keyBytes);
    this.#rows.set(due.sender, at + this.#keyBytes + TIME);
    this.#places[this.#slotOf(this.#rows, at)] = ++this.#size;
  }

  #grow(): void {
    const rows = Math.min(this.#rowsMax, Math.max(FIRST_ROWS, 4 * this.#size));
    const larger = Buffer.allocUnsafeSlow(rows * this.#stride);
    this.#rows.copy(larger);
    this.#rows = larger;
    this.#places = new Int32Array(2 ** Math.ceil(Math.log2(2 * rows + 1)));
    for (let nth = 0; nth < this.#size; nth++) this.#places[this.#slotOf(larger, nth * this.#stride)] = nth + 1;
  }

  async verify(walk: StoredWalk, findings: Findings): Promise<void> {
    this.#isNamed = new Uint8Array(this.#size);
    for await (const entries of walk(prefixRange(this.#index.prefix))) {
      for (const [key, value] of entries) {
        const runs = this.#readable(key, value, findings);
        if (runs) this.#name(key, runs, findings);
      }
    }
    for (let nth = 0; nth < this.#size; nth++) {
      if (this.#isNamed[nth] === 1) continue;
      const at = nth * this.#stride;
      const key = Buffer.concat([Buffer.of(this.#index.rows), this.#rows.subarray(at, at + this.#keyBytes)]);
      findings.add('DUE_MISSING', `${this.#index.words(key, this.#senderOf(nth))}. ${ADVICE}`);
    }
  }

  #readable(key: Buffer, value: Buffer, findings: Findings): Buffer | undefined {
    if (!isOfStore(key, this.#isFirst ? findings : undefined)) return undefined;
    const runs = verifiedBytes(key, value);
    if (runs && runs.length % this.#index.runBytes === 0) return runs;
    const what = runs ? 'has a length of none' : 'does not match its checksum';
    if (this.#isFirst) findings.add('DUE_DAMAGED', `${rowName(key)} ${what}. ${ADVICE}`);
    return undefined;
  }

  /** Marks the rows of the part that the entry under `key` names: a run is a sender, if the index has it, and a row. */
  #name(key: Buffer, runs: Buffer, findings: Findings): void {
    const { runBytes, senderBytes } = this.#index;
    for (let at = 0; at < runs.length; at += runBytes) {
      const nth = (this.#places[this.#slotOf(runs, at + senderBytes)] ?? 0) - 1;
      if (nth < 0) continue;
      const timeAt = nth * this.#stride + this.#keyBytes;
      if (!areSame(key, 1, this.#rows, timeAt, TIME)) continue;
      if (areSame(runs, at, this.#rows, timeAt + TIME, senderBytes)) this.#isNamed[nth] = 1;
      else {
        // The purge would count the row against whom the entry names.
        const message =
          'a due entry names another sender than the dedup row of ' +
          `${senderText(this.#senderOf(nth))} has. ${ADVICE}`;
        findings.add('DUE_DAMAGED', message);
      }
    }
  }

  #senderOf(nth: number): Buffer {
    const at = nth * this.#stride + this.#keyBytes + TIME;
    return this.#rows.subarray(at, at + this.#index.senderBytes);
  }

  /** Returns where in the table the row is whose key stands at `at`, or would be. */
  #slotOf(bytes: Buffer, at: number): number {
    const mask = this.#places.length - 1;
    const end = at + this.#keyBytes;
    for (let slot = spread(bytes.readUInt32LE(at), bytes.readUInt32LE(end - 4)) & mask; ; slot = (slot + 1) & mask) {
      const from = ((this.#places[slot] ?? 0) - 1) * this.#stride;
      if (from < 0 || areSame(bytes, at, this.#rows, from, this.#keyBytes)) return slot;
    }
  }
}

function senderText(sender: Buffer): string {
  return displayFingerprint(publicKeyFromBytes(sender));
}
