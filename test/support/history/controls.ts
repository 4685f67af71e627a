/**
 * Checks of the product that a test leaves out on purpose, and what then happens to accepted mail: without one of them
 * the history must show it.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { alice, bob, relay } from '../hosts.ts';
import type { Patch } from '../patched-program.ts';
import { leaderOf } from '../relay-nodes.ts';
import { type Fault, faultsOf } from './faults.ts';
import { GaveUp } from './front.ts';
import { WAITING, commitWaits } from './nemeses.ts';
import type { WatchedHost } from './watched-host.ts';
import type { World } from './world.ts';
import { found } from '../found.ts';

const LOG = 'relay/shared-log';
const TRIED_MS = 6_000;
const AGAIN_MS = 50;

/** By what is left out. */
export const LEFT_OUT = {
  'a new epoch on another server': {
    file: `${LOG}/takeover-rules.ts`,
    from: "durability === 'storage') return undefined;",
    to: "durability === 'storage' || durability === 'standby') return undefined;",
  },
  'the names after an append': {
    file: `${LOG}/pg-session.ts`,
    from: "const isAlike = this.#options.durability !== 'standby' ||",
    to: 'const isAlike = true ||',
  },
  'the names of a new connection': {
    file: `${LOG}/durability.ts`,
    from: "if (names.trim() === '')",
    to: "if (names.trim() === 'none')",
  },
  'warnings are asked for': {
    file: `${LOG}/pg-statements.ts`,
    from: " AND set_config('client_min_messages', 'warning', true) = 'warning'`",
    to: '`',
  },
  'a warning counts': {
    file: `${LOG}/pg-link.ts`,
    from: 'warning: this.#warnings[before]',
    to: 'warning: before < 0 ? this.#warnings[before] : undefined',
  },
  'an append compares who leads': {
    file: `${LOG}/pg-statements.ts`,
    from: "l.term = $2::int8 AND l.tenure = $3::uuid AND NOT l.is_free\n    AND l.state = 'serving'",
    to: "l.term >= $2::int8 AND $3::uuid IS NOT NULL\n    AND l.state = 'serving'",
  },
  'a lease that is over': {
    file: `${LOG}/leadership.ts`,
    from: 'return !this.#isLost && clock.monotonicMs() - this.#confirmedMs < leaseMs * (1 - MARGIN);',
    to: 'return leaseMs > 0 && clock.monotonicMs() >= this.#confirmedMs;',
  },
  'a lead that is lost': {
    file: `${LOG}/leadership.ts`,
    from: 'if (this.#isLost) return;',
    to: 'if (!this.#isLost) return;',
  },
  'dedup rows': {
    file: 'relay/core/reduce.ts',
    from: 'const changes = targets.map(({ hostPubkey, wireHash, seq, bytes })',
    to: 'const changes = targets.slice(1).map(({ hostPubkey, wireHash, seq, bytes })',
  },
  'what a follower makes of a batch': {
    file: `${LOG}/view-log.ts`,
    from: 'if (!effects.equals(followed.effects)) throw new ViewDiverged(followed);',
    to: 'followed.effects.copy(effects);',
  },
  'the count of dedup rows': {
    file: 'relay/store/dedup-counts.ts',
    from: 'this.#isMissing = rows !== expected;',
    to: 'this.#isMissing = rows < 0;',
  },
} as const satisfies Record<string, Patch>;

export type LeftOut = keyof typeof LEFT_OUT;

/** A trick makes a commit end that no standby has. */
export type Trick = 'none' | 'names are emptied' | 'waits are cancelled';

/** A push that may get no answer: whether it was accepted. */
async function triesToPush(host: WatchedHost, meanwhile: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const before = host.accepted;
  const giving = new AbortController();
  const timer = setTimeout(() => giving.abort(), TRIED_MS);
  const { signal } = giving;
  try {
    const pushing = host.push(signal).finally(() => giving.abort());
    await Promise.all([pushing, meanwhile(signal)]);
  } catch (error) {
    if (!(error instanceof GaveUp)) throw error;
  } finally {
    clearTimeout(timer);
  }
  return host.accepted > before;
}

async function plays({ trio }: World, trick: Trick, signal: AbortSignal): Promise<void> {
  if (trick === 'none') return;
  await commitWaits(trio.primary);
  if (trick === 'names are emptied') return trio.setNames('');
  while (!signal.aborted) {
    await trio.primary.query(WAITING.replace('SELECT pid', 'SELECT pg_cancel_backend(pid)'));
    await elapsed(AGAIN_MS);
  }
}

