/**
 * Relays whose database was set back on its own server, as a copied folder or the snapshot of a machine does it; and
 * relays that lose its answers, or the server for a while.
 */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { type PostgresServer, type Servers, startPostgres } from '../support/postgres.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { RelayNode, leaderOf, supervise } from '../support/relay-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { found } from '../support/found.ts';

let servers: Servers | undefined;

beforeAll(async () => {
  const program = findProgram(POSTGRES);
  if (program !== undefined) servers = await startPostgres(program);
});

afterAll(() => servers?.end());

beforeEach((context) => void neededProgram(context, POSTGRES));

function primary(): PostgresServer {
  return found(servers, 'PostgreSQL was not started').primary;
}

/** Pushes one item to whoever leads, until it is accepted; resolves to the epoch. */
async function pushed(nodes: readonly RelayNode[], id: string): Promise<string> {
  const answer = await eventually(
    async () =>
      (await leaderOf(nodes))
        .client(alice)
        .push([itemTo([bob], id)])
        .catch(() => undefined),
    (one) => one !== undefined,
  );
  const status = answer?.results[0]?.status;
  if (status !== 'accepted' && status !== 'duplicate') throw new Error(`the push was answered ${status}`);
  return answer?.epoch ?? '';
}

async function begin(
  count: number,
  port = primary().port,
): Promise<{ nodes: RelayNode[]; database: string; end: () => Promise<void> }> {
  const database = await primary().newDatabase();
  const folder = await temporaryFolder();
  const args = ['--log', primary().url(database, port), '--durability', 'single', '--lease-seconds', '2'];
  const nodes: RelayNode[] = [];
  for (let at = 1; at <= count; at++) nodes.push(await RelayNode.start(folder, `node-${at}`, { args }));
  const leader = await leaderOf(nodes);
  for (const host of [alice, bob]) await leader.client(host).enrol();
  const unsupervised = supervise(nodes);
  const end = async (): Promise<void> => {
    await unsupervised();
    for (const node of nodes) await node.kill();
  };
  atTestEnd(end);
  return { nodes, database, end };
}

describe('Versioning 5: a database that was set back on its own server', () => {
  test('while two relays run: one new epoch begins, and mail goes on', { timeout: 120_000 }, async () => {
    const { nodes, database } = await begin(2);
    const before = await pushed(nodes, 'one');
    const copy = await primary().backUp();
    await pushed(nodes, 'two');
    await primary().restore(copy, 'copied');
    const after = await eventually(
      () => pushed(nodes, 'two'),
      (epoch) => epoch !== before,
    );
    expect(after).not.toBe(before);
    const settled = async (): Promise<boolean> => {
      const [row] = await primary().query(
        'SELECT doubt IS NULL AS is_settled, (SELECT count(*) FROM node)::int AS nodes FROM relay_log',
        [],
        database,
      );
      return row?.['is_settled'] === true && nodes.every(({ isRunning }) => isRunning);
    };
    // The other one has found the same by then, and led after it.
    const leader = await leaderOf(nodes);
    await leader.kill();
    expect(await pushed(nodes, 'three')).toBe(after);
    expect(await eventually(settled, (is) => is)).toBe(true);
    expect(await pushed(nodes, 'four')).toBe(after);
  });

  test('and is older than ten minutes: a relay on an empty disk begins a new epoch', { timeout: 120_000 }, async () => {
    const { nodes, database, end } = await begin(1);
    const before = await pushed(nodes, 'one');
    await end();
    await primary().query("UPDATE relay_log SET beat_at = beat_at - interval '10 minutes 1 second'", [], database);
    const [node] = nodes as [RelayNode];
    await rm(node.folder, { recursive: true });
    node.startAgain();
    expect(await pushed(nodes, 'two')).not.toBe(before);
  });
});

test('a relay that loses an answer, or its database for a while, goes on in its process and its epoch', {
  timeout: 120_000,
}, async () => {
  const link = await primary().link();
  const { nodes, database } = await begin(1, link.port);
  const [node] = nodes as [RelayNode];
  const { pid } = node;
  const before = await pushed(nodes, 'one');
  link.loseAnswer(/append/);
  // Its sender is told at once, and what was stored is a duplicate.
  await expect(node.client(alice).push([itemTo([bob], 'two')])).rejects.toThrow('503');
  link.mend();
  expect(await pushed(nodes, 'two')).toBe(before);
  await primary().kill();
  await expect(node.client(alice).push([itemTo([bob], 'three')])).rejects.toThrow('503');
  await primary().start();
  expect(await pushed(nodes, 'three')).toBe(before);
  const page = await node.client(bob).pull();
  expect(page.items.map(({ item_id: id }) => id)).toEqual(['one', 'two', 'three']);
  expect([node.pid, node.ends]).toEqual([pid, []]);
  const [row] = await primary().query('SELECT count(*)::int - max(no)::int AS missing FROM batch', [], database);
  expect(row).toEqual({ missing: 0 });
});
