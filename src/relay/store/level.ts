/** The LevelDB handle of the relay and its options. They shape no byte on disk and may be changed at any time. */
import { ClassicLevel } from 'classic-level';

/** The LevelDB folder inside the store folder. */
export const LEVEL_FOLDER = 'log';

export type Level = ClassicLevel<Buffer, Buffer>;
export type LevelSnapshot = ReturnType<Level['snapshot']>;

const MIB = 1 << 20;
const LEVEL_OPTIONS = {
  keyEncoding: 'buffer',
  valueEncoding: 'buffer',
  writeBufferSize: 16 * MIB,
  cacheSize: 32 * MIB,
  maxFileSize: 8 * MIB,
  maxOpenFiles: 500,
} as const;

/** The store at `folder`, not yet opened. */
export function levelAt(folder: string): Level {
  return new ClassicLevel<Buffer, Buffer>(folder, LEVEL_OPTIONS);
}
