/** Walks of a database for whoever reads all of it: in runs, past the cache, and two at a time in the order of keys. */
import type { Level, LevelSnapshot } from './level.ts';
import type { Pair } from '../../system/pair-block.ts';

const RUN_PAIRS = 1000;
const RUN_BYTES = 4 << 20;

export interface KeyRange {
  gte?: Buffer;
  lt?: Buffer;
  lte?: Buffer;
}

export interface RunsOptions {
  /** Absent: the database as it is now. */
  snapshot?: LevelSnapshot;
  /** How large a run is at most, in pairs, and about, in bytes. */
  pairs?: number;
  bytes?: number;
}

/** Every pair of the range, ascending, in runs that are not empty. Throws when LevelDB cannot read one of its files. */
export async function* runsOf(
  level: Level,
  range: KeyRange,
  { snapshot, pairs = RUN_PAIRS, bytes = RUN_BYTES }: RunsOptions = {},
): AsyncGenerator<Pair[]> {
  const reading = { fillCache: false, highWaterMarkBytes: bytes, ...(snapshot && { snapshot }) };
  const iterator = level.iterator({ ...range, ...reading });
  try {
    for (;;) {
      const run = await iterator.nextv(pairs);
      if (run.length === 0) return;
      yield run;
    }
  } finally {
    await iterator.close();
  }
}

/** One key of two walks, and what either has there. */
export interface Joined {
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
