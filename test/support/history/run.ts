/** Nemeses one after another, and what the history says after each. */
import { POSTGRES_DISK_BYTES, hasOwnDisks } from '../own-disks.ts';
import { PostgresTrio } from '../postgres-trio.ts';
import { relay } from '../hosts.ts';
import { SeededRandom } from '../seeded-random.ts';
import { faultsOf } from './faults.ts';
import { NEMESES, type Nemesis } from './nemeses.ts';
import { World } from './world.ts';
import { found } from '../found.ts';

/** The number of lines of what each relay said, when something is wrong. */
const LINES_SAID = 40;
/** Items that must be accepted before and after each. */
const BETWEEN = 10;

export interface RunOptions {
  /** The file of `postgres`. */
  program: string;
  /** The seed of what a nemesis leaves open, and of what the hosts do. */
  seed: number;
  /** The names of what happens, in this order. */
  names: readonly string[];
  say: (line: string) => void;
}

export interface RunOutcome {
  faults: string[];
  accepted: number;
  /** Nemeses that this machine cannot do. */
  left: string[];
}

export async function runNemeses({ program, seed, names, say }: RunOptions): Promise<RunOutcome> {
  const random = new SeededRandom(seed);
  const hasDisks = await hasOwnDisks();
  const trio = await PostgresTrio.begin(program, {
    // So that little of a disk is taken by what is kept for standbys.
    settings: { wal_keep_size: "'48MB'", min_wal_size: "'32MB'", max_wal_size: "'64MB'" },
    diskBytes: hasDisks ? POSTGRES_DISK_BYTES : undefined,
  });
  const world = await World.begin({ trio, random });
  world.traffic.run();
  const faults: string[] = [];
  const left: string[] = [];
  for (const name of names) {
    const nemesis = found(NEMESES[name], `there is no nemesis "${name}"`);
    if (faults.length > 0) break;
    if (nemesis.needs === 'disk' && !hasDisks) left.push(name);
    else faults.push(...(await stepFaults(world, name, nemesis, say)));
  }
  await world.traffic.stop();
  // After a fault nothing may be left that answers.
  const end = faults.length > 0 ? [] : await world.traffic.end();
  faults.push(...end.map(({ kind, sentence }) => `${kind}: ${sentence}`));
  return { faults, accepted: world.traffic.accepted, left };
}

async function stepFaults(
  world: World,
  name: string,
  { epoch, happens }: Nemesis,
  say: (line: string) => void,
): Promise<string[]> {
  const { traffic } = world;
  const startedMs = performance.now();
  const faults: string[] = [];
  try {
    await traffic.goesOn(BETWEEN);
    const before = traffic.epoch;
    await happens(world);
    await world.heal();
    await traffic.goesOn(BETWEEN);
    const isSame = before === traffic.epoch;
    if (isSame && epoch === 'changes') faults.push('no new epoch began');
    if (!isSame && epoch === 'stays') faults.push('a new epoch began for no reason');
  } catch (error) {
    faults.push(String(error));
  }
  const found = faultsOf(traffic.seen, { relayKey: relay.key, isDrained: false });
  faults.push(...found.map(({ kind, sentence }) => `${kind}: ${sentence}`), ...brokenOf(world));
  say(`${((performance.now() - startedMs) / 1000).toFixed(1).padStart(5)} s  ${traffic.accepted} accepted  ${name}`);
  if (faults.length > 0) for (const line of saidBy(world)) say(line);
  return faults.map((fault) => `after "${name}": ${fault}`);
}

/** The last words of each relay. */
function saidBy({ nodes }: World): string[] {
  return nodes.flatMap(({ name, said }) => {
    const lines = said.split('\n').slice(-LINES_SAID);
    return lines.map((line) => `${name}: ${line}`);
  });
}

/** Returns what a relay said of itself that it should never have to say. */
function brokenOf({ nodes }: World): string[] {
  return nodes.flatMap(({ said }) => said.split('\n').filter((line) => line.includes('invariant')));
}

/** All of them, in an order that follows from the seed. */
export function shuffled(names: readonly string[], seed: number): string[] {
  const random = new SeededRandom(seed);
  const left = [...names];
  return names.flatMap(() => left.splice(random.below(left.length), 1));
}
