/** What a reader is answered depends on when it began: never on rows that a later batch wrote, or an earlier one. */
import { expect, test } from 'vitest';
import { PREFIX } from '../../../../src/host/store/keys.ts';
import { RowCache } from '../../../../src/host/store/row-cache.ts';
import { deferred } from '../../../support/deferred.ts';
import { testContext } from '../../../support/test-context.ts';

const NAME_KEY = `${String.fromCharCode(PREFIX.agentName)}anna\0`;
const PEER_KEY = `${String.fromCharCode(PREFIX.peerName)}bob\0`;
const FIRST = 'agent-1' as never;
const SECOND = 'agent-2' as never;

test('a row is kept for readers that began when it was read or later', () => {
  const cache = new RowCache();
  cache.keep('agentName', NAME_KEY, FIRST, cache.version);
  expect(cache.get('agentName', NAME_KEY, cache.version)).toBe(FIRST);
  expect(cache.get('agentName', NAME_KEY, cache.version - 1)).toBeUndefined();
});

test('a batch: what it changes is gone before it is written, and nothing is kept meanwhile or by those who began before', async () => {
  const cache = new RowCache();
  const before = cache.version;
  cache.keep('agentName', NAME_KEY, FIRST, before);
  cache.keep('peerName', PEER_KEY, FIRST, before);
  cache.keepWhole('agentName', [{ key: ['anna'], row: FIRST }], before);
  const writing = deferred();
  const changed = cache.change([NAME_KEY], () => writing.promise);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.whole('agentName', before)).toBeUndefined();
  cache.keep('agentName', NAME_KEY, FIRST, before);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.get('peerName', PEER_KEY, before)).toBe(FIRST);
  writing.resolve();
  await changed;
  cache.keep('agentName', NAME_KEY, FIRST, before);
  expect(cache.get('agentName', NAME_KEY, cache.version)).toBeUndefined();
  cache.keep('agentName', NAME_KEY, SECOND, cache.version);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.get('agentName', NAME_KEY, cache.version)).toBe(SECOND);
});

test('rows that several readers share cannot be changed', async () => {
  const { store } = await testContext();
  await store.transact((tx) => tx.put('agent', [FIRST], { roles: ['tester'] } as never));
  const read = () => store.read((reader) => reader.get('agent', FIRST));
  const [one, other] = [await read(), await read()];
  expect(one?.roles).toEqual(['tester']);
  expect(one).toBe(other);
  expect(() => one?.roles.push('another')).toThrow(TypeError);
});

test('a table as a whole: a transaction sees what it wrote itself, and others what is stored', async () => {
  const { store } = await testContext();
  const names = async (reader: Parameters<Parameters<typeof store.read>[0]>[0]): Promise<string[]> => {
    const found: string[] = [];
    for await (const { key } of reader.range('agentName', [])) found.push(key[0]);
    return found;
  };
  await store.transact((tx) => tx.put('agentName', ['anna'], FIRST));
  expect(await store.read(names)).toEqual(['anna']);
  await store.read(async (earlier) => {
    await store.transact(async (tx) => {
      tx.put('agentName', ['bert'], SECOND);
      expect(await names(tx)).toEqual(['anna', 'bert']);
    });
    expect(await names(earlier)).toEqual(['anna']);
  });
  expect(await store.read(names)).toEqual(['anna', 'bert']);
});
