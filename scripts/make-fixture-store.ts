/**
 * Writes the fixture of the present schema, as a backup, to test/fixtures/store-schema-<n>/store.backup:
 *
 *   npm run fixture
 *
 * Keys, times and texts are fixed (test/support/life.ts), so a run changes nothing unless what is stored did. The
 * fixture of a schema that was released is kept for good: this software must open it.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { settingsWith } from '../test/support/settings.ts';
import { epochSource } from '../test/support/epochs.ts';
import { relay } from '../test/support/hosts.ts';
import { liveALife } from '../test/support/life.ts';
import { TestClock } from '../test/support/test-clock.ts';
import { Engine } from '../src/relay/engine/engine.ts';
import { writeBackup } from '../src/relay/image/backup.ts';
import { openOffline } from '../src/relay/replay/offline.ts';
import { SCHEMA_VERSION } from '../src/relay/store/marks.ts';
import { openStore } from '../src/relay/store/open.ts';

const FIXTURES = join(import.meta.dirname, '../test/fixtures');

const folder = await mkdtemp(join(tmpdir(), 'poste-fixture-'));
try {
  const clock = new TestClock();
  const { signer } = relay;
  const { store } = await openStore({ folder, signer, nowMs: clock.nowMs, newEpoch: epochSource() });
  const engine = await Engine.start(
    {
      store,
      settings: settingsWith(),
      signer,
      monotonicMs: () => performance.now(),
      onStoreFailed: ({ cause }) => {
        throw cause;
      },
    },
    clock.nowMs,
  );
  await liveALife(engine, clock);
  await engine.close();
  await store.close();
  const offline = await openOffline(folder);
  const row = offline.store.get('relay', '');
  if (!row) throw new Error('the store has no relay row');
  const header = {
    relay_pubkey: row.relayPubkey,
    epoch: row.epoch,
    schema_version: SCHEMA_VERSION,
    lsn: offline.store.lastLsn,
    created_at: clock.nowMs,
    version: '0.1.0',
  };
  const parts: Buffer[] = [];
  for await (const part of writeBackup(offline.level, header)) parts.push(part);
  await offline.close();
  const file = join(FIXTURES, `store-schema-${SCHEMA_VERSION}`, 'store.backup');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, Buffer.concat(parts));
  console.log(`${file}: ${Buffer.concat(parts).length} bytes, ${header.lsn} log records`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
