/**
 * The history finds what happens without a check that the product makes: each of them is left out of a copy of the
 * program, and the same happens to both. What is found without the check is not found with it.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  LEFT_OUT,
  type LeftOut,
  type Trick,
  loseWhatWasAccepted,
  pullAtDeposed,
  pushAgainAtSecond,
  pushAtDeposed,
  storeAtFirst,
} from '../support/history/controls.ts';
import type { Fault } from '../support/history/faults.ts';
import { World } from '../support/history/world.ts';
import { patchedProgram } from '../support/patched-program.ts';
import { PostgresTrio } from '../support/postgres-trio.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const LEASE_MS = 3_000;
let trio: PostgresTrio | undefined;
const ending: (() => Promise<void>)[] = [];
let folder = '';
/** By what is left out of them. */
const mains = new Map<string, string>();

beforeAll(async () => {
  const program = IS_THOROUGH ? findProgram(POSTGRES) : undefined;
  if (program === undefined) return;
  const started = await PostgresTrio.start(program);
  ({ trio } = started);
  const builds = await disposableFolder();
  ({ folder } = builds);
  ending.push(started.end, builds.remove);
});

afterAll(async () => {
  for (const end of ending) await end();
});

interface Setting {
  /** The parts that both relays lack. */
  without?: readonly LeftOut[];
  /** The parts that the second relay alone lacks. */
  second?: readonly LeftOut[];
  args?: readonly string[];
  names?: string;
}

async function mainWithout(parts: readonly LeftOut[]): Promise<string | undefined> {
  if (parts.length === 0) return undefined;
  const name = parts.join();
  const known = mains.get(name);
  if (known !== undefined) return known;
  const own = join(folder, String(mains.size));
  await mkdir(own);
  const main = await patchedProgram(
    own,
    parts.map((part) => LEFT_OUT[part]),
  );
  mains.set(name, main);
  return main;
}

async function worldOf(
  context: Parameters<typeof neededProgram>[0],
  { without = [], second = [], args = [], names }: Setting,
): Promise<World> {
  neededProgram(context, POSTGRES);
  if (!trio) throw new Error('the servers were not started');
  await trio.heal();
  if (names !== undefined) await trio.setNames(names);
  const ofBoth = [await mainWithout(without), await mainWithout([...without, ...second])];
  return World.begin({ trio, random: new SeededRandom(1), mains: ofBoth, args, leaseMs: LEASE_MS });
}

function kindsOf(faults: readonly Fault[]): string[] {
  return [...new Set(faults.map(({ kind }) => kind))];
}

// The history of these is of accepted mail that was lost: the new epoch on another server would hide it.
const KEPT: LeftOut = 'a new epoch on another server';
const LOSING: readonly (Setting & { what: string; trick: Trick; away?: 'one'; isFound: boolean; roleHides?: true })[] =
  [
    { what: 'names emptied', trick: 'names are emptied', without: [KEPT], isFound: false },
    {
      what: 'names emptied, and not looked at',
      trick: 'names are emptied',
      without: [KEPT, 'the names after an append', 'the names of a new connection'],
      isFound: true,
    },
    { what: 'waits cancelled', trick: 'waits are cancelled', without: [KEPT], isFound: false },
    {
      what: 'waits cancelled, and no warning counts',
      trick: 'waits are cancelled',
      without: [KEPT, 'a warning counts'],
      isFound: true,
    },
    {
      what: 'waits cancelled, and the role hears no warning',
      trick: 'waits are cancelled',
      without: [KEPT],
      roleHides: true,
      isFound: false,
    },
    {
      what: 'waits cancelled, the role hears no warning, and none is asked for',
      trick: 'waits are cancelled',
      without: [KEPT, 'warnings are asked for'],
      roleHides: true,
      isFound: true,
    },
    { what: 'an asynchronous standby', trick: 'none', args: ['--durability', 'storage'], names: '', isFound: true },
    { what: 'the wrong standby', trick: 'none', away: 'one', isFound: false },
    { what: 'the wrong standby, and the epoch goes on', trick: 'none', away: 'one', without: [KEPT], isFound: true },
  ];

for (const { what, trick, away = 'both', isFound, roleHides, ...setting } of LOSING) {
  test.runIf(IS_THOROUGH)(`${what}: what was accepted ${isFound ? 'is lost' : 'is not lost'}`, async (context) => {
    const world = await worldOf(context, setting);
    const role = roleHides ? 'SET client_min_messages = error' : 'RESET client_min_messages';
    await world.trio.primary.query(`ALTER ROLE postgres ${role}`);
    if (roleHides) for (const node of world.nodes) await node.kill();
    await world.leader();
    const faults = await loseWhatWasAccepted(world, trick, away);
    expect(kindsOf(faults).filter((kind) => !isFound || kind === 'lost')).toEqual(isFound ? ['lost'] : []);
  });
}

const LEASELESS: readonly LeftOut[] = ['a lease that is over', 'a lead that is lost'];

test.runIf(IS_THOROUGH)('a relay that was deposed stores nothing, even when it does not know it', async (context) => {
  const world = await worldOf(context, { without: LEASELESS });
  expect(kindsOf(await pushAtDeposed(world))).toEqual([]);
});

test.runIf(IS_THOROUGH)('without the comparison in an append it does, and its successor lacks it', async (context) => {
  const world = await worldOf(context, { without: [...LEASELESS, 'an append compares who leads'] });
  expect(kindsOf(await pushAtDeposed(world))).toContain('head went back');
});

test.runIf(IS_THOROUGH)('a relay that was deposed shows nothing old', async (context) => {
  expect(kindsOf(await pullAtDeposed(await worldOf(context, {})))).toEqual([]);
});

test.runIf(IS_THOROUGH)('without a lease it does', async (context) => {
  const world = await worldOf(context, { without: LEASELESS });
  expect(kindsOf(await pullAtDeposed(world))).toContain('head went back');
});

test.runIf(IS_THOROUGH)('a relay that reduces otherwise stops', async (context) => {
  const world = await worldOf(context, { second: ['dedup rows'] });
  await storeAtFirst(world);
  await expect.poll(() => world.nodes[1]?.said).toContain('this view makes something else of batch');
  expect(world.nodes[0]?.said).not.toContain('this view makes something else of batch');
});

test.runIf(IS_THOROUGH)('without the comparison of effects it goes on, and stores no item again', async (context) => {
  const world = await worldOf(context, { without: ['what a follower makes of a batch'], second: ['dedup rows'] });
  expect(kindsOf(await pushAgainAtSecond(world))).not.toContain('doubled');
});

test.runIf(IS_THOROUGH)('and without the count of dedup rows it does', async (context) => {
  const without = ['what a follower makes of a batch', 'the count of dedup rows'] as const;
  const world = await worldOf(context, { without, second: ['dedup rows'] });
  expect(kindsOf(await pushAgainAtSecond(world))).toContain('doubled');
});
