/**
 * Test files that `npm test` leaves to `npm run test:rest`, because they take long each and what they try in whole
 * processes, pages and histories is tried in parts by others. None of them is of test/spec: every rule of the
 * specification has its test in `npm test`.
 *
 * They are found by measuring. `npm run test:durations` runs every file in its short form (names of files: these alone)
 * and writes test/durations.json: a file that took longer than LONG_SECONDS is left out from then on, and one of those
 * that took less than SHORT_SECONDS is tried again.
 */
import { readFileSync, writeFileSync } from 'node:fs';

export const LONG_SECONDS = 28;
export const SHORT_SECONDS = 3;
/** Files of `npm test` that take less are not noted. */
const NOTED_SECONDS = 5;

/** Says whether this is a run of `npm run test:durations`. */
export const IS_MEASURED = process.env['POSTE_TEST_DURATIONS'] === '1';

const FILE = new URL('../durations.json', import.meta.url);

/** Seconds by the path of the file from the root of the repository. */
type Seconds = Readonly<Record<string, number>>;

export interface Durations {
  leftOut: Seconds;
  tried: Seconds;
}

export function readDurations(): Durations {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Durations;
}

/** Notes what was measured, and keeps the rest as it was. */
export function keepDurations(measured: Seconds): void {
  writeFileSync(FILE, `${JSON.stringify(durationsWith(readDurations(), measured), null, 2)}\n`);
}

export function durationsWith({ leftOut, tried }: Durations, measured: Seconds): Durations {
  const wasLeftOut = new Set(Object.keys(leftOut));
  const all = Object.entries({ ...leftOut, ...tried, ...measured }).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const isLong = ([file, seconds]: [string, number]): boolean =>
    !file.startsWith('test/spec/') && seconds >= (wasLeftOut.has(file) ? SHORT_SECONDS : LONG_SECONDS);
  return {
    leftOut: Object.fromEntries(all.filter(isLong)),
    tried: Object.fromEntries(all.filter((one) => !isLong(one) && one[1] >= NOTED_SECONDS)),
  };
}

export const LONG_FILES: readonly string[] = Object.keys(readDurations().leftOut);
