/**
 * Lists what may happen to relays and servers of a shared log while hosts use them. What is left broken heals after it.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { eventually } from '../eventually.ts';
import { patchedProgram } from '../patched-program.ts';
import type { PostgresServer } from '../postgres.ts';
import { type RelayNode, leaderOf } from '../relay-nodes.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { LEASE_MS, type World } from './world.ts';

const CLOCK_OFF_MS = 10 * 60_000;
const A_WHILE_MS = 1_500;
/** So many items are accepted meanwhile. */
const SOME = 8;
/** Says something else in one place. */
const OTHER_BUILD = [
  { file: 'relay/shared-log/node.ts', from: "'this node follows'", to: "'this node, of another build, follows'" },
];

export interface Nemesis {
  /** Says whether a new epoch begins: a relay that may not begin one must not, and one that must may not go on. */
  epoch: 'stays' | 'may change' | 'changes';
  /** The machine must be able to do this. */
  needs?: 'disk';
  happens: (world: World) => Promise<void>;
}

/** Another relay leads than `node`. */
async function otherLeads(world: World, node: RelayNode): Promise<void> {
  await leaderOf([world.other(node)]);
}

/**
 * SIGTERM to the relay that leads, which starts again when another has the lead: it would take back its own at once.
 */
async function stop(world: World, leader: RelayNode): Promise<void> {
  leader.isHeldDown = true;
  leader.stop();
  await otherLeads(world, leader);
  leader.isHeldDown = false;
}

async function killPrimary({ trio }: World): Promise<void> {
  await trio.primary.kill();
}

/** The primary is gone, and the standby takes its place that has everything that was acknowledged. */
async function promoteRight(world: World): Promise<void> {
  await killPrimary(world);
  const [right] = await world.trio.byReceived();
  if (!right) throw new Error('there is no standby');
  await world.trio.promote(right);
}

/** Both standbys confirm nothing while this goes on. */
async function withoutStandbys({ trio }: World, work: () => Promise<void>): Promise<void> {
  for (const standby of trio.standbys) await standby.receive(false);
  try {
    await work();
  } finally {
    for (const standby of trio.standbys) await standby.receive(true);
  }
}

export const WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/** Resolves when a commit waits for a standby. */
export async function commitWaits(primary: PostgresServer): Promise<void> {
  const rows = await eventually(
    () => primary.query(WAITING),
    (waiting) => waiting.length > 0,
  );
  if (rows.length === 0) throw new Error('no commit waits for a standby');
}

/** The primary is as it was some time ago, and its standbys are made anew. */
async function restore(world: World, how: 'recovered' | 'copied'): Promise<void> {
  const { trio, traffic } = world;
  const backup = await trio.primary.backUp();
  await traffic.goesOn(SOME);
  for (const standby of trio.standbys) await standby.kill();
  await trio.primary.restore(backup, how);
  await trio.setNames(trio.names);
}

async function answering(node: RelayNode): Promise<void> {
  await eventually(
    () => node.answers(),
    (does) => does,
  );
}

/** Both relays are replaced by those of another build, the one that follows first. */
async function upgrade(world: World): Promise<void> {
  const main = await patchedProgram(await temporaryFolder(), OTHER_BUILD);
  const leader = await world.leader();
  for (const node of [world.other(leader), leader]) {
    node.program = { ...node.program, main };
    await answering(node);
    const ended = node.ended();
    if (node === leader) await stop(world, leader);
    else node.stop();
    await ended;
    // The one that leads would take its own lead again, if nobody else were there.
    await answering(node);
    await world.traffic.goesOn(SOME);
  }
}

/** Ahead and behind, in some order. A relay that starts so does not lead, and one that leads goes on. */
async function clockOff(world: World, node: RelayNode): Promise<void> {
  const firstMs = world.random.chance(0.5) ? CLOCK_OFF_MS : -CLOCK_OFF_MS;
  for (const aheadMs of [firstMs, -firstMs]) {
    await world.moveClock(node, aheadMs);
    if (world.random.chance(0.5)) await node.kill();
    await elapsed(A_WHILE_MS);
  }
}

const RELAYS: Record<string, Nemesis> = {
  'the relay that leads is killed': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      leader.isHeldDown = world.random.chance(0.5);
      await leader.kill();
      if (leader.isHeldDown) await otherLeads(world, leader);
    },
  },
  'the relay that leads is stopped': {
    epoch: 'stays',
    happens: async (world) => stop(world, await world.leader()),
  },
  'the relay that follows is killed': {
    epoch: 'stays',
    happens: async (world) => world.other(await world.leader()).kill(),
  },
  'the relay that leads is paused until another leads': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      leader.pause(true);
      await otherLeads(world, leader);
      await world.traffic.goesOn(SOME);
      leader.pause(false);
      await world.traffic.goesOn(SOME);
    },
  },
  'the relay that leads is paused for less than its lease': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      for (let time = 0; time < 3; time++) {
        leader.pause(true);
        await elapsed(world.random.below(LEASE_MS));
        leader.pause(false);
        await elapsed(world.random.below(LEASE_MS));
      }
    },
  },
  'both relays are killed': {
    epoch: 'stays',
    happens: async ({ nodes }) => {
      for (const node of nodes) await node.kill();
    },
  },
  'the disk of the relay that leads is lost': {
    epoch: 'stays',
    happens: async (world) => (await world.leader()).lose(),
  },
  'the disks of both relays are lost': {
    epoch: 'stays',
    happens: async ({ nodes }) => {
      for (const node of nodes) await node.lose();
    },
  },
  'the clock of the relay that leads is ten minutes off': {
    epoch: 'stays',
    happens: async (world) => clockOff(world, await world.leader()),
  },
  'the clock of the relay that follows is ten minutes off': {
    epoch: 'stays',
    happens: async (world) => clockOff(world, world.other(await world.leader())),
  },
  'the relays are replaced by another build, one after the other': { epoch: 'stays', happens: upgrade },
};

