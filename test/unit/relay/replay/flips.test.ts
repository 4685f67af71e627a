import { expect, test } from 'vitest';
import { FlippedStore, type Outcome, SMALL_STORE_BYTES, WRITTEN } from '../../../support/flips.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { share, tried } from '../../../support/thorough.ts';

/** `npm run flip` takes every byte. */
const SAMPLED = share(320);

test.each(WRITTEN)('a byte altered in a store that is %s is found or harmless', async (written) => {
  const store = await FlippedStore.make(await temporaryFolder(), written);
  expect(store.places.length).toBeLessThanOrEqual(SMALL_STORE_BYTES);
  const random = new SeededRandom(4_711);
  const outcomes = new Map<Outcome, string[]>();
  for (let taken = 0; taken < SAMPLED; taken++) {
    const place = random.pick(store.places);
    const outcome = await store.flip(place);
    outcomes.set(outcome, [...(outcomes.get(outcome) ?? []), `${place.file} at ${place.offset}`]);
  }
  expect(outcomes.get('neither')).toBeUndefined();
  const found = (outcomes.get('refused')?.length ?? 0) + (outcomes.get('found by verify')?.length ?? 0);
  expect(found).toBeGreaterThan(SAMPLED / 4);
  const counts = [...outcomes].map(([outcome, places]) => `${outcome} ${places.length}`).join(', ');
  tried(`${SAMPLED} bytes altered, one at a time, of a store ${written}: ${counts}`);
});
