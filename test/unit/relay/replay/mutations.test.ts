import { expect, test } from 'vitest';
import { join } from 'node:path';
import { KEPT, type Kept, MUTATIONS, MutatedStore } from '../../../support/mutated-store.ts';
import { MutationJudges, type Verdict } from './mutation-judges.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { share, tried } from '../../../support/thorough.ts';

/** The number of mutations of each store. */
const MUTATED = share(80, 32);
const SEED = Number(process.env['POSTE_TORTURE_SEED'] ?? 4_711);

/** Returns what became of it; a sentence when that may not be. */
function outcomeOf({ audit, start }: Verdict): { outcome: string } | { fault: string } {
  if (!audit) return { fault: 'an audit ended its process' };
  if (start?.type === 'wrong') return { fault: `${audit.type} by verify; ${start.said}` };
  const isSound = audit.type === 'sound';
  if (!start)
    return isSound
      ? { fault: 'found by nothing, and a start ended its process' }
      : { outcome: 'a start ended its process' };
  if (start.type === 'refused')
    return isSound ? { fault: `found by nothing, and ${start.said}` } : { outcome: 'refused at the start' };
  const { epoch, isMarked } = start;
  if (epoch !== 'same') return { outcome: `a new epoch ${epoch}` };
  if (!isSound) return { outcome: 'found by verify, and nothing was missing' };
  return isMarked
    ? { fault: 'found by nothing, and something was refused or stored once more' }
    : { outcome: 'harmless' };
}

/** Mutates one file of a copy of `store` after another. Answers what may not be. */
async function faultsOf(store: MutatedStore, folder: string, judges: MutationJudges, kept: Kept): Promise<string[]> {
  const random = new SeededRandom(SEED);
  const outcomes = new Map<string, number>();
  const faults: string[] = [];
  const [audited, started] = [join(folder, 'audited'), join(folder, 'started')];
  for (let done = 0; done < MUTATED; done++) {
    const mutation = store.any(random);
    await store.copyTo(audited, mutation);
    await store.copyTo(started, mutation);
    const judged = outcomeOf(await judges.judge({ audited, started, promises: store.promises }));
    if ('outcome' in judged) outcomes.set(judged.outcome, (outcomes.get(judged.outcome) ?? 0) + 1);
    else {
      const { kind, file, offset, bytes } = mutation;
      faults.push(
        `${kept}, number ${done + 1}: ${kind} ${bytes?.length ?? ''} in ${file} at ${offset}: ${judged.fault}`,
      );
    }
  }
  const counts = [...outcomes].map(([outcome, count]) => `${outcome} ${count}`).join(', ');
  tried(`${MUTATED} mutations (${MUTATIONS.join(', ')}) of a store, ${kept}: ${counts}`);
  return faults;
}

test('a file of a store that is cut, zeroed, flipped or overwritten loses nothing in silence', async () => {
  const judges = new MutationJudges();
  for (const kept of KEPT) {
    const folder = await temporaryFolder();
    const store = await MutatedStore.make(folder, kept);
    expect(store.files.filter((name) => name.endsWith('.ldb')).length).toBeGreaterThan(1);
    expect(await faultsOf(store, folder, judges, kept)).toEqual([]);
  }
});
