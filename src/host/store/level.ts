/** The LevelDB handle of the host's store. */
import { Level } from 'level';

export type HostLevel = Level<Buffer, Buffer>;

/** The database at `folder`, not yet opened. */
export function levelAt(folder: string): HostLevel {
  return new Level<Buffer, Buffer>(folder, { keyEncoding: 'buffer', valueEncoding: 'buffer' });
}
