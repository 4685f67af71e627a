import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/digest.ts';
import { ageOf, baseCheckpoint, decideCheckpoint, isCheckpointDue } from '../../../../src/relay/core/decide-log.ts';

const DAY = { keepMs: 100, nowMs: 1000 };
const at = (...times: number[]) => times.map((atMs, index) => ({ throughLsn: index + 1, atMs }));

test.each([
  [0, 'old'],
  [900, 'old'],
  [901, 'young'],
  [1000, 'young'],
  [1001, 'unknown'],
] as const)('what was written at %i is %s', (atMs, age) => {
  expect(ageOf(atMs, DAY)).toBe(age);
});

describe('a checkpoint is due', () => {
  test.each([
    ['when there is none', [], true],
    ['when the newest is as old as records are kept', [900], true],
    ['when the newest is of a clock that was ahead', [900, 1001], true],
    ['not while the newest is younger', [100, 901], false],
    ['not while the newest of several is younger', [100, 800, 901], false],
  ] as const)('%s', (_when, times, isDue) => {
    expect(isCheckpointDue(at(...times), DAY)).toBe(isDue);
  });
});

describe('of the checkpoints', () => {
  test.each([
    ['none makes others needless while none is old', [901, 950], undefined],
    ['the only old one does', [900, 950], 1],
    ['the newest old one does', [100, 800, 900, 950], 3],
    ['one of a clock that was ahead is not old', [900, 1500, 950], 1],
    ['there may be none', [], undefined],
  ] as const)('%s', (_what, times, base) => {
    expect(baseCheckpoint(at(...times), DAY)?.throughLsn).toBe(base);
  });
});

test('the event says what was kept, and changes nothing else', () => {
  const kept = { throughLsn: 7, rows: 3, rowsHash: sha256Hex('rows'), dueHash: sha256Hex('due') };
  const { events, outcome } = decideCheckpoint({ type: 'TakeCheckpoint', ...kept, nowMs: 5 });
  expect(events).toEqual([{ type: 'CheckpointTaken', ...kept, atMs: 5 }]);
  expect(outcome).toEqual({ type: 'Done' });
});
