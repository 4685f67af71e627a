/**
 * How much is tried. `npm test` tries a share of what takes long, another one each time where seeds are drawn;
 * `npm run test:thorough` tries all of it.
 */
export const IS_THOROUGH = process.env['POSTE_TEST_THOROUGH'] === '1';

const SHARE = 1 / 3;

/** Of `count` runs or cases, how many are tried now. */
export function share(count: number): number {
  return IS_THOROUGH ? count : Math.ceil(count * SHARE);
}
