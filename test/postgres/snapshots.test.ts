/** Relays of one log as processes: when the disks of all of them are lost, the database alone brings the relay back. */
import { expect, test } from 'vitest';
import { verified } from '../support/audits.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { RelayNode, leaderOf } from '../support/relay-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const WITHIN_MS = 120_000;
const SNAPSHOT_BATCHES = 8;

async function pushed(node: RelayNode, from: number, through: number): Promise<unknown[]> {
  const answers = [];
  for (let item = from; item <= through; item++)
    answers.push((await node.client(alice).push([itemTo([bob], `item-${item}`)])).results[0]);
  return answers;
}

async function snapshotNo(server: PostgresServer): Promise<number> {
  const rows = await server.query('SELECT snapshot_no FROM relay_log');
  return Number(rows[0]?.['snapshot_no'] ?? 0);
}

// It waits for the job of the relay, which begins seconds after its start.
test.runIf(IS_THOROUGH)(
  'both disks are lost, and the relay comes back from the database with its epoch, its mail and its duplicates',
  async (context) => {
    const servers = await startPostgres(neededProgram(context, POSTGRES));
    atTestEnd(() => servers.end());
    const { primary } = servers;
    const url = primary.url('postgres');
    const folder = await temporaryFolder();
    const log = ['--log', url, '--durability', 'single', '--lease-seconds', '1'];
    const program = { args: [...log, '--snapshot-batches', String(SNAPSHOT_BATCHES)] };
    const nodes = [await RelayNode.start(folder, 'one', program), await RelayNode.start(folder, 'two', program)];
    atTestEnd(async () => {
      for (const node of nodes) if (node.isRunning) await node.kill();
    });
    let leader = await leaderOf(nodes);
    for (const host of [alice, bob]) await leader.client(host).enrol();
    await pushed(leader, 1, 12);
    await expect.poll(() => snapshotNo(primary), { timeout: WITHIN_MS, interval: 200 }).toBeGreaterThan(0);
    const first = await leader.client(bob).pull();
    const { epoch } = first;
    await leader.client(bob).ack(epoch, first.items[3]?.seq ?? 0);
    await pushed(leader, 13, 15);
    const again = await pushed(leader, 1, 15);
    const waiting = (await leader.client(bob).pull()).items;
    expect(waiting).toHaveLength(11);
    // As the leader does when the days are over that the log is kept.
    await primary.query('UPDATE relay_log SET pruned_no = snapshot_no');
    await primary.query('DELETE FROM batch WHERE no <= (SELECT pruned_no FROM relay_log)');

    for (const node of nodes) await node.lose();
    const lostAt = String((await primary.query('SELECT clock_timestamp()::text AS at'))[0]?.['at']);
    for (const node of nodes) node.startAgain();
    leader = await leaderOf(nodes);
    const page = await leader.client(bob).pull();
    expect(page.epoch).toBe(epoch);
    expect(page.items).toEqual(waiting);
    expect(await pushed(leader, 1, 15)).toEqual(again);
    expect(await pushed(leader, 16, 16)).toMatchObject([{ status: 'accepted' }]);
    expect(leader.stderr).toContain('A new view was filled from the snapshot');
    // The other one fills its view too, and is stopped when it has: a node notes itself only then.
    const noted = `SELECT count(*)::int AS nodes FROM node WHERE seen_at > '${lostAt}'`;
    await expect.poll(() => primary.query(noted), { timeout: WITHIN_MS, interval: 200 }).toEqual([{ nodes: 2 }]);
    for (const node of nodes) {
      node.stop();
      expect(await node.ended()).toBe(0);
      expect((await verified(node.folder)).findings).toEqual([]);
    }
  },
  WITHIN_MS,
);
