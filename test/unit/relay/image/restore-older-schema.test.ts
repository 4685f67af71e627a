/** A restore of a backup of an older schema, and one over a store of an older schema. */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import { SCHEMA_KEY } from '../../../../src/relay/store/keys.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { MIGRATIONS, type Migration } from '../../../../src/relay/store/migrate.ts';
import { openStore } from '../../../../src/relay/store/open.ts';
import { verified } from '../../../support/audits.ts';
import { epochSource } from '../../../support/epochs.ts';
import { fixtureBackup, fixtureStore } from '../../../support/fixture-stores.ts';
import { bob, relay as relayHost } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { TestClock } from '../../../support/test-clock.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

const OLD = fixtureBackup(1);

describe('a restore of a backup of schema 1', () => {
  test('gives a store of this schema, whose rows are those of its log', async () => {
    const folder = await temporaryFolder();
    const { header } = await fixtureStore(1);
    const report = await restored(OLD, folder, header.created_at);
    expect(report).toMatchObject({ backup: { schema_version: 1 }, unreadable: 0, replaced: null });
    const relay = await openTestRelay({ folder, clock: new TestClock(header.created_at), newEpoch: anyEpoch });
    expect(relay.notices).toEqual([]);
    expect(relay.store.get('relay', rowKey.relay)).toMatchObject({ schemaVersion: SCHEMA_VERSION });
    expect(relay.engine.head(bob.key).queueItems).toBeGreaterThan(0);
    await relay.close();
    expect((await verified(folder)).findings).toEqual([]);
  });

  test('is refused by software that knows no later schema once it was taken', async () => {
    const folder = await temporaryFolder();
    await restored(OLD, folder, 0);
    await expect(withRawLevel(folder, (level) => level.get(SCHEMA_KEY))).resolves.toEqual(
      Buffer.from([0, 0, 0, SCHEMA_VERSION]),
    );
  });
});

describe('a store of schema 1 that a restore replaces', () => {
  const cutShort: Migration = {
    from: 1,
    async *batches(level) {
      for await (const batch of (MIGRATIONS[0] as Migration).batches(level)) {
        yield batch;
        throw new Error('the lights went out');
      }
    },
  };

  async function interrupt(folder: string, nowMs: number): Promise<void> {
    const schema = { version: 2, migrations: [cutShort] };
    const opening = openStore({ folder, signer: relayHost.signer, nowMs, newEpoch: epochSource(), schema });
    await expect(opening).rejects.toThrow('the lights went out');
  }

  test.each([
    ['as it was', () => Promise.resolve()],
    ['with a migration that was cut short', interrupt],
  ])('is read whole, %s', async (_how, prepare) => {
    const { folder, header } = await fixtureStore(1);
    const { created_at: nowMs } = header;
    await prepare(folder, nowMs);
    const before = await withRawLevel(folder, (level) => level.iterator().all());
    const report = await restored(OLD, folder, nowMs);
    expect(report).toMatchObject({
      unreadable: 0,
      replaced: { epoch: header.epoch, lsn: header.lsn, continuesBackup: true },
    });
    // What gave way is kept as it was.
    const aside = await temporaryFolder();
    await rename(report.keptAside ?? '', join(aside, 'log'));
    expect(await withRawLevel(aside, (level) => level.iterator().all())).toEqual(before);
    expect((await verified(folder)).findings).toEqual([]);
  });

  test('keeps out whom it kept out', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [bob] });
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    await relay.close();
    const { folder, header } = await fixtureStore(1);
    const report = await restored(file, folder, header.created_at);
    expect(report.unreadable).toBe(0);
    expect(report.carried.revoked).toBeGreaterThan(0);
  });
});
