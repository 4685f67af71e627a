import { expect, test } from 'vitest';
import { readAhead } from '../../../../src/relay/store/scan.ts';

async function* counted(upTo: number, asked: number[] = []): AsyncGenerator<number> {
  for (let number = 1; number <= upTo; number++) {
    asked.push(number);
    yield number;
  }
}

async function* breaking(): AsyncGenerator<number> {
  yield* counted(2);
  throw new Error('a damaged table');
}

async function allButTwo(number: number): Promise<number> {
  if (number === 2) throw new Error('unreadable');
  return number;
}

test('what is read ahead comes in its order, however long each takes', async () => {
  const waiting: (() => void)[] = [];
  const read = async (number: number): Promise<string> => {
    // The first is ready when the second is.
    if (number === 1) await new Promise<void>((resolve) => waiting.push(resolve));
    if (number === 2) waiting[0]?.();
    return `read ${number}`;
  };
  const came: string[] = [];
  for await (const one of readAhead(counted(3), read)) came.push(one);
  expect(came).toEqual(['read 1', 'read 2', 'read 3']);
});

test('one is read ahead and no more', async () => {
  const asked: number[] = [];
  for await (const one of readAhead(counted(9, asked), async (number) => number)) {
    expect(asked).toHaveLength(one + 1);
    if (one === 3) break;
  }
  expect(asked).toEqual([1, 2, 3, 4]);
});

test('a read that fails is told when its turn comes', async () => {
  const came: number[] = [];
  const all = (async () => {
    for await (const one of readAhead(counted(3), allButTwo)) came.push(one);
  })();
  await expect(all).rejects.toThrow('unreadable');
  expect(came).toEqual([1]);
});

test('what was read before the source broke comes before its error', async () => {
  const came: number[] = [];
  const all = (async () => {
    for await (const one of readAhead(breaking(), async (number) => number)) came.push(one);
  })();
  await expect(all).rejects.toThrow('a damaged table');
  expect(came).toEqual([1, 2]);
});

test('a read that fails after its reader left is nobody\u2019s fault', async () => {
  const faults: unknown[] = [];
  const noted = (error: unknown): void => void faults.push(error);
  process.on('unhandledRejection', noted);
  for await (const one of readAhead(counted(3), allButTwo)) if (one === 1) break;
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  process.off('unhandledRejection', noted);
  expect(faults).toEqual([]);
});

test('nothing is made of nothing', async () => {
  const came: number[] = [];
  for await (const one of readAhead(counted(0), async (number) => number)) came.push(one);
  expect(came).toEqual([]);
});
