import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readRecord, torturePage } from '../../../scripts/torture-record.ts';

const PAGE = readFileSync(new URL('../../../docs/testing.md', import.meta.url), 'utf8');

test('the table of docs/testing.md is what npm run torture -- --record made of test/torture.json', () => {
  expect(torturePage(PAGE, readRecord())).toBe(PAGE);
});

test('a kind that counts nothing itself shows how many tests passed, and one that failed says so', () => {
  const run = { date: '2026-11-23', commit: 'abc1234', seconds: 150, isRight: true, tests: 12, tried: [] };
  const page = torturePage(PAGE, {
    kill: run,
    mail: { ...run, seconds: 30, isRight: false, tried: ['3 runs', '2 worlds'] },
  });
  expect(page).toContain('| `kill` | 12 tests | nothing | 3 min | 2026-11-23, abc1234 |');
  expect(page).toContain('| `mail` | 3 runs<br>2 worlds | **failed** | 30 s | 2026-11-23, abc1234 |');
});
