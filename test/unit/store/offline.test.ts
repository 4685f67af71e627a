import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { openBackup } from '../../../src/relay/store/offline.ts';
import { alice } from '../../support/hosts.ts';
import { anyEpoch, backUp } from '../../support/restores.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { openTestRelay } from '../../support/test-relay.ts';

test('a backup whose unpacking is interrupted leaves nothing in the folder for temporary files', async () => {
  const relay = await openTestRelay({ newEpoch: anyEpoch });
  await relay.enrolAll(alice);
  const file = join(await temporaryFolder(), 'backup');
  await backUp(relay, file);
  const scratch = await temporaryFolder();
  vi.stubEnv('TMPDIR', scratch);
  try {
    const reason = new Error('interrupted');
    await expect(openBackup(file, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(await readdir(scratch)).toEqual([]);
    const offline = await openBackup(file, new AbortController().signal);
    expect((await readdir(scratch)).length).toBeGreaterThan(0);
    await offline.close();
    expect(await readdir(scratch)).toEqual([]);
  } finally {
    vi.unstubAllEnvs();
  }
});
