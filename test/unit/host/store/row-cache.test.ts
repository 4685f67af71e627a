/** What a reader is answered depends on when it began: never on rows that a later batch wrote, or an earlier one. */
import { Level } from 'level';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import type { SessionRow } from '../../../../src/host/core/session-rows.ts';
import type { Reader, Transaction } from '../../../../src/host/store/host-store.ts';
import { TABLES } from '../../../../src/host/store/tables.ts';
import { RowCache } from '../../../../src/host/store/row-cache.ts';
import { deferred } from '../../../support/deferred.ts';
import { testContext } from '../../../support/test-context.ts';

const NAME_KEY = `${String.fromCharCode(TABLES.agentName.prefix)}anna\0`;
const PEER_KEY = `${String.fromCharCode(TABLES.peerName.prefix)}bob\0`;
const HELD_KEY = `${String.fromCharCode(TABLES.held.prefix)}message\0`;
const FIRST = 'agent-1' as never;
const SECOND = 'agent-2' as never;
const BYTES = Buffer.from('row');
const first = { row: FIRST, bytes: BYTES };
const second = { row: SECOND, bytes: BYTES };
const NONE = { row: undefined, bytes: undefined };

test('a row is kept for readers that began when it was read or later', () => {
  const cache = new RowCache();
  cache.keep('agentName', NAME_KEY, first, cache.version);
  expect(cache.get('agentName', NAME_KEY, cache.version)).toEqual({ row: FIRST });
  expect(cache.get('agentName', NAME_KEY, cache.version - 1)).toBeUndefined();
});

test('a batch: what it changes is gone before it is written; no reader, old or new, keeps it meanwhile', async () => {
  const cache = new RowCache();
  const before = cache.version;
  cache.keep('agentName', NAME_KEY, first, before);
  cache.keep('peerName', PEER_KEY, first, before);
  cache.keepWhole('agentName', [{ key: ['anna'], row: FIRST }], before);
  const writing = deferred();
  const changed = cache.change(new Map([[NAME_KEY, { bytes: BYTES }]]), () => writing.promise);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.whole('agentName', before)).toBeUndefined();
  cache.keep('agentName', NAME_KEY, first, before);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.get('peerName', PEER_KEY, before)).toEqual({ row: FIRST });
  // What the batch does not change is the same before it and after it.
  cache.keep('held', HELD_KEY, NONE, before);
  expect(cache.get('held', HELD_KEY, before)).toEqual({ row: undefined });
  writing.resolve();
  await changed;
  cache.keep('agentName', NAME_KEY, first, before);
  expect(cache.get('agentName', NAME_KEY, cache.version)).toBeUndefined();
  cache.keep('agentName', NAME_KEY, second, cache.version);
  expect(cache.get('agentName', NAME_KEY, before)).toBeUndefined();
  expect(cache.get('agentName', NAME_KEY, cache.version)).toEqual({ row: SECOND });
});

test('what a batch wrote is known to readers that begin after it, and to none before', async () => {
  const cache = new RowCache();
  const before = cache.version;
  cache.keep('held', HELD_KEY, NONE, before);
  expect(cache.get('held', HELD_KEY, before)).toEqual({ row: undefined });
  await cache.change(new Map([[HELD_KEY, { bytes: BYTES, row: 1 }]]), async () => {
    expect(cache.get('held', HELD_KEY, before)).toBeUndefined();
  });
  expect(cache.get('held', HELD_KEY, before)).toBeUndefined();
  expect(cache.get('held', HELD_KEY, cache.version)).toEqual({ row: 1 });
  await cache.change(new Map([[HELD_KEY, { bytes: null }]]), async () => {
    expect(cache.get('held', HELD_KEY, cache.version)).toBeUndefined();
  });
  expect(cache.get('held', HELD_KEY, cache.version)).toEqual({ row: undefined });
  // Too long to be kept.
  await cache.change(new Map([[HELD_KEY, { bytes: Buffer.alloc(3000) }]]), async () => undefined);
  expect(cache.get('held', HELD_KEY, cache.version)).toBeUndefined();
});

test('a long row of mail is not kept, and of a small table nothing that is absent', () => {
  const cache = new RowCache();
  cache.keep('held', HELD_KEY, { row: 1, bytes: Buffer.alloc(3000) }, cache.version);
  cache.keep('agentName', NAME_KEY, NONE, cache.version);
  expect(cache.get('held', HELD_KEY, cache.version)).toBeUndefined();
  expect(cache.get('agentName', NAME_KEY, cache.version)).toBeUndefined();
});

function keyOf(at: number): string {
  return `${HELD_KEY}${at}`;
}

test('rows of mail: the last 12,000 are kept, and no more than 24,000', () => {
  const cache = new RowCache();
  for (let at = 0; at < 36_000; at++) cache.keep('held', keyOf(at), { row: at, bytes: BYTES }, cache.version);
  const known = Array.from({ length: 36_000 }, (_, at) => cache.get('held', keyOf(at), cache.version)?.row);
  expect(known.filter((row) => row !== undefined).length).toBeLessThanOrEqual(24_000);
  expect(known.slice(-12_000)).toEqual(Array.from({ length: 12_000 }, (_, at) => 24_000 + at));
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

test('a transaction reads what it wrote, and cannot change it afterwards', async () => {
  const { store } = await testContext();
  const row = { recipients: [] as string[] };
  await store.transact((tx) => {
    tx.put('sent', ['message' as never], row as never);
    expect(tx.get('sent', 'message' as never)).toBe(row);
    expect(() => row.recipients.push('another')).toThrow(TypeError);
    tx.delete('sent', ['message' as never]);
    expect(tx.get('sent', 'message' as never)).toBeUndefined();
  });
  expect(await store.read((reader) => reader.get('sent', 'message' as never))).toBeUndefined();
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

function put(tx: Transaction, agentId: AgentId, sessionId: string): void {
  const times = { registeredAtMs: 1, seenAtMs: 1, endedAtMs: null };
  const row: SessionRow = { agentId, sessionId, ...times, wake: [], process: null, woken: null };
  tx.put('session', [agentId, sessionId], row);
}

async function idsOf(reader: Reader, start: [] | [AgentId]): Promise<string[]> {
  const found: string[] = [];
  for await (const { row } of reader.range('session', start)) found.push(row.sessionId);
  return found;
}

test('a part of a table that is kept as a whole: as LevelDB has it, without asking LevelDB', async () => {
  const { store } = await testContext();
  const [eve, eva] = ['e', 'ea'] as [AgentId, AgentId];
  await store.transact((tx) => {
    put(tx, eve, 'one');
    put(tx, eva, 'two');
    put(tx, eve, 'three');
  });
  expect(await store.read((reader) => idsOf(reader, []))).toEqual(['one', 'three', 'two']);
  const iterated = vi.spyOn(Level.prototype, 'iterator');
  onTestFinished(() => iterated.mockRestore());
  expect(await store.read((reader) => idsOf(reader, [eve]))).toEqual(['one', 'three']);
  expect(await store.read((reader) => idsOf(reader, [eva]))).toEqual(['two']);
  await store.transact(async (tx) => {
    put(tx, eva, 'four');
    expect(await idsOf(tx, [eve])).toEqual(['one', 'three']);
    expect(iterated).not.toHaveBeenCalled();
    expect(await idsOf(tx, [eva])).toEqual(['four', 'two']);
  });
  expect(await store.read((reader) => idsOf(reader, [eva]))).toEqual(['four', 'two']);
});
