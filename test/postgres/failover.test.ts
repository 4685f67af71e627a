/**
 * Relays of one log as processes, on a primary with a synchronous standby, while two hosts push, pull and ack: what was
 * accepted comes once, whatever happens to the relays and to PostgreSQL.
 */
import { expect, test } from 'vitest';
import { alice, bob } from '../support/hosts.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { History, RelayNode, leaderOf } from '../support/relay-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const LEASE_S = 1;
/** Items that must be accepted between two events. */
const BETWEEN = 10;

interface World {
  primary: PostgresServer;
  standby: PostgresServer;
  nodes: RelayNode[];
  history: History;
}

async function world(program: string): Promise<World> {
  const { primary, end } = await startPostgres(program);
  atTestEnd(end);
  const standby = await primary.standby('second');
  await primary.synchronousWith('second');
  const log = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
  const folder = await temporaryFolder();
  const args = ['--log', log, '--lease-seconds', String(LEASE_S)];
  const nodes = [await RelayNode.start(folder, 'one', args), await RelayNode.start(folder, 'two', args)];
  const history = new History(nodes, alice, bob);
  await history.enrol();
  history.run();
  return { primary, standby, nodes, history };
}

function other({ nodes }: World, node: RelayNode): RelayNode {
  const found = nodes.find((one) => one !== node);
  if (!found) throw new Error('there are two nodes');
  return found;
}

/** What happens, by name; after each the hosts must go on. */
const EVENTS: Readonly<Record<string, (world: World) => Promise<void>>> = {
  'the relay that leads is killed, and another leads': async (at) => {
    const leader = await leaderOf(at.nodes);
    await leader.kill();
    const next = other(at, leader);
    expect(await leaderOf([next])).toBe(next);
    leader.startAgain();
  },
  'the relay that leads is stopped, and another leads': async (at) => {
    const leader = await leaderOf(at.nodes);
    leader.stop();
    expect(await leader.ended()).toBe(0);
    const next = other(at, leader);
    expect(await leaderOf([next])).toBe(next);
    leader.startAgain();
  },
  'the relay that follows is stopped': async (at) => {
    const follower = other(at, await leaderOf(at.nodes));
    // It may have been started a moment ago.
    await expect.poll(() => follower.answers()).toBe(true);
    follower.stop();
    expect(await follower.ended()).toBe(0);
    follower.startAgain();
  },
  'the relay that leads is paused for longer than its lease, and ends when it goes on': async (at) => {
    const leader = await leaderOf(at.nodes);
    leader.pause(true);
    const next = other(at, leader);
    expect(await leaderOf([next])).toBe(next);
    leader.pause(false);
    expect(await leader.ended()).toBe(75);
    leader.startAgain();
  },
  'both relays are killed, and both start again': async (at) => {
    for (const node of at.nodes) await node.kill();
    for (const node of at.nodes) node.startAgain();
    await leaderOf(at.nodes);
  },
  'the wait for the standby is cancelled again and again': async (at) => {
    for (let time = 0; time < 3; time++) {
      await at.standby.receive(false);
      const waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
      await expect.poll(async () => (await at.primary.query(waiting)).length).toBeGreaterThan(0);
      await at.standby.receive(true);
      for (const node of at.nodes) await restartIfEnded(node);
      await leaderOf(at.nodes);
    }
  },
  'the primary is killed and starts again': async (at) => {
    await at.primary.kill();
    await at.primary.start();
    await bothServe(at);
  },
  'the primary is killed, and its standby is promoted': async (at) => {
    await at.primary.kill();
    await at.standby.promote();
    await at.standby.standby('third');
    await at.standby.synchronousWith('third');
    await bothServe(at);
  },
};

/** As a supervisor: what ended starts again, until one leads. */
async function bothServe({ nodes }: World): Promise<void> {
  await expect
    .poll(
      async () => {
        for (const node of nodes) await restartIfEnded(node);
        const leading = await Promise.all(nodes.map((node) => node.leads()));
        return leading.filter(Boolean).length;
      },
      { interval: 100 },
    )
    .toBe(1);
}

async function restartIfEnded(node: RelayNode): Promise<void> {
  if (!node.isRunning) node.startAgain();
}

// It costs twenty seconds and more: `npm test` holds the same rules in test/http/shared-log.test.ts, in one process.
test.runIf(IS_THOROUGH)('what was accepted comes once, whatever ends, pauses or is promoted', async (context) => {
  const at = await world(neededProgram(context, POSTGRES));
  for (const happens of Object.values(EVENTS)) {
    await at.history.goesOn(BETWEEN);
    await happens(at);
    await bothServe(at);
    await at.history.goesOn(BETWEEN);
  }
  expect(await at.history.end()).toEqual([]);
  expect(new Set(at.history.accepted.map(({ itemId }) => itemId)).size).toBe(at.history.accepted.length);
});
