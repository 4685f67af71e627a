import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { temporaryFolder } from './temporary-folder.ts';

/** The file of a thread with this source. */
export async function fileOfThread(source: string): Promise<URL> {
  const file = join(await temporaryFolder(), 'thread.mjs');
  await writeFile(file, source);
  return pathToFileURL(file);
}
