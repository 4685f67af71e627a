/** A settings file of another program: read whole, changed as a whole, with a copy of what it was beside it. */
import { copyFileSync, constants, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { syncFolder } from '../../system/sync-folder.ts';
import { SettingsRefused } from './hook-settings.ts';

export interface SettingsFile {
  /** Where it really lies: it may be a link. */
  path: string;
  /** `undefined` when there is none. */
  text: string | undefined;
  settings: unknown;
}

/** Throws `SettingsRefused`; its message completes "<path> …". */
export function readSettings(path: string): SettingsFile {
  const real = realPath(path);
  let text: string;
  try {
    text = readFileSync(real, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return { path: real, text: undefined, settings: {} };
    throw new SettingsRefused(`cannot be read (${code ?? 'unknown error'})`);
  }
  if (text.trim() === '') return { path: real, text, settings: {} };
  try {
    return { path: real, text, settings: JSON.parse(text) as unknown };
  } catch {
    throw new SettingsRefused('is no JSON');
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** What is to be written: `undefined` when it says the same already. */
export function changedText({ text, settings }: SettingsFile, changed: unknown): string | undefined {
  if (text !== undefined && isDeepStrictEqual(settings, changed)) return undefined;
  // As it was indented before.
  const indent = /^[[{]\s*?\n([ \t]+)/.exec(text ?? '')?.[1] ?? '  ';
  return `${JSON.stringify(changed, null, indent)}\n`;
}

/** Returns the path of the copy of what was there, or null. Throws `SettingsRefused`. */
export async function writeSettings(
  { path, text }: SettingsFile,
  changed: string,
  nowMs: number,
): Promise<string | null> {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const backup = text === undefined ? null : copyBeside(path, nowMs);
    await replace(path, changed);
    return backup;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new SettingsRefused(`cannot be written (${code})`);
  }
}

function copyBeside(path: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  for (let number = 1; ; number++) {
    const copy = `${path}.before-poste-${stamp}${number === 1 ? '' : `-${number}`}`;
    try {
      copyFileSync(path, copy, constants.COPYFILE_EXCL);
      return copy;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** All of it or nothing, also in a crash. */
async function replace(path: string, text: string): Promise<void> {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0o600;
  const beside = `${path}.poste-${process.pid}`;
  try {
    const file = await open(beside, 'w', mode & 0o777);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}
