/** Stores of every schema that was released, kept as backups: this software must open them. */
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { decodeRowRun, decodeWireRun } from '../../../../src/relay/store/item-run.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { isRun } from '../../../../src/relay/store/record-run.ts';
import { openBackup } from '../../../../src/relay/replay/offline.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { resultOf, verified } from '../../../support/audits.ts';
import { fixtureBackup, fixtureStore } from '../../../support/fixture-stores.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { carolAfter } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { openTestRelay } from '../../../support/test-relay.ts';
import { TestClock } from '../../../support/test-clock.ts';

const SCHEMAS = Array.from({ length: SCHEMA_VERSION }, (_none, at) => at + 1);

test.each(SCHEMAS)('there is a fixture of schema %i', (schema) => {
  expect(existsSync(fixtureBackup(schema))).toBe(true);
});

test.each(SCHEMAS)(
  'the store of schema %i opens, keeps its epoch, serves its queues and is verified',
  async (schema) => {
    const { folder, header } = await fixtureStore(schema);
    const relay = await openTestRelay({ folder, clock: new TestClock(header.created_at) });
    const migrated = `The store was brought from schema ${schema} to ${SCHEMA_VERSION}; its epoch goes on.`;
    expect(relay.notices).toEqual(schema < SCHEMA_VERSION ? [migrated] : []);
    expect(relay.engine.epoch).toBe(header.epoch);
    expect(await relay.wires(bob)).toEqual([expect.stringContaining('"item_id":"late"'), 'last for bob'].slice(1));
    expect(await relay.wires(carolAfter)).toEqual(['last for carol']);
    expect(await relay.queue(alice)).toHaveLength(2);
    await relay.close();
    expect((await verified(folder)).findings).toEqual([]);
  },
);

test('the fixture of schema 3 holds its log and its queues in runs', async () => {
  const { folder } = await fixtureStore(3);
  const runs = await withRawLevel(folder, async (level) => {
    const under = (prefix: number) => level.iterator(prefixRange(prefix)).all();
    const rows = (await under(PREFIX.queue)).map((pair) => decodeRowRun(...pair)?.rows.length);
    const wires = (await under(PREFIX.payload)).map((pair) => decodeWireRun(...pair)?.length);
    return { rows, wires, records: (await under(PREFIX.log)).filter(([, value]) => isRun(value)).length };
  });
  expect(new Set(runs.rows)).toEqual(new Set([1, 2]));
  expect(runs.wires).toEqual(runs.rows);
  expect(runs.records).toBeGreaterThan(0);
});

test.each(SCHEMAS)('the backup of schema %i is verified as it lies there', async (schema) => {
  const offline = await openBackup(fixtureBackup(schema));
  try {
    const { lsn = 0 } = offline.header ?? {};
    expect(lsn).toBeGreaterThan(30);
    expect(await resultOf(verify(offline))).toMatchObject({ findings: [], lsn, records: lsn });
  } finally {
    await offline.close();
  }
});
