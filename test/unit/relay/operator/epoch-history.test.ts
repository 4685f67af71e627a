/** The epochs that the log tells of, and a log that cannot be read. */
import { expect, test } from 'vitest';
import { type LogBack, EpochHistory } from '../../../../src/relay/operator/log-search.ts';
import { initialised } from '../../../support/events.ts';

const first = { lsn: 1, event: initialised };

function historyOf(readBack: LogBack['readBack'], firstLsn = 1): { history: EpochHistory; told: unknown[] } {
  const told: unknown[] = [];
  // Nothing else of the log is asked for.
  const log = { readBack, firstLsn } as LogBack;
  const history = new EpochHistory({ log, monotonicMs: () => 0, onError: (error) => void told.push(error) });
  return { history, told };
}

test('is whole when the log was read to its beginning', async () => {
  const { history, told } = historyOf(async function* () {
    yield [first];
  });
  expect([history.found(), history.state]).toEqual([[], 'under way']);
  await history.close();
  expect(history.state).toBe('under way');

  const again = historyOf(async function* () {
    yield [first];
  }).history;
  again.found();
  await expect.poll(() => again.state).toBe('whole');
  expect(again.found().map(({ lsn, reason }) => [lsn, reason])).toEqual([[1, 'initialised']]);
  expect(told).toEqual([]);
});

test('is not whole when the log was pruned', async () => {
  const { history } = historyOf(async function* () {
    yield [{ ...first, lsn: 8 }];
  }, 7);
  history.found();
  await expect.poll(() => history.state).toBe('pruned');
});

test('a log that cannot be read is told of once, what was found is kept, and it is not read for ever', async () => {
  let reads = 0;
  const bad = new Error('a record is damaged');
  const { history, told } = historyOf(async function* () {
    reads++;
    yield [first];
    throw bad;
  });
  history.found();
  await expect.poll(() => history.state).toBe('failed');
  expect(history.found()).toHaveLength(1);
  expect([reads, told]).toEqual([1, [bad]]);
});
