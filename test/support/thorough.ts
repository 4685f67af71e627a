/**
 * Says how much is tried. `npm test` tries a sixteenth of what takes long, or less, another one each time where seeds
 * are drawn; `npm run test:thorough` tries all of it, and `npm run test:rest` only the files in which that is more than
 * the share.
 *
 * support/thorough-files.ts finds those: they import this file, themselves or through a helper, or name ANY_ADAPTER.
 */
import { appendFileSync } from 'node:fs';

const MODE = process.env['POSTE_TEST_THOROUGH'];

/** Says whether `npm test` has run before this, and what it tried need not be tried again. */
export const IS_REST = MODE === 'rest';
export const IS_THOROUGH = MODE === '1' || IS_REST;

const PARTS = 16;

/** `npm run torture`: how many times as much as the thorough run tries. */
export const TIMES = Number(process.env['POSTE_TORTURE_TIMES'] ?? 1);

/** Returns how many of `count` runs are tried now: all of them, or one part of so many. */
export function share(count: number, parts = PARTS): number {
  return IS_THOROUGH ? count * TIMES : Math.ceil(count / parts);
}

/** Notes what was tried, as it was counted: `npm run torture` prints it at its end. */
export function tried(figures: string): void {
  const file = process.env['POSTE_TORTURE_TRIED'];
  if (file !== undefined) appendFileSync(file, `${figures}\n`);
}
