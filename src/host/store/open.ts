/**
 * Opens or makes the host's store. Every refusal is one sentence.
 *
 * Only the owner can read the folder. An existing store is never made anew in silence: LevelDB would open an empty one
 * if a file is lost.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { unreadableFile } from '../../lib/recovered-files.ts';
import { SCHEMA_KEY } from './tables.ts';
import { HostStore, type StoreFailed, type HostLevel, levelAt } from './host-store.ts';

export const HOST_SCHEMA_VERSION = 1;
const FOLDER_MODE = 0o700;

export type HostStoreFault = 'absent' | 'exists' | 'locked' | 'newer' | 'damaged' | 'unusable';

/** The store cannot be used; the message says why and what to do. */
export class HostStoreRefused extends Error {
  readonly fault: HostStoreFault;

  constructor(fault: HostStoreFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}

/** Makes the store of a new host. Throws `HostStoreRefused`. */
export async function createHostStore(folder: string, failed: (error: StoreFailed) => void): Promise<HostStore> {
  if (holdsStore(folder)) {
    throw new HostStoreRefused('exists', `there is a store at ${folder} already`);
  }
  try {
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
    chmodSync(folder, FOLDER_MODE);
  } catch (error) {
    throw unusable(folder, error);
  }
  const level = await openLevel(folder, true);
  await level.put(SCHEMA_KEY, Buffer.from(String(HOST_SCHEMA_VERSION)), { sync: true });
  return new HostStore(level, failed);
}

/** Opens the store of this host. Throws `HostStoreRefused`. */
export async function openHostStore(folder: string, failed: (error: StoreFailed) => void): Promise<HostStore> {
  if (!holdsStore(folder)) {
    throw new HostStoreRefused('absent', `there is no store at ${folder}: make one with poste init`);
  }
  await refuseUnreadableFiles(folder);
  const level = await openLevel(folder, false);
  try {
    checkSchema(level.getSync(SCHEMA_KEY), folder);
  } catch (error) {
    await level.close();
    throw error;
  }
  return new HostStore(level, failed);
}

/** Says whether the folder holds any file of a store. */
export function holdsStore(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).some((name) => name !== 'LOCK' && !name.startsWith('LOG'));
}

async function refuseUnreadableFiles(folder: string): Promise<void> {
  const unreadable = await unreadableFile(folder);
  if (!unreadable) return;
  const { code, name } = unreadable;
  throw new HostStoreRefused(
    'unusable',
    `the store at ${folder} cannot be used (${code} while reading ${name}): mend that and try again`,
  );
}

async function openLevel(folder: string, isNew: boolean): Promise<HostLevel> {
  const level = levelAt(folder);
  try {
    await level.open({ createIfMissing: isNew, errorIfExists: isNew });
    return level;
  } catch (error) {
    const cause = (error as { cause?: { code?: string } }).cause;
    if (cause?.code === 'LEVEL_LOCKED') {
      throw new HostStoreRefused('locked', `another process uses the store at ${folder}`, error);
    }
    if (cause?.code === 'LEVEL_CORRUPTION') {
      throw new HostStoreRefused(
        'damaged',
        `the store at ${folder} is damaged: restore a backup with poste restore`,
        error,
      );
    }
    throw unusable(folder, error);
  }
}

function checkSchema(stored: Buffer | undefined, folder: string): void {
  const version = Number(stored?.toString('utf8'));
  if (!Number.isSafeInteger(version)) {
    throw new HostStoreRefused(
      'damaged',
      `the store at ${folder} holds no schema version: restore a backup with poste restore`,
    );
  }
  if (version > HOST_SCHEMA_VERSION) {
    throw new HostStoreRefused(
      'newer',
      `the store at ${folder} has schema ${version} and this software knows ` +
        `${HOST_SCHEMA_VERSION}: use the newer software`,
    );
  }
}

function unusable(folder: string, error: unknown): HostStoreRefused {
  const { code = 'unknown' } = (error as { cause?: { code?: string } }).cause ?? (error as NodeJS.ErrnoException);
  return new HostStoreRefused(
    'unusable',
    `the store at ${folder} cannot be used (${code}): mend that and try again`,
    error,
  );
}
