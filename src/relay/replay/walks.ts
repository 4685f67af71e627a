/** Walks of a verification: in step with another walk, and with a look-up of every key that they pass. */
import type { Pair } from '../../lib/pair-block.ts';
import { HASH_BYTES, leafHash } from '../../protocol/merkle.ts';
import { lsnOf } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { isWholeRecord } from '../store/record.ts';
import { type KeyRange, runsOf } from '../store/scan.ts';
import type { Findings } from './finding.ts';

/**
 * The runs of a walk; a key that a look-up answers otherwise is a finding. A block that a walk left in the cache need
 * not be unpacked again for each of its keys.
 */
export async function* lookUpEach(
  level: Level,
  runs: AsyncIterable<Pair[]>,
  findings: Findings,
): AsyncGenerator<Pair[]> {
  const answered = async (run: Pair[]) => ({ run, values: await level.getMany(run.map(([key]) => key)) });
  for await (const { run, values } of readAhead(runs, answered)) {
    for (const [at, [key, value]] of run.entries()) {
      if (values[at]?.equals(value)) continue;
      const answer = values[at] ? 'with another value' : 'with nothing';
      findings.add(
        'LOOKUP_DIFFERS',
        `the database answers for the key ${key.toString('hex')} ${answer}, although it holds it: a table file ` +
          'is damaged; restore a backup, or rebuild',
        { key: key.toString('hex') },
      );
    }
    yield run;
  }
}

/**
 * Yields what `read` makes of each, in order: it reads the next one while one is in use. An error comes in its place.
 */
export async function* readAhead<T, U>(all: AsyncIterable<T>, read: (one: T) => Promise<U>): AsyncGenerator<U> {
  let ahead: Promise<U> | undefined;
  try {
    for await (const one of all) {
      const next = read(one);
      // Seen when its turn comes; the caller may leave before that.
      next.catch(() => undefined);
      const due = ahead;
      ahead = undefined;
      if (due) yield await due;
      ahead = next;
    }
  } catch (error) {
    if (ahead) yield await ahead;
    throw error;
  }
  if (ahead) yield await ahead;
}

/** A range of keys under the prefix of the log. */
export interface RecordRange {
  gte: Buffer;
  lt: Buffer;
}

/** A record as it is stored, and its hash in the tree where another thread saw that it is whole. */
export interface LeafedRecord {
  key: Buffer;
  record: Buffer;
  leaf: Buffer | undefined;
}

/** The records of the range, in runs; their hashes, if they are wanted, where the checksum is right. */
export async function* readRecords(level: Level, range: KeyRange, withLeaves: boolean): AsyncGenerator<LeafedRecord[]> {
  for await (const run of runsOf(level, range))
    yield run.map(([key, record]) => {
      const isWhole = withLeaves && isWholeRecord(lsnOf(key), record);
      return { key, record, leaf: isWhole ? leafHash(record) : undefined };
    });
}

/** As a pair, for another thread: whether there is a leaf u8, the leaf, the record. */
export function packRecord({ key, record, leaf }: LeafedRecord): Pair {
  return [key, leaf ? Buffer.concat([LEAFED, leaf, record]) : Buffer.concat([BARE, record])];
}

export function unpackRecord([key, value]: Pair): LeafedRecord {
  if (value[0] === BARE[0]) return { key, record: value.subarray(1), leaf: undefined };
  return { key, record: value.subarray(1 + HASH_BYTES), leaf: value.subarray(1, 1 + HASH_BYTES) };
}

const BARE = Buffer.of(0);
const LEAFED = Buffer.of(1);

/** One key of two walks, and what either has there. */
interface Joined {
  key: Buffer;
  left: Buffer | undefined;
  right: Buffer | undefined;
}

/**
 * Two walks in step, in runs of what both have at hand: to wait for each pair would take longer than to compare it.
 * Both ascend by key, and their keys begin with the same prefix or with none.
 */
export async function* joinWalks(
  left: AsyncIterable<readonly Pair[]>,
  right: AsyncIterable<readonly Pair[]>,
): AsyncGenerator<Joined[]> {
  const [ofLeft, ofRight] = [new Walk(left), new Walk(right)];
  try {
    for (;;) {
      await ofLeft.advance();
      await ofRight.advance();
      const run: Joined[] = [];
      while (!ofLeft.isBehind && !ofRight.isBehind) {
        const [one, other] = [ofLeft.pair, ofRight.pair];
        if (!one && !other) break;
        const order = !one ? 1 : !other ? -1 : Buffer.compare(one[0], other[0]);
        if (order <= 0) ofLeft.take();
        if (order >= 0) ofRight.take();
        const key = ((order <= 0 ? one : other) as Pair)[0];
        run.push({ key, left: order <= 0 ? one?.[1] : undefined, right: order >= 0 ? other?.[1] : undefined });
      }
      if (run.length === 0) return;
      yield run;
    }
  } finally {
    await ofLeft.close();
    await ofRight.close();
  }
}

/** Pairs one by one off a walk in runs. */
class Walk {
  readonly #runs: AsyncIterator<readonly Pair[]>;
  #run: readonly Pair[] = [];
  #at = 0;
  #isDone = false;

  constructor(runs: AsyncIterable<readonly Pair[]>) {
    this.#runs = runs[Symbol.asyncIterator]();
  }

  /** The next pair; `undefined` at the end, or where the walk has to `advance` first. */
  get pair(): Pair | undefined {
    return this.#run[this.#at];
  }

  /** Says whether the next pair is not at hand. */
  get isBehind(): boolean {
    return this.#at >= this.#run.length && !this.#isDone;
  }

  take(): void {
    this.#at++;
  }

  async advance(): Promise<void> {
    while (this.isBehind) {
      const { done, value } = await this.#runs.next();
      if (done) this.#isDone = true;
      else [this.#run, this.#at] = [value, 0];
    }
  }

  async close(): Promise<void> {
    await this.#runs.return?.();
  }
}
