/** Tests what the row of a shared log says of it. */
import { expect, test } from 'vitest';
import { type LogPhase, phaseOf, phaseText, whyNotServed } from '../../../../src/relay/shared-log/log-phase.ts';

const LOG = '0b5f7a52-6a8e-4a0a-9a3c-2f0f6f1b7f10';
const PHASES: readonly [string, LogPhase][] = [
  ['serving', { type: 'serving' }],
  [`loading ${LOG} alpha-1`, { type: 'loading', logId: LOG, node: 'alpha-1', before: 'serving' }],
  [`aborting ${LOG} a name`, { type: 'aborting', logId: LOG, node: 'a name', before: 'serving' }],
  [`loading ${LOG} alpha-1\nmoved beta`, { type: 'loading', logId: LOG, node: 'alpha-1', before: 'moved beta' }],
  ['moved alpha-1', { type: 'moved', node: 'alpha-1' }],
  ['paused for ever', { type: 'unknown', text: 'paused for ever' }],
  ['loading nothing alpha-1', { type: 'unknown', text: 'loading nothing alpha-1' }],
];

test.each(PHASES)('%s is read and written', (text, phase) => {
  expect(phaseOf(text)).toEqual(phase);
  expect(phaseText(phase)).toBe(text);
});

test('only a log that serves can be led, and any other says why not and where it is', () => {
  const [serving, ...others] = PHASES.map(([, phase]) => whyNotServed(phase));
  expect(serving).toBeUndefined();
  const named = ['alpha-1', 'a name', 'alpha-1', 'alpha-1', 'paused for ever', 'loading nothing alpha-1'];
  for (const [at, name] of named.entries()) expect(others[at]).toContain(name);
});
