/** A walk over a database that also asks for each key, as the relay does. */
import type { Pair } from '../store/backup.ts';
import type { Level } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/pairs.ts';
import type { Findings } from './finding.ts';

/** The runs of the range; a key that a look-up answers otherwise is a finding. */
export async function* lookedUp(level: Level, range: KeyRange, findings: Findings): AsyncGenerator<Pair[]> {
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
