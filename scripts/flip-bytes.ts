/**
 * `npm run flip`: every byte of small stores altered, one at a time, and what became of it. Each must be found or
 * harmless; the exit code is 1 when one was neither. `npm run flip -- 20` takes every 20th byte.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { FlippedStore, type Outcome, type Place, WRITTEN } from '../test/support/flips.ts';

const step = Number(process.argv[2] ?? 1);
let neither = 0;
for (const written of WRITTEN) {
  const folder = await mkdtemp(join(tmpdir(), 'poste-flip-'));
  try {
    const store = await FlippedStore.make(folder, written);
    const chosen = store.places.filter((_place, at) => at % step === 0);
    console.log(`${chosen.length} of ${store.places.length} bytes, written ${written}`);
    const counts = new Map<string, Map<Outcome, number>>();
    const left: Place[] = [];
    for (const place of chosen) {
      const outcome = await store.flip(place);
      const kind = basename(place.file).replace(/\d{6}/, '#');
      const row = counts.get(kind) ?? new Map<Outcome, number>();
      counts.set(kind, row.set(outcome, (row.get(outcome) ?? 0) + 1));
      if (outcome === 'neither') left.push(place);
    }
    for (const [kind, row] of counts) {
      console.log(`  ${kind.padEnd(16)} ${[...row].map(([outcome, count]) => `${outcome} ${count}`).join(', ')}`);
    }
    for (const { file, offset } of left) console.log(`  NEITHER: ${file} at ${offset}`);
    neither += left.length;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
process.exitCode = neither === 0 ? 0 : 1;
