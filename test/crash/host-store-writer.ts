/**
 * A process that writes to a host's store as fast as it can, and prints the number of every transaction that was
 * acknowledged: `node host-store-writer.ts <folder>`. The test that started it kills it.
 */
import { writeSync } from 'node:fs';
import { openHostStore } from '../../src/host/store/open.ts';

const STDOUT = 1;
const LANES = 4;

const store = await openHostStore(process.argv[2] ?? '', () => process.exit(1));

async function lane(): Promise<never> {
  for (;;) {
    const number = await store.transact((tx) => {
      const next = tx.next('outbox');
      // Two rows that are there together or not at all.
      tx.put('counter', [`one-${next}`], next);
      tx.put('counter', [`other-${next}`], next);
      return next;
    });
    // Not buffered: what was printed was acknowledged before the kill.
    writeSync(STDOUT, `${number}\n`);
  }
}

await Promise.all(Array.from({ length: LANES }, lane));
