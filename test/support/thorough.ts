/**
 * How much is tried. `npm test` tries a sixteenth of what takes long, another one each time where seeds are drawn;
 * `npm run test:thorough` tries all of it, and `npm run test:rest` only the files in which that is more than the share.
 *
 * support/thorough-files.ts finds those: they import this file, themselves or through a helper, or name ANY_ADAPTER.
 */
const MODE = process.env['POSTE_TEST_THOROUGH'];

/** Whether `npm test` has run before this, and what it tried need not be tried again. */
export const IS_REST = MODE === 'rest';
export const IS_THOROUGH = MODE === '1' || IS_REST;

const SHARE = 1 / 16;

/** Of `count` runs or cases, how many are tried now. */
export function share(count: number): number {
  return IS_THOROUGH ? count : Math.ceil(count * SHARE);
}
