/**
 * Tests what threads of real relays read of their views: payloads of large pages, and rows that are compared with the
 * log.
 */
import { expect, test } from 'vitest';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { PREFIX, prefixRange } from '../../src/relay/store/keys.ts';
import { decodeRow, encodeRow } from '../../src/relay/store/row-codec.ts';
import { alice, bob } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { run } from '../support/poste-process.ts';
import { startPostgres } from '../support/postgres.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { EXIT } from '../support/relay-command.ts';
import { RelayNode } from '../support/relay-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';

/** The size of the wire bytes: three of these make a page that a thread encodes. */
const LARGE_BYTES = 40_000;

test('a large page is whole; a wrong row of a relay that follows is found, and begins no epoch', async (context) => {
  const { primary, end } = await startPostgres(neededProgram(context, POSTGRES));
  atTestEnd(end);
  const database = await primary.newDatabase();
  const log = `postgres://postgres@127.0.0.1:${primary.port}/${database}`;
  const folder = await temporaryFolder();
  const program = { args: ['--log', log, '--durability', 'single'] };
  const leader = await RelayNode.start(folder, 'first', program);
  await expect.poll(() => leader.leads()).toBe(true);
  const [from, to] = [leader.client(alice), leader.client(bob)];
  for (const client of [from, to]) await client.enrol();
  const items = ['one', 'two', 'three'].map((id) => itemTo([bob], id, envelopeWire(id, LARGE_BYTES)));
  const { results } = await from.push(items);
  expect(results.map(({ status }) => status)).toEqual(['accepted', 'accepted', 'accepted']);
  const { epoch, items: pulled } = await to.pull();
  expect(pulled.map(({ wire }) => wire.toString('base64'))).toEqual(items.map(({ targets }) => targets[0]?.wire_b64));
  const follower = await RelayNode.start(folder, 'second', program);
  const verify = ({ folder: storeDir } = follower) =>
    run(['relay', 'log', 'verify', '--online', '--cpu-percent', '100', '--json', '--store-dir', storeDir]);
  expect((await verify(leader)).stdout).toContain('"verified":true');
  // Before it has caught up there is nothing to check.
  await expect.poll(async () => (await verify()).stdout).toContain('"verified":true');

  follower.stop();
  await follower.ended();
  await withRawLevel(follower.folder, async (level) => {
    const [[key, value] = []] = await level.iterator(prefixRange(PREFIX.enrolment)).all();
    const row = decodeRow('enrolment', key!, value!);
    await level.put(key!, encodeRow('enrolment', key!, { ...row, enrolledAtMs: row.enrolledAtMs - 1 }));
  });
  follower.startAgain();
  await expect.poll(async () => (await verify()).stdout).toContain('"verified":false');

  const { code, stdout } = await verify();
  expect(code).toBe(EXIT.failure);
  const { findings } = JSON.parse(stdout) as { findings: { code: string; message: string }[] };
  expect(findings).toEqual([
    {
      code: 'ROW_DIFFERS',
      message: expect.stringContaining(`the enrolment row of ${displayFingerprint(alice.key)}`) as string,
    },
  ]);
  expect((await to.pull()).epoch).toBe(epoch);
  expect(follower.stderr).toContain('a row of the view is not what the log gives');
});
