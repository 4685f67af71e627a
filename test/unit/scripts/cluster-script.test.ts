/** The steps that `npm run cluster -- --script` takes. */
import { expect, test } from 'vitest';
import { parseScript } from '../../../scripts/cluster/script.ts';

test('steps are read in their order', () => {
  expect(parseScript(' kill leader; accepted 10;promote ; wait 1.5; start all;')).toEqual([
    { type: 'do', deed: 'kill', name: 'leader' },
    { type: 'accepted', count: 10 },
    { type: 'move', move: 'promote' },
    { type: 'wait', seconds: 1.5 },
    { type: 'do', deed: 'start', name: 'all' },
  ]);
});

test.each(['kill', 'kill everybody', 'promote a', 'accepted many', 'wait -1', 'dance', 'kill a b'])(
  '"%s" is refused with the steps there are',
  (text) => {
    expect(() => parseScript(`wait 1; ${text}`)).toThrow(`"${text}" is no step. Steps: kill, stop,`);
  },
);
