/** A schedule of nemeses that follows from a seed, one after another, and what the history says after each. */
import { POSTGRES_DISK_BYTES, hasOwnDisks } from '../own-disks.ts';
import { patchedProgram } from '../patched-program.ts';
import { PostgresTrio } from '../postgres-trio.ts';
import { relay } from '../hosts.ts';
import { SeededRandom } from '../seeded-random.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { faultsOf } from './faults.ts';
import { NEMESES, type Nemesis, upgradeTo } from './nemeses.ts';
import { World } from './world.ts';

const UPGRADE = 'the relays are replaced by another build, one after the other';
/** Says something else in one place. */
const OTHER_BUILD = [
  { file: 'relay/shared-log/node.ts', from: "'this node follows'", to: "'this node, of another build, follows'" },
];
/** Of what each relay said, when something is wrong. */
const LINES_SAID = 40;
/** Items that must be accepted before and after each. */
const BETWEEN = 10;

export interface RunOptions {
  /** The file of `postgres`. */
  program: string;
  seed: number;
  /** How many nemeses; each of them once, in some order, when absent. */
  steps?: number;
  /** Only those whose name contains this. */
  only?: string;
  say: (line: string) => void;
}

export interface RunOutcome {
  faults: string[];
  accepted: number;
  /** Nemeses that this machine cannot do. */
  left: string[];
}

export async function runNemeses({ program, seed, steps, only = '', say }: RunOptions): Promise<RunOutcome> {
  const random = new SeededRandom(seed);
  const hasDisks = await hasOwnDisks();
  const trio = await PostgresTrio.begin(program, {
    // So that little of a disk is taken by what is kept for standbys.
    settings: { wal_keep_size: "'48MB'", min_wal_size: "'32MB'", max_wal_size: "'64MB'" },
    diskBytes: hasDisks ? POSTGRES_DISK_BYTES : undefined,
  });
  const world = await World.begin({ trio, random });
  const other = await patchedProgram(await temporaryFolder(), OTHER_BUILD);
  const all: Record<string, Nemesis> = { ...NEMESES, [UPGRADE]: upgradeTo(other) };
  const names = Object.keys(all).filter((name) => name.includes(only));
  const possible = names.filter((name) => all[name]?.needs !== 'disk' || hasDisks);
  world.traffic.run();
  const faults: string[] = [];
  for (const name of scheduleOf(possible, random, steps)) {
    const nemesis = all[name];
    if (!nemesis || faults.length > 0) break;
    faults.push(...(await stepFaults(world, name, nemesis, say)));
  }
  await world.traffic.stop();
  // After a fault nothing may be left that answers.
  const end = faults.length > 0 ? [] : await world.traffic.end();
  faults.push(...end.map(({ kind, sentence }) => `${kind}: ${sentence}`));
  return { faults, accepted: world.traffic.accepted, left: names.filter((name) => !possible.includes(name)) };
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

/** What a relay said of itself that it should never have to say. */
function brokenOf({ nodes }: World): string[] {
  return nodes.flatMap(({ said }) => said.split('\n').filter((line) => line.includes('invariant')));
}

/** Each of them in some order, and as often again as it takes. */
function scheduleOf(names: readonly string[], random: SeededRandom, steps = names.length): string[] {
  const schedule: string[] = [];
  while (schedule.length < steps) {
    const left = [...names];
    while (left.length > 0) schedule.push(...left.splice(random.below(left.length), 1));
  }
  return schedule.slice(0, steps);
}
