/** Walks over a database that also judge its keys: that each is of the store, and that a look-up answers for it. */
import { KEY_BYTES } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/pairs.ts';
import type { Findings } from './finding.ts';
import type { Pair } from '../../system/pair-block.ts';

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

/** Whether software of ours wrote the key. Where a bit of a key fell over, the value of another one lies there. */
export function isOfStore(key: Buffer, findings: Findings | undefined): boolean {
  if (KEY_BYTES[key[0] ?? 0] === key.length) return true;
  const name = key.toString('hex');
  const message = `the key ${name} is none of a store: what belongs under another key may lie there`;
  findings?.add('KEY_UNEXPECTED', message, { key: name });
  return false;
}
