/** A node that follows, in a process of its own: tells its parent which batch of the log its view holds. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { joinAt } from './shared-store.ts';

const [url = ''] = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
const ends = new AbortController();
process.once('disconnect', () => ends.abort());
await joinAt({
  url,
  durability: 'single',
  folder,
  signal: ends.signal,
  // The parent may leave meanwhile.
  reached: (no) => process.connected && process.send?.(no, undefined, undefined, () => undefined),
});
await rm(folder, { recursive: true });
