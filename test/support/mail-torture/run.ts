/** One run in a world of mail: agents act, things go wrong as a seed says, all heals, and what is left is judged. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { Faults } from './faults.ts';
import { faultsIn } from './oracle.ts';
import type { MailWorld } from './world.ts';

const ROUNDS = 10;
const ROUND_MAX_MS = 200;
/** Level and text of what a daemon logs as an error. */
const ERROR_LINE = /^.*"level":50.*$/gm;

export interface RunOutcome {
  faults: string[];
  /** The deeds, in their order: told when the run fails. */
  schedule: string[];
  accepted: number;
  /** Messages of which a sender was alerted. */
  alerted: number;
  /** Rows that more than one relay took. */
  takenByTwo: number;
  /** Nobody can use the world any more: too much time has passed in it, or something is kept in a quarantine. */
  isSpent: boolean;
}

/** What is done is noted in `schedule`, so that it is known also when the run breaks off. */
export async function runMail(world: MailWorld, seed: number, schedule: string[] = []): Promise<RunOutcome> {
  const logged = world.hosts.map(({ daemon }) => daemon.log.length);
  world.begin(seed);
  const { random } = world;
  const faults = new Faults(world);
  schedule.push(...faults.atFirst());
  for (let round = 0; round < ROUNDS; round++) {
    for (let count = random.below(5); count > 0; count--) world.act();
    const what = random.chance(0.75) ? await faults.any() : undefined;
    if (what !== undefined) schedule.push(what);
    await elapsed(random.below(ROUND_MAX_MS));
  }
  const { open, isSpent } = await world.settle();
  const seen = await world.seen(open);
  const { history, failures } = world;
  const errors = world.mayLogErrors
    ? []
    : world.hosts.flatMap(({ daemon }, at) => daemon.log.slice(logged[at]).match(ERROR_LINE) ?? []);
  const ids = history.asked.flatMap(({ accepted }) => accepted?.result.message_id ?? []);
  const alerts = [...seen.boxes.values()].flat().filter(({ kind, replyTo }) => kind === 'alert' && replyTo !== null);
  return {
    faults: [...faultsIn(history, seen), ...failures, ...errors],
    schedule,
    accepted: ids.length,
    alerted: new Set(alerts.map(({ replyTo }) => replyTo).filter((id) => id !== null && ids.includes(id))).size,
    takenByTwo: world.relays.length > 1 ? await world.takenByTwo() : 0,
    isSpent,
  };
}
