/** Brings the names in a folder to the disk: a rename or a new file is durable only then. */
import { open } from 'node:fs/promises';

/** Makes a rename or a new file in `folder` durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
