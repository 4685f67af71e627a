/**
 * A week in an hour: what a relay uses at the end of its days is what it used at the end of the first ones. `npm run
 * torture -- --only soak` lives a week after the days that fill the store; `POSTE_TORTURE_RUNS` says how many in all.
 */
import { expect, onTestFinished, test } from 'vitest';
import { Soak, type Used } from './soak.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { tried } from '../support/thorough.ts';

const DAYS = Number(process.env['POSTE_TORTURE_RUNS'] ?? 3);
/** On a busy machine. */
const DAY_MS = 120_000;
/** For so long items stay known after they are gone (retention and seven days), and the store grows by each day's. */
const KNOWN_DAYS = 8;
/** Those that fill what stays full: caches, compiled code, and in a long run what is known. */
const WARM_DAYS = DAYS > KNOWN_DAYS ? KNOWN_DAYS : 2;
/** Rows that stay for good: of hosts that were revoked, of keys that were replaced. */
const STORE_GROWTH_MAX = 1.25;
const HEAP_GROWTH_MAX = 8 << 20;
const MIB = 1 << 20;

function inWords({ openFiles, timers, heapBytes, storeFiles, storeBytes }: Used): string {
  const heap = (heapBytes / MIB).toFixed(1);
  return (
    `${openFiles} open files, ${timers} timers, ${heap} MiB of heap, ${storeFiles} files and ` +
    `${storeBytes >> 10} KiB of store`
  );
}

/** Returns what must be the very same. */
function countsOf({ openFiles, timers, names, backups }: Used): object {
  return { openFiles, timers, names, backups };
}

test('files, memory, handles and disk are back where they were, however many days pass', {
  timeout: 60_000 + DAYS * DAY_MS,
}, async () => {
  const soak = await Soak.begin(await temporaryFolder(), await temporaryFolder());
  onTestFinished(() => soak.end());
  const days: Used[] = [];
  for (let day = 0; day < DAYS; day++) days.push(await soak.day());
  const first = days[WARM_DAYS - 1]!;
  const last = days.at(-1)!;
  const { requests, expired, pruned, restores, upgrades } = soak.lived;
  const sent = `${requests} requests, ${expired} expired, ${pruned} times pruned`;
  const did = `${sent}, ${restores} restores, ${upgrades} upgrades`;
  tried(`${DAYS} days: ${did}; after day ${WARM_DAYS} ${inWords(first)}; after day ${DAYS} ${inWords(last)}`);
  expect(expired).toBeGreaterThan(0);
  expect(pruned).toBeGreaterThan(0);
  expect(countsOf(last)).toEqual(countsOf(first));
  expect(last.heapBytes).toBeLessThan(first.heapBytes + HEAP_GROWTH_MAX);
  const knownDays = Math.min(DAYS, KNOWN_DAYS) / WARM_DAYS;
  expect(last.storeBytes).toBeLessThan(first.storeBytes * knownDays * STORE_GROWTH_MAX);
  expect(last.storeFiles).toBeLessThanOrEqual(first.storeFiles + 4);
});
