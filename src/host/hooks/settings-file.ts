/** A settings file of another program: read whole, changed as a whole, with a copy of what it was beside it. */
import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { copyBeside, replaceFile } from '../../system/replace-file.ts';
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
    await replaceFile(path, changed);
    return backup;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new SettingsRefused(`cannot be written (${code})`);
  }
}
