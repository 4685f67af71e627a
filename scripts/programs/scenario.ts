/** A scenario: one thing that a real program does with Poste, and what must hold then. */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { ProgramName } from './installs.ts';
import type { World } from './world.ts';

export interface Scenario {
  /** The programs it runs; the first one is the one it is about. */
  programs: readonly ProgramName[];
  name: string;
  /** Whether the scenario makes its host itself. */
  isBare?: boolean;
  /** Throws when something does not hold, `Skipped` when it cannot be tried here. May say what it measured. */
  run: (world: World) => Promise<string | void>;
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

/** What `poste send` says is what happens: the model is asked with the doorbell, or it is not. */
export async function saidIsWhatHappens(world: World, expected: Status): Promise<string> {
  const before = world.model.turns.length;
  const startMs = performance.now();
  const said = await world.send();
  const asked = await world.rungWithin(said.status === 'live-wake' ? WOKEN_WITHIN_MS : QUIET_MS, before);
  const happened =
    asked === undefined ? 'and the model never saw it' : `and the model saw it after ${ms(asked.atMs - startMs)}`;
  const told = `poste send said ${said.status} ("${said.detail}") after ${said.ms} ms, ${happened}`;
  check((said.status === 'live-wake') === (asked !== undefined), told);
  check(said.status === expected, `${told}; it should have been ${expected}`);
  return asked === undefined
    ? `${said.status} in ${said.ms} ms`
    : `${said.status} in ${said.ms} ms, model ${ms(asked.atMs - startMs)}`;
}

export function ms(value: number): string {
  return `${Math.round(value)} ms`;
}

/** Time that has to pass, where nothing tells that a program has come to rest. */
export function rest(forMs: number): Promise<void> {
  return elapsed(forMs);
}
