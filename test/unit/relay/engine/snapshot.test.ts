/** Backups of a running engine: what they hold is what was durable, and nothing of a batch that is not. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openBackup } from '../../../../src/relay/replay/offline.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { backUp } from '../../../support/restores.ts';
import { settled } from '../../../support/settled.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { backupOf } from '../../../../src/relay/image/backup.ts';

test('a snapshot waits for the batch in flight, and holds that and not the next', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  const gate = AppendGate.closed(relay.store);
  const first = relay.pushOne(pushOf(alice, 'm1', [[bob, '1']]));
  await gate.arrived(1);
  const second = relay.pushOne(pushOf(alice, 'm2', [[bob, '2']]));
  const snapshot = relay.engine.snapshot();
  expect(await settled({ snapshot })).toEqual([]);
  gate.open();
  await Promise.all([first, second]);
  const taken = await snapshot;
  const chunks = [];
  for await (const chunk of backupOf(taken, { created_at: 1, version: '0' })) chunks.push(chunk);
  await taken.close();
  const file = join(await temporaryFolder(), 'backup');
  await writeFile(file, Buffer.concat(chunks));
  const backup = await openBackup(file);
  expect(backup.store.get('target', bob.key)?.queueItems).toBe(1);
  expect(backup.header?.lsn).toBe(backup.store.lastLsn);
  await backup.close();
});

test('a snapshot of an engine whose store failed is refused, also when it waited', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  const gate = AppendGate.closed(relay.store);
  const push = relay.pushOne(pushOf(alice, 'm1', [[bob, '1']])).catch((error: unknown) => error);
  await gate.arrived(1);
  const snapshot = relay.engine.snapshot();
  gate.failOne(new Error('no space'));
  await expect(snapshot).rejects.toThrow('the store failed');
  await push;
  await expect(relay.engine.snapshot()).rejects.toThrow('the store failed');
});

test('a backup under load holds every item answered before it began, and its rows are those of its log', async () => {
  const relay = await openTestRelay({ limits: { max_sender_items: 10_000 }, hosts: [alice, bob] });
  const answered: string[] = [];
  const load = { isOver: false };
  const ended = (async () => {
    for (let at = 0; !load.isOver; at++) {
      const ids = Array.from({ length: 5 }, (_none, n) => `m${at}-${n}`);
      await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, id]])));
      answered.push(...ids);
    }
  })();
  const folder = await temporaryFolder();
  for (let round = 0; round < 5; round++) {
    const before = [...answered];
    const file = join(folder, `backup-${round}`);
    const written = await backUp(relay, file);
    const backup = await openBackup(file);
    const rows = await backup.store.queueRows(bob.key, 0, Number.MAX_SAFE_INTEGER, 100_000);
    const held = new Set(rows.map(({ itemId }) => itemId as string));
    expect(before.filter((id) => !held.has(id))).toEqual([]);
    expect(written.items).toBe(held.size);
    await expectReplayed(backup.store);
    await backup.close();
  }
  load.isOver = true;
  await ended;
});
