/**
 * The check that every public key passes once, when it enters.
 *
 * OpenSSL accepts keys that are not canonical, have small order, or have a torsion component; under some of them one
 * fixed signature verifies for any message. So the point of a key is checked where the key enters (enrolment, rotation,
 * sender lists, pinning), and the verifier only gets keys that passed.
 */
import { Point } from '@noble/ed25519';
import { type PublicKey, publicKeyBytes } from './public-key.ts';

/** Says whether the key is a canonically encoded point of the prime-order subgroup. Costs about 1 ms. */
export function isAcceptablePoint(key: PublicKey): boolean {
  try {
    const point = Point.fromBytes(publicKeyBytes(key), false);
    return !point.isSmallOrder() && point.isTorsionFree();
  } catch {
    return false;
  }
}
