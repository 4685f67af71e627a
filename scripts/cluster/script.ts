/** The cluster by script: `kill leader; accepted 10; start all`. For tests and for terminals that cannot be redrawn. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { until as happens } from '../until.ts';
import { type ClusterWorld, DEEDS, type Deed, MOVES, type Member, type Move } from './world.ts';

const NAMES = ['leader', 'follower', 'a', 'b', 'primary', 'standby', 'database1', 'database2', 'proxy', 'all'] as const;
type Name = (typeof NAMES)[number];

export type Step =
  | { type: 'do'; deed: Deed; name: Name }
  | { type: 'move'; move: Move }
  /** Until so many more mails were accepted. */
  | { type: 'accepted'; count: number }
  | { type: 'wait'; seconds: number };

export const STEPS_HELP =
  `${DEEDS.join(', ')} <process>; ${MOVES.join(', ')}; accepted <mails>; wait <seconds>. ` +
  `A process: ${NAMES.join(', ')}`;
/** A step may take this long: a lease, a promotion and a new copy of a database. */
const PATIENCE_MS = 120_000;

/** Throws, as a sentence, what is no step. */
export function parseScript(text: string): Step[] {
  return text
    .split(';')
    .map((part) => part.trim())
    .filter(Boolean)
    .map(parseStep);
}

function parseStep(text: string): Step {
  const [verb = '', object = '', ...more] = text.split(/\s+/);
  const name = NAMES.find((one) => one === object);
  const deed = DEEDS.find((one) => one === verb);
  const move = MOVES.find((one) => one === verb);
  const number = /^\d+(?:\.\d+)?$/.test(object) ? Number(object) : undefined;
  if (more.length === 0) {
    if (deed && name) return { type: 'do', deed, name };
    if (move && object === '') return { type: 'move', move };
    if (verb === 'accepted' && number !== undefined) return { type: 'accepted', count: number };
    if (verb === 'wait' && number !== undefined) return { type: 'wait', seconds: number };
  }
  throw new Error(`"${text}" is no step. Steps: ${STEPS_HELP}`);
}

/** Does the steps, one after another. Rejects when one cannot be done, or `signal` aborts. */
export async function runScript(world: ClusterWorld, steps: readonly Step[], signal: AbortSignal): Promise<void> {
  for (const step of steps) {
    signal.throwIfAborted();
    if (step.type === 'wait') await elapsed(step.seconds * 1000, undefined, { signal });
    else if (step.type === 'move') await movedSoon(world, step.move, signal);
    else if (step.type === 'do') await doTo(world, step, signal);
    else {
      const wanted = world.load.ledger.counts.accepted + step.count;
      await until(`${step.count} mails more are accepted`, () => world.load.ledger.counts.accepted >= wanted, signal);
    }
  }
}

/** Resolves when everything that was written came and is confirmed. */
export async function settled(world: ClusterWorld, signal: AbortSignal): Promise<void> {
  world.load.stopWriting();
  await until('everything that was accepted arrives', () => world.load.isSettled, signal);
}

async function doTo(world: ClusterWorld, step: Step & { type: 'do' }, signal: AbortSignal): Promise<void> {
  if (step.name === 'all') {
    const isFit = (member: Member): boolean =>
      step.deed === 'continue' ? member.isPaused : (step.deed === 'start') === (member.pid === undefined);
    for (const member of world.members.filter(isFit)) await world.do(step.deed, member);
    return;
  }
  const { name } = step;
  let member: Member | undefined;
  await until(`there is a ${name}`, () => (member = memberOf(world, name)) !== undefined, signal);
  if (member) await world.do(step.deed, member);
}

/** A standby that was started a moment ago may not answer yet. */
async function movedSoon(world: ClusterWorld, move: Move, signal: AbortSignal): Promise<void> {
  if (move === 'promote') await until('there is a standby', () => world.standby !== undefined, signal);
  if (move === 'rebuild') await until('there is a primary', () => world.primary !== undefined, signal);
  await world.move(move);
}

function memberOf(world: ClusterWorld, name: Exclude<Name, 'all'>): Member | undefined {
  const [a, b] = world.relays;
  const [, , database1, database2] = world.members;
  const { leader, primary, standby, proxy } = world;
  const follower = leader === a ? b : a;
  return {
    leader: leader?.program,
    follower: leader && follower.program,
    a: a.program,
    b: b.program,
    primary,
    standby,
    database1,
    database2,
    proxy,
  }[name];
}

async function until(what: string, isSo: () => boolean, signal: AbortSignal): Promise<void> {
  await happens(what, () => isSo() || undefined, PATIENCE_MS, signal);
}
