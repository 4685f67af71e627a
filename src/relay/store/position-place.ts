/**
 * Finds the position of a store (position.ts). Every command that opens, checks or replaces the store looks for it:
 *
 *   1. in the file that a flag or the config names;
 *   2. else in the file that `position-place` in the store folder names, while the folder of that file is there;
 *   3. else in `position` in the store folder.
 *
 * A relay without a named file chooses one outside the store folder at its start, so that an older copy of the
 * folder brings no older position along. The pointer says which folder it was written for: in a copy elsewhere it
 * counts for nothing, and two stores never share a position.
 *
 * Invariant: a position is on the disk in its new place before the pointer names that, and leaves the old one after.
 * DO NOT CHANGE the name of the pointer or its members.
 */
import Type from 'typebox';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, statSync, statfsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { makeFolders, replaceFile, syncFolder } from '../../lib/files.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { readPosition } from './position.ts';

/** The position slots inside the store folder. */
export const POSITION_FILE = 'position';
const POINTER = 'position-place';

const Pointer = Type.Object({
  /** The store folder that it lies in, without symbolic links. */
  store: Type.String({ minLength: 1 }),
  position: Type.String({ minLength: 1 }),
});

const parsePointer = parserOf(Pointer);

export interface PositionPlace {
  /** The file that a flag or the config names. */
  positionFile?: string | undefined;
  /** The folder in which a start may choose a file; absent: none is chosen. */
  positionHome?: string | undefined;
}

/** The file that the position of the store in `folder` stands in, or will. */
export function positionPathOf(folder: string, named: string | undefined): string {
  return named ?? pointedFrom(folder) ?? join(folder, POSITION_FILE);
}

function pointedFrom(folder: string): string | undefined {
  try {
    const { store, position } = parsePointer(JSON.parse(readFileSync(join(folder, POINTER), 'utf8'))) ?? {};
    return position !== undefined && store === realpathSync(folder) && existsSync(dirname(position))
      ? position
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * As `positionPathOf`, at an opening of the store: chooses a file, and carries over a position that stands in the store
 * folder, unless the other is as new. The caller holds the lock of the store. Where no file can be chosen, the position
 * stays where it is.
 */
export async function settlePosition(folder: string, place: PositionPlace): Promise<string> {
  const { positionFile, positionHome } = place;
  const inFolder = join(folder, POSITION_FILE);
  const isOpen = positionFile === undefined && positionPathOf(folder, undefined) === inFolder;
  if (isOpen && positionHome !== undefined) await chooseFile(folder, inFolder, positionHome);
  const path = positionPathOf(folder, positionFile);
  if (positionFile === undefined && path !== inFolder && existsSync(inFolder)) {
    // An older version noted more there, or a start that did not find the folder of the other.
    const [there, here] = [await readPosition(inFolder), await readPosition(path)];
    if (there && there.lsn > (here?.lsn ?? 0)) await replaceFile(path, await readFile(inFolder));
    await rm(inFolder);
    await syncFolder(folder);
  }
  return path;
}

async function chooseFile(folder: string, inFolder: string, home: string): Promise<void> {
  try {
    await makeFolders(home);
    if (!outlives(home, folder)) return;
    const position = join(home, `relay-position-${randomUUID()}`);
    if (existsSync(inFolder)) await replaceFile(position, await readFile(inFolder));
    await syncFolder(dirname(home));
    await replaceFile(join(folder, POINTER), `${JSON.stringify({ store: realpathSync(folder), position })}\n`);
  } catch (error) {
    if (typeof (error as NodeJS.ErrnoException).errno !== 'number') throw error;
  }
}

/** File systems that go with the machine's memory or with a container: those of tmpfs, ramfs and overlayfs. */
const PASSING: ReadonlySet<number> = new Set([0x01021994, 0x858458f6, 0x794c7630]);

/** Whether `home` lies beyond the store folder, and is there for as long as that. */
function outlives(home: string, folder: string): boolean {
  if (`${realpathSync(home)}${sep}`.startsWith(`${realpathSync(folder)}${sep}`)) return false;
  return statSync(home).dev === statSync(folder).dev || !PASSING.has(statfsSync(home).type);
}