const LINKS: Record<string, Nemesis> = {
  'the relay that leads is cut off from the log': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      for (const link of world.links(leader)) link.cut();
      await otherLeads(world, leader);
      await world.traffic.goesOn(SOME);
    },
  },
  'its links are cut for a moment, again and again': {
    epoch: 'stays',
    happens: async (world) => {
      for (let time = 0; time < 5; time++) {
        const links = world.links(world.random.pick(world.nodes));
        for (const link of links) link.cut();
        await elapsed(world.random.below(300));
        for (const link of links) link.mend();
        await elapsed(world.random.below(300));
      }
    },
  },
  'what the relay that leads appends comes after another leads': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      for (const link of world.links(leader)) link.hold('requests');
      await otherLeads(world, leader);
      await world.traffic.goesOn(SOME);
      for (const link of world.links(leader)) link.release();
      await world.traffic.goesOn(SOME);
    },
  },
  'the relay that leads hears no answers until another leads': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      for (const link of world.links(leader)) link.hold('answers');
      // Before that it leads, as far as the log knows.
      await otherLeads(world, leader);
      for (const link of world.links(leader)) link.release();
      await world.traffic.goesOn(SOME);
    },
  },
  'the answer to an append is lost': {
    epoch: 'stays',
    happens: async (world) => {
      for (const link of world.links(await world.leader())) link.loseAnswer(/^append$/);
      await elapsed(A_WHILE_MS);
    },
  },
};

const SERVERS: Record<string, Nemesis> = {
  'the primary is killed and starts again': {
    epoch: 'stays',
    happens: async (world) => {
      await killPrimary(world);
      await world.trio.primary.start();
    },
  },
  'the postmaster is killed, what it had started ends by itself, and the primary starts again': {
    epoch: 'stays',
    happens: async ({ trio }) => {
      await trio.primary.kill('postmaster');
      await trio.primary.start();
    },
  },
  'the primary is paused for longer than a lease': {
    epoch: 'stays',
    happens: async ({ trio }) => {
      trio.primary.pause(true);
      await elapsed(LEASE_MS + A_WHILE_MS);
      trio.primary.pause(false);
    },
  },
  'the primary is killed, and the right standby is promoted': {
    epoch: 'may change',
    happens: promoteRight,
  },
  'the right standby is promoted while the relay that led is the only one': {
    epoch: 'stays',
    happens: async (world) => {
      const leader = await world.leader();
      const other = world.other(leader);
      other.isHeldDown = true;
      await other.kill();
      await promoteRight(world);
      await world.trio.heal();
      await leaderOf([leader]);
    },
  },
  'the primary and the machine of the relay that leads are gone, and the wrong standby is promoted': {
    epoch: 'changes',
    happens: async (world) => {
      const { trio, traffic } = world;
      const leader = await world.leader();
      // What this one has seen would show that something is missing.
      world.other(leader).pause(true);
      const wrong = world.random.pick(trio.standbys);
      await wrong.stop();
      await traffic.goesOn(SOME);
      await leader.lose();
      await killPrimary(world);
      await wrong.start();
      await trio.promote(wrong);
      world.other(leader).pause(false);
    },
  },
  'the primary is gone, the wrong standby is promoted, and the relays know it': {
    epoch: 'changes',
    happens: async (world) => {
      const { trio, traffic } = world;
      const wrong = world.random.pick(trio.standbys);
      await wrong.stop();
      await traffic.goesOn(SOME);
      await killPrimary(world);
      await wrong.start();
      await trio.promote(wrong);
    },
  },
  'the wait for a standby is cancelled again and again': {
    epoch: 'stays',
    happens: async (world) => {
      for (let time = 0; time < 3; time++) {
        await withoutStandbys(world, async () => {
          await commitWaits(world.trio.primary);
          await world.trio.primary.query(WAITING.replace('SELECT pid', 'SELECT pg_cancel_backend(pid)'));
        });
        await world.leader();
      }
    },
  },
  'the names are emptied while commits wait, and set again': {
    epoch: 'stays',
    happens: async (world) => {
      const { trio } = world;
      await withoutStandbys(world, async () => {
        await commitWaits(trio.primary);
        await trio.setNames('');
        await elapsed(A_WHILE_MS);
        await trio.setNames(trio.names);
      });
    },
  },
  'both standbys are away': {
    epoch: 'stays',
    happens: async (world) => withoutStandbys(world, () => elapsed(A_WHILE_MS)),
  },
  'one standby is gone': {
    epoch: 'stays',
    happens: async ({ trio, traffic, random }) => {
      await random.pick(trio.standbys).kill();
      await traffic.goesOn(SOME);
    },
  },
  'the database is restored to a point in time': {
    epoch: 'changes',
    happens: (world) => restore(world, 'recovered'),
  },
  'an older copy of the database takes its place': {
    epoch: 'changes',
    happens: (world) => restore(world, 'copied'),
  },
  'the disk of the primary is full': {
    epoch: 'stays',
    needs: 'disk',
    happens: async ({ trio }) => {
      await trio.primary.fillDisk();
      await elapsed(2 * A_WHILE_MS);
      await trio.primary.freeDisk();
    },
  },
};

export const NEMESES: Readonly<Record<string, Nemesis>> = { ...RELAYS, ...LINKS, ...SERVERS };
