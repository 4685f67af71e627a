/** A scenario: one thing that a real program does with Poste, and what must hold then. */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { ProgramName } from './installs.ts';
import { timesRung, type World } from './world.ts';

export interface Scenario {
  /** The programs it runs; the first one is the one it is about. */
  programs: readonly ProgramName[];
  name: string;
  /** Says whether the scenario makes its host itself. */
  isBare?: boolean;
  /** Throws when something does not hold, `Skipped` when it cannot be tried here. May say what it measured. */
  run: (world: World) => Promise<string | void>;
}

/** Of one program, on a host that is there. */
export function scenario(program: ProgramName, name: string, run: Scenario['run']): Scenario {
  return { programs: [program], name, run };
}

/** It cannot be tried on this machine; the message says why. */
export class Skipped extends Error {}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}

/** How long after `poste send` has answered the model may still be asked, when it was said that the agent is woken. */
const WOKEN_WITHIN_MS = 3000;
/** How long the model must stay unasked, when it was said that the agent reads at its next prompt. */
const QUIET_MS = 6000;

export type Status = 'live-wake' | 'live-next-prompt' | 'offline';

export interface Expected {
  /** `any` where both are true: it is woken, and the proof may come after the answer. */
  said: Status | 'any';
  /** Says whether the model sees the doorbell; without it, as `poste send` says. */
  sees?: boolean;
  /** How long it may take until the model sees it. */
  seesWithinMs?: number;
  /** The agent that gets the mail, when it is not the usual reader, and a text that every request of it has. */
  to?: { agent: string; shows: string };
}

/** What `poste send` says is what happens: the model is asked with the doorbell, once, or it is not. */
export async function saidIsWhatHappens(world: World, expected: Expected): Promise<string> {
  const { said, to } = expected;
  const before = world.model.turns.length;
  const startMs = performance.now();
  const sent = await world.send(to?.agent);
  const { sees = sent.status === 'live-wake', seesWithinMs = sees ? WOKEN_WITHIN_MS : QUIET_MS } = expected;
  const asked = await world.rungWithin(seesWithinMs, before);
  const afterMs = asked === undefined ? '' : ms(asked.atMs - startMs);
  const happened = asked === undefined ? 'and the model did not see it' : `and the model saw it after ${afterMs}`;
  const told = `poste send said ${sent.status} ("${sent.detail}") after ${sent.ms} ms, ${happened}`;
  check(!(sent.status === 'live-wake' && asked === undefined), `${told}: it was said without being so`);
  check(sees === (asked !== undefined), `${told}; it should ${sees ? '' : 'not '}have seen it`);
  check(said === 'any' || sent.status === said, `${told}; it should have been ${said}`);
  check(
    asked === undefined || timesRung(asked.newest) === 1,
    `${told}, ${timesRung(asked?.newest ?? '')} times in one turn`,
  );
  check(to === undefined || !asked || asked.whole.includes(to.shows), `${told}, in a session of another folder`);
  return `${sent.status} in ${sent.ms} ms${asked === undefined ? '' : `, at the model after ${afterMs}`}`;
}

export function ms(value: number): string {
  return `${Math.round(value)} ms`;
}

/** Time that has to pass, where nothing tells that a program has come to rest. */
export function rest(forMs: number): Promise<void> {
  return elapsed(forMs);
}
