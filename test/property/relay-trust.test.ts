/**
 * The rules by which hosts trust a relay (host/core: looks and notes of peers), in random histories of a relay that is
 * honest or careless, with real Merkle trees and signatures: nobody honest is called a liar, no mail is lost, and
 * pushing again is bounded. relay-lies.test.ts has the relays that lie, relay-trust-rules.test.ts what goes wrong
 * without a rule.
 */
import { expect, test } from 'vitest';
import { rememberSignatures } from '../support/remembered-signatures.ts';
import type { WorldKind } from '../support/trust/model-worlds.ts';
import { HISTORIES, HISTORIES_MS, playWorlds } from '../support/trust/played-worlds.ts';

rememberSignatures();

/** A fifth each; the lies share the rest. */
const OF_EACH = HISTORIES / 5;

test.each<WorldKind>(['honest', 'lying peer'])(
  'in a world that is %s nobody honest is called a liar, and no mail is lost',
  (kind) => {
    const { faults, looks, leftOut } = playWorlds(kind, OF_EACH);
    expect(faults).toEqual([]);
    expect(looks).toBeGreaterThan(10 * OF_EACH);
    expect(leftOut).toBeGreaterThan(OF_EACH);
  },
  HISTORIES_MS,
);

test(
  'where copies of the store are put back without a new epoch no mail is lost',
  () => expect(playWorlds('careless', OF_EACH).faults).toEqual([]),
  HISTORIES_MS,
);
