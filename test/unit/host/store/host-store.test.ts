import { describe, expect, test } from 'vitest';
import { HostStore, StoreFailed, levelAt } from '../../../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../../../src/host/store/open.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

/** A new store and its folder; the test closes it. */
async function newStore(): Promise<{ store: HostStore; folder: string; failures: StoreFailed[] }> {
  const folder = await temporaryFolder();
  const failures: StoreFailed[] = [];
  return { store: await createHostStore(folder, (error) => failures.push(error)), folder, failures };
}

describe('transact', () => {
  test('answers with what the work returned, and sees what was written before', async () => {
    const { store } = await newStore();
    expect(await store.transact((tx) => tx.next('outbox'))).toBe(1);
    expect(await Promise.all([1, 2, 3].map(() => store.transact((tx) => tx.next('outbox'))))).toEqual([2, 3, 4]);
    expect(await store.read((reader) => reader.get('counter', 'outbox'))).toBe(4);
    await store.close();
  });

  test('one that throws writes nothing and hinders no other of its group', async () => {
    const { store } = await newStore();
    const results = await Promise.allSettled([
      store.transact((tx) => tx.put('counter', ['a'], 1)),
      store.transact((tx) => {
        tx.put('counter', ['b'], 2);
        throw new Error('no');
      }),
      store.transact((tx) => tx.put('counter', ['c'], tx.get('counter', 'b') ?? 3)),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const read = await store.read((reader) => ['a', 'b', 'c'].map((name) => reader.get('counter', name)));
    expect(read).toEqual([1, undefined, 3]);
    await store.close();
  });

  test('effects run once it is durable, in order, before its caller goes on; never after a throw', async () => {
    const { store } = await newStore();
    const seen: string[] = [];
    const first = store.transact((tx) => {
      tx.afterCommit(() => seen.push('one'));
      tx.afterCommit(() => seen.push('two'));
      tx.put('counter', ['x'], 1);
    });
    const thrown = store.transact((tx) => {
      tx.afterCommit(() => seen.push('never'));
      throw new Error('no');
    });
    await Promise.allSettled([first.then(() => seen.push('answered')), thrown]);
    expect(seen).toEqual(['one', 'two', 'answered']);
    await store.close();
  });

  test('nothing is written when the transaction has ended', async () => {
    const { store } = await newStore();
    let late: (() => void) | undefined;
    await store.transact((tx) => {
      late = () => tx.put('counter', ['x'], 1);
    });
    expect(() => late?.()).toThrow('is written inside its transaction');
    await store.close();
  });

  test('a reader keeps to the moment it began', async () => {
    const { store } = await newStore();
    await store.transact((tx) => tx.put('counter', ['x'], 1));
    await store.read(async (reader) => {
      await store.transact((tx) => tx.put('counter', ['x'], 2));
      expect(reader.get('counter', 'x')).toBe(1);
    });
    await store.close();
  });

  test('close ends when what was asked is durable, and later transactions are refused', async () => {
    const { store, folder } = await newStore();
    const asked = [1, 2, 3].map((value) => store.transact((tx) => tx.put('counter', [`c${value}`], value)));
    const closed = store.close();
    await expect(store.transact(() => 1)).rejects.toThrow('the store is closed');
    await Promise.all([...asked, closed]);
    const again = await openHostStore(folder, () => undefined);
    expect(await again.read((reader) => reader.get('counter', 'c3'))).toBe(3);
    await again.close();
  });
});

describe('fail-stop', () => {
  test('after the first failed batch nobody is answered and nothing is written', async () => {
    const folder = await temporaryFolder();
    await (await createHostStore(folder, () => undefined)).close();
    const level = levelAt(folder);
    await level.open();
    const written: number[] = [];
    const batch = level.batch.bind(level);
    let fails = false;
    // The disk is full from the second batch on.
    const failing = Object.assign(level, {
      batch: () => {
        const chain = batch();
        const write = chain.write.bind(chain);
        return Object.assign(chain, {
          write: (options: { sync: boolean }) => {
            if (fails) return chain.close().then(() => Promise.reject(new Error('ENOSPC')));
            written.push(chain.length);
            return write(options);
          },
        });
      },
    });
    const failures: StoreFailed[] = [];
    const store = new HostStore(failing, (error) => failures.push(error));
    const seen: string[] = [];
    await store.transact((tx) => tx.put('counter', ['x'], 1));

    fails = true;
    const lost = Promise.allSettled([
      store.transact((tx) => {
        tx.afterCommit(() => seen.push('told'));
        tx.put('counter', ['x'], 2);
      }),
      store.transact((tx) => tx.put('counter', ['y'], 2)),
    ]);
    for (const result of await lost) expect(result).toMatchObject({ status: 'rejected', reason: failures[0] });
    fails = false;
    await expect(store.transact((tx) => tx.put('counter', ['x'], 3))).rejects.toBeInstanceOf(StoreFailed);
    await expect(store.read(() => 1)).rejects.toBeInstanceOf(StoreFailed);
    await expect(store.pairs().next()).rejects.toBeInstanceOf(StoreFailed);

    expect(failures).toHaveLength(1);
    expect(seen).toEqual([]);
    expect(written).toEqual([1]);
    await store.close();
  });
});

describe('open', () => {
  test('a second process is kept out by the lock, and a store of newer software is left alone', async () => {
    const { store, folder } = await newStore();
    await expect(openHostStore(folder, () => undefined)).rejects.toMatchObject({ fault: 'locked' });
    await expect(createHostStore(folder, () => undefined)).rejects.toMatchObject({ fault: 'exists' });
    await store.close();
    const level = levelAt(folder);
    await level.put(Buffer.from([0]), Buffer.from('2'));
    await level.close();
    await expect(openHostStore(folder, () => undefined)).rejects.toMatchObject({ fault: 'newer' });
  });

  test('there is none', async () => {
    await expect(openHostStore('/nowhere/store', () => undefined)).rejects.toMatchObject({ fault: 'absent' });
  });
});
