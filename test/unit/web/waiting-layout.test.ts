import { expect, test } from 'vitest';
import { layOutPicture, pictureText, type Wait, waitsOf } from '../../../src/web/mail/waiting-layout.ts';

const HOUR_MS = 3_600_000;

function wait(asker: string, debtor: string, sinceMs: number, count = 1): Wait {
  return { asker, debtor, count, sinceMs };
}

test('debts of the same two are one line, which counts them from the oldest on; the oldest line comes first', () => {
  const debts = [
    { asker: 'ann', debtor: 'bob', sinceMs: 30 },
    { asker: 'cat', debtor: 'bob', sinceMs: 20 },
    { asker: 'ann', debtor: 'bob', sinceMs: 10 },
    { asker: 'bob', debtor: 'ann', sinceMs: 15 },
  ];
  expect(waitsOf(debts)).toEqual([wait('ann', 'bob', 10, 2), wait('bob', 'ann', 15), wait('cat', 'bob', 20)]);
});

test('each name stands once on its side, in the middle of its lines, and no two lines end at one height', () => {
  const waits = [wait('ann', 'bob', 1), wait('cat', 'bob', 2), wait('ann', 'dan', 3), wait('bob', 'ann', 4)];
  const { askers, debtors, lines, height } = layOutPicture(waits);
  expect(askers.map(({ name }) => name)).toEqual(['ann', 'cat', 'bob']);
  expect(debtors.map(({ name }) => name).toSorted()).toEqual(['ann', 'bob', 'dan']);
  expect(new Set(lines.map(({ fromY }) => fromY)).size).toBe(4);
  expect(new Set(lines.map(({ toY }) => toY)).size).toBe(4);
  const middle = (name: string, side: 'asker' | 'debtor', y: 'fromY' | 'toY'): number => {
    const own = lines.filter((line) => line.wait[side] === name).map((line) => line[y]);
    return (Math.min(...own) + Math.max(...own)) / 2;
  };
  for (const { name, y } of askers) expect(y).toBe(middle(name, 'asker', 'fromY'));
  for (const { name, y } of debtors) expect(y).toBe(middle(name, 'debtor', 'toY'));
  for (const { fromY, toY } of lines) expect(Math.max(fromY, toY)).toBeLessThan(height);
});

test('lines that need not cross do not', () => {
  const waits = [wait('ann', 'zoe', 1), wait('bob', 'yan', 2), wait('cat', 'xia', 3), wait('bob', 'zoe', 4)];
  const { lines } = layOutPicture(waits);
  const crossings = lines.flatMap((a, at) =>
    lines.slice(at + 1).filter((b) => (a.fromY - b.fromY) * (a.toY - b.toY) < 0),
  );
  expect(crossings).toEqual([]);
});

test('very many are cut, the newest first, and the words say what the lines do', () => {
  const waits = Array.from({ length: 60 }, (_, at) => wait(`a${at}`, `b${at}`, at));
  expect(layOutPicture(waits).lines).toHaveLength(40);
  expect(pictureText([wait('ann', 'bob\u202e', 0, 2), wait('cat', 'dan', 0)], 5 * HOUR_MS)).toBe(
    'ann waits for bob\\u{202e}: 2 questions for 5 h. cat waits for dan: 1 question for 5 h.',
  );
});
