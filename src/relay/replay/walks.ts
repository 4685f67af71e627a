/** Walks of a verification: in step with another walk, and with a look-up of every key that they pass. */
import type { Pair } from '../../lib/pair-block.ts';
import { MARK_PREFIXES, ROW_PREFIXES } from '../store/checksum.ts';
import { CHECKPOINT_PREFIXES, KEY_BYTES, TREE_PREFIXES, prefixRange } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/scan.ts';
import type { Findings, Progress } from './finding.ts';

/** The runs of the range; a key that a look-up answers otherwise is a finding. */
export async function* withLookUps(level: Level, range: KeyRange, findings: Findings): AsyncGenerator<Pair[]> {
  for await (const run of runsOf(level, range)) {
    const values = await level.getMany(
      run.map(([key]) => key),
      { fillCache: false },
    );
    for (const [at, [key, value]] of run.entries()) {
      if (values[at]?.equals(value)) continue;
      const answer = values[at] ? 'with another value' : 'with nothing';
      findings.add(
        'LOOKUP_DIFFERS',
        `the database answers for the key ${key.toString('hex')} ${answer}, although it holds it: a table file is damaged; restore a backup, or rebuild`,
        { key: key.toString('hex') },
      );
    }
    yield run;
  }
}

/** A walk over stored pairs. */
export type StoredWalk = (range: KeyRange) => AsyncIterable<Pair[]>;

/** What is asked for by key: rows, due entries, hash trees, checkpoints. */
const LOOKED_UP: readonly number[] = [
  ...CHECKPOINT_PREFIXES,
  ...TREE_PREFIXES,
  ...ROW_PREFIXES.filter((prefix) => !MARK_PREFIXES.has(prefix)),
];

/** Look-ups of all of it; what is found there otherwise is left to the walks that judge it. */
export async function* verifyLookUps(level: Level, findings: Findings): AsyncGenerator<Progress, void> {
  let done = 0;
  for (const prefix of LOOKED_UP) {
    for await (const run of withLookUps(level, prefixRange(prefix), findings)) {
      yield { stage: 'look-ups', done: (done += run.length), of: undefined };
    }
  }
}

/** Whether software of ours wrote the key. Where a bit of a key fell over, the value of another one lies there. */
export function isOfStore(key: Buffer, findings: Findings | undefined): boolean {
  if (KEY_BYTES[key[0] ?? 0] === key.length) return true;
  const name = key.toString('hex');
  const message = `the key ${name} is none of a store: what belongs under another key may lie there`;
  findings?.add('KEY_UNEXPECTED', message, { key: name });
  return false;
}

/** One key of two walks, and what either has there. */
interface Joined {
  key: Buffer;
  left: Buffer | undefined;
  right: Buffer | undefined;
}

/** Two walks in step. Both ascend by key, and their keys begin with the same prefix or with none. */
export async function* joined(
  left: AsyncIterable<readonly Pair[]>,
  right: AsyncIterable<readonly Pair[]>,
): AsyncGenerator<Joined> {
  const walks = [new Walk(left), new Walk(right)] as const;
  try {
    let [ofLeft, ofRight] = [await walks[0].next(), await walks[1].next()];
    while (ofLeft || ofRight) {
      const order = !ofLeft ? 1 : !ofRight ? -1 : Buffer.compare(ofLeft[0], ofRight[0]);
      const key = (order <= 0 ? ofLeft?.[0] : ofRight?.[0]) as Buffer;
      yield { key, left: order <= 0 ? ofLeft?.[1] : undefined, right: order >= 0 ? ofRight?.[1] : undefined };
      if (order <= 0) ofLeft = walks[0].ready() ?? (await walks[0].next());
      if (order >= 0) ofRight = walks[1].ready() ?? (await walks[1].next());
    }
  } finally {
    for (const walk of walks) await walk.close();
  }
}

/** Pairs one by one off a walk in runs: what is at hand is taken without waiting. */
class Walk {
  readonly #runs: AsyncIterator<readonly Pair[]>;
  #run: readonly Pair[] = [];
  #at = 0;

  constructor(runs: AsyncIterable<readonly Pair[]>) {
    this.#runs = runs[Symbol.asyncIterator]();
  }

  ready(): Pair | undefined {
    return this.#run[this.#at++];
  }

  async next(): Promise<Pair | undefined> {
    for (;;) {
      const pair = this.ready();
      if (pair) return pair;
      const { done, value } = await this.#runs.next();
      if (done) return undefined;
      this.#run = value;
      this.#at = 0;
    }
  }

  async close(): Promise<void> {
    await this.#runs.return?.();
  }
}
