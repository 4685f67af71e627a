/** Writes to standard output no faster than it is read. */
import { once } from 'node:events';

export async function written(text: string | Uint8Array): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}
