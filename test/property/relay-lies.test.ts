/**
 * A relay that lies, in random histories as those of relay-trust.test.ts: each lie that can be caught is caught, and
 * named rightly, and what the evidence says is true to those who have only the relay's key.
 */
import { expect, test } from 'vitest';
import { rememberSignatures } from '../support/remembered-signatures.ts';
import { LIES } from '../support/trust/model-worlds.ts';
import { HISTORIES, HISTORIES_MS, playWorlds } from '../support/trust/played-worlds.ts';

rememberSignatures();

/** Two fifths are of lies. */
const OF_EACH = HISTORIES / 30;

test.each(LIES)(
  'the lie is seen and named: %s',
  (lie) => {
    const { faults, leftOut } = playWorlds(lie, OF_EACH);
    expect(faults).toEqual([]);
    expect(leftOut).toBeGreaterThan(OF_EACH);
  },
  HISTORIES_MS,
);
