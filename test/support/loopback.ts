/** Callers from other addresses of this machine: Linux has all of 127.0.0.0/8, other systems 127.0.0.1 alone. */
import { getCurrentTest } from 'vitest/suite';
import { NEEDS } from './programs.ts';

const NEED = `${NEEDS}addresses like 127.0.0.2, as Linux has them`;

/**
 * `address`, for the end of a connection that calls; the test that runs is skipped where the system does not have it.
 */
export function callingAddress(address: string): string {
  if (address === '127.0.0.1' || process.platform === 'linux') return address;
  if (process.env['CI'] === 'true') throw new Error(`With CI=true nothing is skipped, and this test ${NEED}.`);
  return getCurrentTest()?.context.skip(NEED) ?? address;
}
