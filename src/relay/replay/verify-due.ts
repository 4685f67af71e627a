/**
 * The due indexes against the rows: what expires and what may be forgotten is named by an entry of its time, and of a
 * dedup row the entry names the right sender. Entries of rows that are gone are passed over by the sweep, and here.
 *
 * Entries lie in the order of their times and rows in that of their keys, so a part of the rows is held in memory while
 * the index is walked, and then the next part.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { areSame } from '../../protocol/encodings.ts';
import { HeldPairs } from '../store/held-pairs.ts';
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
const TIME_AT = 1;
const SENDER_AT = TIME_AT + TIME;

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
    let part = new Part(index, true);
    for await (const run of replayed.runs(prefixRange(index.rows))) {
      for (const [key, value] of run) {
        part.add(key, value);
        if (part.size < partRows) continue;
        await part.verify(walk, findings);
        yield { stage: 'due', done: (seen += part.size), of: undefined };
        // The first part has counted the index, and looked its keys up.
        walk = (range) => runsOf(offline.level, range);
        part = new Part(index, false);
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
 * Rows that follow each other, held against the whole index: by the key of each, whether an entry of its time named it,
 * u8, the time, u64, and the sender.
 */
class Part {
  readonly #index: Index;
  readonly #isFirst: boolean;
  readonly #rows = new HeldPairs();
  /** The key that an entry names, and what stands before the sender of a row: each use fills it. */
  readonly #named: Buffer;
  readonly #head = Buffer.alloc(SENDER_AT);

  /** With the first part of an index, its entries are judged besides. */
  constructor(index: Index, isFirst: boolean) {
    this.#index = index;
    this.#isFirst = isFirst;
    this.#named = Buffer.alloc(1 + index.runBytes - index.senderBytes, index.rows);
  }

  get size(): number {
    return this.#rows.count;
  }

  add(key: Buffer, value: Buffer): void {
    const due = this.#index.due(key, value);
    if (!due) return;
    writeNumber(this.#head, due.dueMs, TIME_AT);
    this.#rows.put(key, this.#head, due.sender);
  }

  async verify(walk: StoredWalk, findings: Findings): Promise<void> {
    for await (const entries of walk(prefixRange(this.#index.prefix))) {
      for (const [key, value] of entries) {
        const runs = this.#readable(key, value, findings);
        if (runs) this.#name(key, runs, findings);
      }
    }
    for (const rows = this.#rows.within({}); !rows.isAtEnd; ) {
      const [key, row = NOBODY] = rows.take();
      if (row[0] === 1) continue;
      findings.add('DUE_MISSING', `${this.#index.words(key, row.subarray(SENDER_AT))}. ${ADVICE}`);
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
      runs.copy(this.#named, 1, at + senderBytes, at + runBytes);
      const row = this.#rows.get(this.#named);
      if (!row || row === 'deleted' || !areSame(key, 1, row, TIME_AT, TIME)) continue;
      if (areSame(runs, at, row, SENDER_AT, senderBytes)) row[0] = 1;
      else {
        // The purge would count the row against whom the entry names.
        const message =
          'a due entry names another sender than the dedup row of ' +
          `${senderText(row.subarray(SENDER_AT))} has. ${ADVICE}`;
        findings.add('DUE_DAMAGED', message);
      }
    }
  }
}

function senderText(sender: Buffer): string {
  return displayFingerprint(publicKeyFromBytes(sender));
}
