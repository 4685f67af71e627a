/** The LevelDB handle of the relay and its options. They shape no byte on disk and may be changed at any time. */
import { mkdir } from 'node:fs/promises';
import { ClassicLevel } from 'classic-level';

/** The LevelDB folder inside the store folder. */
export const LEVEL_FOLDER = 'log';

export type Level = ClassicLevel<Buffer, Buffer>;
export type LevelSnapshot = ReturnType<Level['snapshot']>;

const MIB = 1 << 20;
const LEVEL_OPTIONS = {
  keyEncoding: 'buffer',
  valueEncoding: 'buffer',
  // There may be two of them; a full one is written and synced as one table, which a sync of the log waits for, and a
  // file as long is deleted under LevelDB's lock. A smaller one is compacted more often (bench/README.md).
  writeBufferSize: 8 * MIB,
  cacheSize: 16 * MIB,
  // An open file is mapped, and what was read of it counts as memory of the relay. LevelDB takes no fewer than these.
  maxFileSize: 4 * MIB,
  maxOpenFiles: 74,
} as const;

/** Makes the folder of a new database, for its owner alone: LevelDB itself would let everybody read it. */
export async function makeLevelFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

export interface LevelSharing {
  /** Says whether threads of this process may open it together: the first that opens it is the last to close it. */
  isShared?: boolean;
}

/** The store at `folder`, not yet opened. To be opened at once: one that is not opens itself, with other options. */
export function levelAt(folder: string, { isShared = false }: LevelSharing = {}): Level {
  return new ClassicLevel<Buffer, Buffer>(folder, { ...LEVEL_OPTIONS, multithreading: isShared });
}

/** Reads that take a snapshot, by how many arguments come before their options. */
const READS: Readonly<Record<string, number>> = { iterator: 0, keys: 0, values: 0, get: 1, getMany: 1, getSync: 1 };

/** `level` as it is now, whatever is written afterwards: for reading alone, until `level` is closed. */
export function atThisMoment(level: Level): Level {
  const snapshot = level.snapshot();
  return new Proxy(level, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      const before = typeof name === 'string' ? READS[name] : undefined;
      if (before === undefined) return member.bind(target) as unknown;
      return (...given: unknown[]) => {
        const options = { ...(given[before] as object | undefined), snapshot };
        return (member as (...all: unknown[]) => unknown).apply(target, [...given.slice(0, before), options]);
      };
    },
  });
}

/** Makes what LevelDB can of a damaged database: only ever of a copy that is thrown away. */
export async function repairLevel(folder: string): Promise<void> {
  await ClassicLevel.repair(folder);
}
