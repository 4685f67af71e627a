import { expect, test } from 'vitest';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { LONG_FILES, LONG_SECONDS, SHORT_SECONDS, durationsWith, readDurations } from '../../support/long-files.ts';
import { staleLine } from '../../support/run-notes.ts';
import { thoroughFiles } from '../../support/thorough-files.ts';

test('a thorough run finds the files that try more then: by an import, through a helper, and by their servers', () => {
  const files = thoroughFiles();
  expect(files).toContain('test/property/relay.test.ts');
  expect(files).toContain('test/crash/kill.test.ts');
  expect(files).toContain('test/http/items.test.ts');
  for (const file of ['unit/support/programs', 'unit/import-rules', 'http/errors', 'unit/protocol/digest']) {
    expect(files).not.toContain(`test/${file}.test.ts`);
  }
});

test('the long files that npm test leaves out are there, hold no rule, and run in a thorough run', () => {
  expect(LONG_FILES.filter((file) => !existsSync(resolve(import.meta.dirname, '../../..', file)))).toEqual([]);
  expect(LONG_FILES.filter((file) => file.startsWith('test/spec/'))).toEqual([]);
  expect(thoroughFiles()).toEqual(expect.arrayContaining([...LONG_FILES]));
});

test('a file is left out because it took long when it was measured last, and no other took so long', () => {
  const { leftOut, tried } = readDurations();
  expect(Object.entries(leftOut).filter(([, seconds]) => seconds < SHORT_SECONDS)).toEqual([]);
  const kept = Object.entries(tried).filter(([file]) => !file.startsWith('test/spec/'));
  expect(kept.filter(([, seconds]) => seconds >= LONG_SECONDS)).toEqual([]);
  expect(Object.keys(tried).filter((file) => !existsSync(resolve(import.meta.dirname, '../../..', file)))).toEqual([]);
});

test('a run names the files that have become long, on a machine that is slower as well', () => {
  const { tried } = readDurations();
  const slower = Object.fromEntries(Object.entries(tried).map(([file, seconds]) => [file, 3 * seconds]));
  slower[LONG_FILES[0] ?? ''] = 4 * LONG_SECONDS;
  expect(staleLine({ ...slower, 'test/new.test.ts': 3 * LONG_SECONDS })).toBeUndefined();
  expect(staleLine({ ...slower, 'test/new.test.ts': 4 * LONG_SECONDS })).toContain(
    `test/new.test.ts took ${4 * LONG_SECONDS} s`,
  );
});

test('files are left out from the long bound on, back from the short one; never a rule of the specification', () => {
  const before = { leftOut: { 'test/long': 9, 'test/quick': 9, 'test/unmeasured': 50 }, tried: { 'test/slower': 9 } };
  const measured = {
    'test/long': 3,
    'test/quick': 2.9,
    'test/slower': LONG_SECONDS,
    'test/new': LONG_SECONDS - 1,
    'test/spec/rule': 80,
    'test/short': 1,
  };
  expect(durationsWith(before, measured)).toEqual({
    leftOut: { 'test/long': 3, 'test/slower': LONG_SECONDS, 'test/unmeasured': 50 },
    tried: { 'test/new': LONG_SECONDS - 1, 'test/spec/rule': 80 },
  });
});