function hostOf({ traffic }: World, name: string): WatchedHost {
  return found(
    traffic.hosts.find(({ host }) => host.name === name),
    `there is no host ${name}`,
  );
}

async function sendsOne(world: World): Promise<void> {
  const signal = AbortSignal.timeout(10 * TRIED_MS);
  const from = hostOf(world, alice.name);
  from.write([bob]);
  while (!from.isIdle) await from.push(signal);
  await hostOf(world, bob.name).pull(signal);
}

/**
 * Alice pushes while `away` of the standbys are away, and `trick` is played. Then the primary and the machine of the
 * relay that leads are gone, and a standby that was away is promoted.
 */
export async function loseWhatWasAccepted(world: World, trick: Trick, away: 'one' | 'both'): Promise<Fault[]> {
  const { trio, traffic } = world;
  await sendsOne(world);
  // One standby is enough for an ack, and the other one may be promoted.
  await trio.caughtUp();
  const leader = await world.leader();
  world.other(leader).pause(true);
  const [lagging] = trio.standbys;
  if (!lagging) throw new Error('there is no standby');
  for (const standby of away === 'one' ? [lagging] : trio.standbys) await standby.stop();
  const from = hostOf(world, alice.name);
  from.write([bob]);
  await triesToPush(from, (signal) => plays(world, trick, signal));
  await leader.lose();
  await trio.primary.kill();
  await lagging.start();
  await trio.promote(lagging);
  await world.heal();
  return traffic.end();
}

/** Another relay leads, and the one that led before, which was paused, is asked. */
async function deposed(world: World): Promise<{ before: string; now: string }> {
  await sendsOne(world);
  const leader = await world.leader();
  leader.pause(true);
  const next = await leaderOf([world.other(leader)]);
  return { before: leader.url, now: next.url };
}

async function goesOn({ nodes }: World): Promise<void> {
  for (const node of nodes) node.pause(false);
}

/** A relay that was deposed is asked to store something, and its successor is asked for it. */
export async function pushAtDeposed(world: World): Promise<Fault[]> {
  const { before, now } = await deposed(world);
  const from = world.traffic.hostAt(alice, [before]);
  from.write([bob]);
  await goesOn(world);
  await triesToPush(from, async () => undefined);
  await pullsOnce(world.traffic.hostAt(bob, [now]));
  return faultsOf(world.traffic.seen, { relayKey: relay.key, isDrained: false });
}

/** The successor of a relay that was deposed stores something, and then the deposed one is asked what there is. */
export async function pullAtDeposed(world: World): Promise<Fault[]> {
  const { before, now } = await deposed(world);
  const from = world.traffic.hostAt(alice, [now]);
  from.write([bob]);
  await triesToPush(from, async () => undefined);
  await goesOn(world);
  await pullsOnce(world.traffic.hostAt(bob, [before]));
  return faultsOf(world.traffic.seen, { relayKey: relay.key, isDrained: false });
}

async function pullsOnce(host: WatchedHost): Promise<void> {
  try {
    await host.pull(AbortSignal.timeout(TRIED_MS));
  } catch (error) {
    if (!(error instanceof GaveUp)) throw error;
  }
}

/** The first relay leads and stores something, which the second then follows. */
export async function storeAtFirst(world: World): Promise<void> {
  await leads(world, 0);
  await sendsOne(world);
}

/** The second relay leads after the first, and Alice pushes again what the first one accepted. */
export async function pushAgainAtSecond(world: World): Promise<Fault[]> {
  await storeAtFirst(world);
  await leads(world, 1);
  const from = hostOf(world, alice.name);
  from.pushesAllAgain();
  await triesToPush(from, async () => undefined);
  return faultsOf(world.traffic.seen, { relayKey: relay.key, isDrained: false });
}

/** That relay comes to lead. */
async function leads({ nodes }: World, at: 0 | 1): Promise<void> {
  const [wanted, other] = at === 0 ? nodes : nodes.toReversed();
  if (!wanted || !other) throw new Error('there are two nodes');
  if (await wanted.leads()) return;
  other.isHeldDown = true;
  await other.kill();
  await leaderOf([wanted]);
  other.isHeldDown = false;
}
