/** Finds the program that a shell would run by its name. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';

/** An absolute path; `undefined` when there is none that may be run. Relative folders of `searchPath` are left out. */
export function findProgram(name: string, searchPath: string | undefined): string | undefined {
  if (name === '') return undefined;
  if (name.includes('/')) return isProgram(resolve(name)) ? resolve(name) : undefined;
  const folders = (searchPath ?? '').split(delimiter).filter(isAbsolute);
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
