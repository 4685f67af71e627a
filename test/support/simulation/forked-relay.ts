/**
 * A relay that lies: its operator runs a copy of its disk beside it, with the same key, and shows each host one of the
 * two. What each half is told is whole and proven; only hosts that speak with each other can know.
 */
import type { ItemId } from '../../../src/protocol/names.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Lookout } from './lookout.ts';
import type { SimulatedHost } from './simulated-host.ts';
import { type RelayOptions, SimulatedRelay } from './simulated-relay.ts';
import type { Simulator } from './simulator.ts';

/** Two looks of a host are so far apart. */
const LOOKS_APART_MS = 660_000;
/**
 * Mostly one is enough. A half that was shown the larger log of the other begins a new epoch, as if it had been put
 * back to a copy; then both must have signed after what the other told.
 */
const ROUNDS_MAX = 12;
const NOBODY: RelayOptions['watcher'] = {
  opening: () => undefined,
  opened: () => undefined,
  beat: () => undefined,
  committed: () => undefined,
  answered: () => undefined,
  fault: () => undefined,
};

interface ForkParts {
  simulator: Simulator;
  random: SeededRandom;
  relay: SimulatedRelay;
  options: RelayOptions;
  hosts: readonly SimulatedHost[];
  lookouts: readonly Lookout[];
  within: <T>(answer: Promise<T>) => Promise<T | undefined>;
  fault: (sentence: string) => void;
}

/**
 * Forks the relay, and finds fault with hosts that spoke with the other half and do not know it, and with words of a
 * host for which nobody of the other half spoke. Returns how many know.
 */
export async function forkRelay(parts: ForkParts): Promise<number> {
  const { simulator, random, relay, options, hosts, lookouts, within, fault } = parts;
  const other = new SimulatedRelay({ ...options, watcher: NOBODY });
  other.disk.replace(relay.disk.image);
  other.offsetMs = relay.offsetMs;
  other.start();
  await simulator.elapsed(10_000);
  if (other.serving?.engine.epoch !== relay.serving?.engine.epoch) {
    fault('a new epoch began over a copy of the disk');
    return 0;
  }
  const sideOf = (no: number): SimulatedRelay => (no % 2 === 0 ? relay : other);
  const pairs = hosts.flatMap(({ no }) => hosts.filter((host) => host.no > no).map((host) => [no, host.no] as const));
  const speaking = pairs.filter(([one, two]) => one + two === 1 || random.chance(0.5));
  const across = new Set(speaking.filter(([one, two]) => sideOf(one) !== sideOf(two)).flat());
  const knows = (no: number): boolean => lookouts[no]!.evidence.some(({ isSigned }) => isSigned);
  const all = [...across];
  for (let round = 0; round < ROUNDS_MAX && !all.every(knows); round++) {
    for (const side of [relay, other]) await grow(side, round, parts);
    for (const [no, lookout] of lookouts.entries()) await lookout.looksAt(sideOf(no), within);
    for (const [one, two] of speaking) {
      lookouts[one]!.hears(lookouts[two]!);
      lookouts[two]!.hears(lookouts[one]!);
    }
    await simulator.elapsed(LOOKS_APART_MS);
  }
  for (const no of all)
    if (!knows(no)) fault(`host ${no} spoke with a host that was shown another log, and does not know it`);
  return hosts.filter(({ no }) => knows(no)).length;
}

/** One item more is in the log of this half alone. */
async function grow(side: SimulatedRelay, round: number, { hosts, random, fault, within }: ForkParts): Promise<void> {
  const [from, to] = [hosts[0]!, hosts[1]!];
  const itemId = `forked-${round}-${random.below(2 ** 32)}` as ItemId;
  const wire = JSON.stringify({ itemId, from: from.no, to: to.no, filler: String(random.below(2 ** 32)) });
  const item = { kind: 'envelope' as const, itemId, targets: [{ key: to.key.key, wire }] };
  const request = { type: 'push' as const, caller: from.key, items: [item] };
  const answer = await within(side.serve(request) ?? Promise.reject(new Error('nobody listens')));
  const status = answer?.type === 'pushed' ? answer.results[0]?.status : answer?.type;
  if (status !== 'accepted') fault(`one half of the relay did not take an item: ${status}`);
}
