/** Walks of a verification: in step with another walk, and with a look-up of every key that they pass. */
import type { Pair } from '../../lib/pair-block.ts';
import type { Level } from '../store/level.ts';
import { readAhead } from '../store/scan.ts';
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

/** One key of two walks, and what either has there. */
interface JoinedKey {
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
): AsyncGenerator<JoinedKey[]> {
  const [ofLeft, ofRight] = [new Walk(left), new Walk(right)];
  try {
    for (;;) {
      await ofLeft.advance();
      await ofRight.advance();
      const run: JoinedKey[] = [];
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
