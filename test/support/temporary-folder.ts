/** A folder that is gone when the test is over. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTestEnd } from './test-end.ts';

/** Call it inside a test; it is removed after everything that the test registered later was cleaned up. */
export async function temporaryFolder(prefix?: string): Promise<string> {
  const { folder, remove } = await disposableFolder(prefix);
  atTestEnd(remove);
  return folder;
}

/** For tests that need many folders: the caller removes each. */
export async function disposableFolder(
  prefix = 'poste-test-',
): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), prefix));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}
