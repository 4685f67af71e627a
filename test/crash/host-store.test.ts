/** kill -9 while a host's store is being written to: what was acknowledged is there, and nothing is half there. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { share } from '../support/thorough.ts';

const WRITER = fileURLToPath(new URL('./host-store-writer.ts', import.meta.url));
const ROUNDS = share(16);

test(`${ROUNDS} kills: every acknowledged transaction is there, whole, and no number comes twice`, async () => {
  const folder = await temporaryFolder();
  const random = new SeededRandom(2025);
  await (await createHostStore(folder, () => undefined)).close();
  const acknowledged = new Set<number>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const number of await killedAfter(folder, 20 + random.below(200))) {
      expect(acknowledged.has(number)).toBe(false);
      acknowledged.add(number);
    }
    const store = await openHostStore(folder, () => undefined);
    const { last, one, other } = await store.read(async (reader) => {
      const found = { last: reader.get('counter', 'outbox') ?? 0, one: new Set<number>(), other: new Set<number>() };
      for await (const { key, row } of reader.range('counter', [])) {
        if (key[0].startsWith('one-')) found.one.add(row);
        if (key[0].startsWith('other-')) found.other.add(row);
      }
      return found;
    });
    await store.close();
    expect([...acknowledged].filter((number) => !one.has(number))).toEqual([]);
    expect(one).toEqual(other);
    expect(one.size).toBe(last);
  }
  expect(acknowledged.size).toBeGreaterThan(ROUNDS * 20);
});

/** The numbers that a writer acknowledged before it was killed, after so many of them at least. */
async function killedAfter(folder: string, count: number): Promise<number[]> {
  const child = spawn(process.execPath, ['--import', 'tsx', WRITER, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    if (text.split('\n').length > count) child.kill('SIGKILL');
  });
  await closed;
  expect(child.signalCode).toBe('SIGKILL');
  // The last line may be cut short.
  return text.split('\n').slice(0, -1).map(Number);
}
