/** Finds the folder of this package, both from `src` and from the bundle in `dist`. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder that holds package.json. Throws when there is none above this file, which no installation allows. */
export function packageRoot(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    const above = dirname(folder);
    if (above === folder) throw new Error(`no package.json above ${import.meta.dirname}`);
    folder = above;
  }
  return folder;
}

/** The version in package.json. */
export function softwareVersion(): string {
  const text = readFileSync(join(packageRoot(), 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
