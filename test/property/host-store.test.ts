/**
 * The host's store against a sorted map: transactions that write, delete, read ranges over what is stored, what the
 * group holds and what they wrote themselves, some of which throw; several at once; and the store opened again.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentId } from '../../src/host/core/rows.ts';
import type { HostStore, Reader, Transaction } from '../../src/host/store/host-store.ts';
import type { RangeOptions } from '../../src/host/store/tables.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { share } from '../support/thorough.ts';

const AGENTS = ['a', 'a1', 'b'] as AgentId[];

type Step =
  | { type: 'put'; agent: AgentId; position: number; value: boolean }
  | { type: 'delete'; agent: AgentId; position: number }
  | { type: 'range'; agent: AgentId; from?: number; until?: number; reverse: boolean; limit?: number }
  | { type: 'get'; agent: AgentId; position: number };
interface Work {
  steps: Step[];
  throws: boolean;
}

/** Keys as `agent position`, positions two digits, so that they sort as they do in the store. */
type Model = Map<string, boolean>;

const agent = fc.constantFrom(...AGENTS);
const position = fc.nat(20);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: fc.constant('put' as const), agent, position, value: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('delete' as const), agent, position }) },
  {
    weight: 3,
    arbitrary: fc.record(
      {
        type: fc.constant('range' as const),
        agent,
        from: position,
        until: position,
        reverse: fc.boolean(),
        limit: fc.nat(6),
      },
      { requiredKeys: ['type', 'agent', 'reverse'] },
    ),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('get' as const), agent, position }) },
);
const work: fc.Arbitrary<Work> = fc.record({
  steps: fc.array(step, { maxLength: 12 }),
  throws: fc.integer({ min: 0, max: 4 }).map((die) => die === 0),
});
/** Groups of transactions that are asked for at once, and whether the store is opened again afterwards. */
const history = fc.array(fc.record({ group: fc.array(work, { maxLength: 5 }), reopens: fc.boolean() }), {
  maxLength: 6,
});

function failed(error: unknown): never {
  throw error;
}

test('every read of every transaction is what a sorted map says, and so is the store in the end', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (groups) => {
      const { folder, remove } = await disposableFolder();
      let store = await createHostStore(folder, failed);
      try {
        const model: Model = new Map();
        for (const { group, reopens } of groups) {
          const seen = await Promise.allSettled(group.map((one) => store.transact((tx) => run(tx, one))));
          // One after the other, in the order they were asked for.
          const expected = group.map((one) => runOnModel(model, one));
          expect(seen.map((result) => (result.status === 'fulfilled' ? result.value : 'threw'))).toEqual(expected);
          const asked = group.flatMap(({ steps }) => steps).filter((taken) => taken.type === 'range');
          const read = (one: Ranged): Promise<unknown[]> => store.read((reader) => ranged(reader, one));
          expect(await Promise.all(asked.map(read))).toEqual(asked.map((one) => rangedOnModel(model, one)));
          if (!reopens) continue;
          await store.close();
          store = await openHostStore(folder, failed);
        }
        expect(await everything(store)).toEqual([...model].toSorted(([a], [b]) => (a < b ? -1 : 1)));
      } finally {
        await store.close();
        await remove();
      }
    }),
    { numRuns: share(150) },
  );
});

async function run(tx: Transaction, { steps, throws }: Work): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (const taken of steps) {
    if (taken.type === 'put') tx.put('unread', [taken.agent, taken.position], taken.value);
    else if (taken.type === 'delete') tx.delete('unread', [taken.agent, taken.position]);
    else if (taken.type === 'get') seen.push(tx.get('unread', taken.agent, taken.position) ?? null);
    else seen.push(await ranged(tx, taken));
  }
  if (throws) throw new Error('it was to throw');
  return seen;
}

type Ranged = Step & { type: 'range' };

/** The rows; their keys alone must be the same ones. */
async function ranged(reader: Reader, { agent: owner, from, until, reverse, limit }: Ranged): Promise<unknown[]> {
  const found: [string, boolean][] = [];
  const options: RangeOptions<'unread'> = {
    reverse,
    ...(from !== undefined && { from: [owner, from] }),
    ...(until !== undefined && { until: [owner, until] }),
    ...(limit !== undefined && { limit }),
  };
  for await (const { key, row } of reader.range('unread', [owner], options)) found.push([nameOf(key[0], key[1]), row]);
  const keys = await reader.keys('unread', [owner], options);
  expect(keys.map((key) => nameOf(key[0], key[1]))).toEqual(found.map(([name]) => name));
  return found;
}

function runOnModel(model: Model, { steps, throws }: Work): unknown[] | 'threw' {
  const own: Model = new Map(model);
  const seen: unknown[] = [];
  for (const taken of steps) {
    if (taken.type === 'put') own.set(nameOf(taken.agent, taken.position), taken.value);
    else if (taken.type === 'delete') own.delete(nameOf(taken.agent, taken.position));
    else if (taken.type === 'get') seen.push(own.get(nameOf(taken.agent, taken.position)) ?? null);
    else seen.push(rangedOnModel(own, taken));
  }
  if (throws) return 'threw';
  model.clear();
  for (const [name, value] of own) model.set(name, value);
  return seen;
}

function rangedOnModel(model: Model, asked: Ranged): unknown[] {
  const { agent: owner, from = 0, until = 99, reverse, limit = 99 } = asked;
  const inside = [...model].filter(
    ([name]) => name.startsWith(`${owner} `) && name >= nameOf(owner, from) && name < nameOf(owner, until),
  );
  const ascending = inside.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return (reverse ? ascending.toReversed() : ascending).slice(0, limit);
}

async function everything(store: HostStore): Promise<unknown[]> {
  return store.read(async (reader) => {
    const found: unknown[] = [];
    for await (const { key, row } of reader.range('unread', [])) found.push([nameOf(key[0], key[1]), row]);
    return found;
  });
}

function nameOf(owner: AgentId, at: number): string {
  return `${owner} ${String(at).padStart(2, '0')}`;
}
