/** Stores of every schema that was released, kept as backups: this software must open them. */
import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PositionFile } from '../../../src/relay/store/position.ts';
import { POSITION_FILE } from '../../../src/relay/store/open.ts';
import { openBackup, unpackBackup } from '../../../src/relay/store/offline.ts';
import { verify } from '../../../src/relay/audit/verify.ts';
import { logKey } from '../../../src/relay/store/keys.ts';
import { hash } from 'node:crypto';
import { resultOf, verified } from '../../support/audits.ts';
import { alice, bob } from '../../support/hosts.ts';
import { carolAfter } from '../../support/life.ts';
import { openTestRelay } from '../../support/test-relay.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { TestClock } from '../../support/test-clock.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures');

test('there is a fixture of schema 1', async () => {
  expect(await readdir(FIXTURES)).toContain('store-schema-1');
});

test('the store of schema 1 opens, keeps its epoch, serves its queues and is verified', async () => {
  const file = join(FIXTURES, 'store-schema-1', 'store.backup');
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'unpacked'));
  const { level, header } = await unpackBackup(file, join(folder, 'unpacked', 'log'));
  const record = (await level.get(logKey(header.lsn))) ?? Buffer.of();
  await level.close();
  await rename(join(folder, 'unpacked', 'log'), join(folder, 'log'));
  const { file: position } = await PositionFile.open(join(folder, POSITION_FILE));
  const recordHash = hash('sha256', record, 'buffer');
  await position.write({ lsn: header.lsn, recordHash, epoch: header.epoch as never });
  await position.close();

  const relay = await openTestRelay({ folder, clock: new TestClock(header.created_at) });
  expect(relay.notices).toEqual([]);
  expect(relay.engine.epoch).toBe(header.epoch);
  expect(await relay.wires(bob)).toEqual([expect.stringContaining('"item_id":"late"'), 'last for bob'].slice(1));
  expect(await relay.wires(carolAfter)).toEqual(['last for carol']);
  expect(await relay.queue(alice)).toHaveLength(2);
  await relay.close();
  expect((await verified(folder)).findings).toEqual([]);
});

test('the backup of schema 1 is verified as it lies there', async () => {
  const offline = await openBackup(join(FIXTURES, 'store-schema-1', 'store.backup'));
  try {
    expect(await resultOf(verify(offline))).toMatchObject({ findings: [], lsn: 38, records: 38 });
  } finally {
    await offline.close();
  }
});
