/**
 * Programs outside Node that tests need: where one is found, and what happens to the tests where it is not there.
 *
 * A program is what its environment variable names, or the first of its names on PATH, or in the usual places of Linux
 * and macOS. Without it the tests that need it are skipped, and the end of the run says so (support/run-notes.ts).
 * With CI=true they fail: nothing may go untested there without anybody seeing it.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import type { TestContext } from 'vitest';
import { found } from './found.ts';

export interface Program {
  /** Its users call it this. */
  title: string;
  /** The environment variable that names its file. */
  variable: string;
  /** The names that its file may have, the likeliest first. */
  names: readonly string[];
  /** Files where it is when it is not on PATH. */
  places: readonly string[];
  /** The command that installs it, for the line at the end of a run. */
  install: string;
}

/** The folders in which macOS keeps what is opened with a mouse. */
const APPLICATIONS = ['/Applications', join(homedir(), 'Applications')];

export const CHROMIUM: Program = {
  title: 'Chromium',
  variable: 'POSTE_CHROMIUM',
  names: ['chromium', 'google-chrome-stable', 'google-chrome', 'chromium-browser', 'chrome'],
  places: [
    '/snap/bin/chromium',
    '/opt/google/chrome/chrome',
    ...APPLICATIONS.flatMap((folder) => [
      join(folder, 'Chromium.app/Contents/MacOS/Chromium'),
      join(folder, 'Google Chrome.app/Contents/MacOS/Google Chrome'),
    ]),
  ],
  install: 'apt-get install chromium, or brew install --cask google-chrome',
};

export const TMUX: Program = {
  title: 'tmux',
  variable: 'POSTE_TMUX',
  names: ['tmux'],
  places: [],
  install: 'apt-get install tmux, or brew install tmux',
};

/** The versions of PostgreSQL that tests run with, the newest first. */
const POSTGRES_VERSIONS = [18, 17, 16, 15, 14];

export const POSTGRES: Program = {
  title: 'PostgreSQL',
  variable: 'POSTE_POSTGRES',
  names: ['postgres'],
  places: [
    ...POSTGRES_VERSIONS.flatMap((version) => [
      `/usr/lib/postgresql/${version}/bin/postgres`,
      `/usr/pgsql-${version}/bin/postgres`,
      `/opt/homebrew/opt/postgresql@${version}/bin/postgres`,
      `/usr/local/opt/postgresql@${version}/bin/postgres`,
    ]),
    ...APPLICATIONS.map((folder) => join(folder, 'Postgres.app/Contents/Versions/latest/bin/postgres')),
  ],
  install: 'apt-get install postgresql, or brew install postgresql',
};

export const CADDY: Program = {
  title: 'Caddy',
  variable: 'POSTE_CADDY',
  names: ['caddy'],
  places: [],
  install: 'apt-get install caddy, or brew install caddy',
};

export const BASH: Program = {
  title: 'bash',
  variable: 'POSTE_BASH',
  names: ['bash'],
  places: [],
  install: 'apt-get install bash, or apk add bash',
};

export const ZSH: Program = {
  title: 'zsh',
  variable: 'POSTE_ZSH',
  names: ['zsh'],
  places: [],
  install: 'apt-get install zsh, or brew install zsh',
};

export const FISH: Program = {
  title: 'fish',
  variable: 'POSTE_FISH',
  names: ['fish'],
  places: [],
  install: 'apt-get install fish, or brew install fish',
};

export const GROFF: Program = {
  title: 'groff',
  variable: 'POSTE_GROFF',
  names: ['groff'],
  places: [],
  install: 'apt-get install groff, or brew install groff',
};

export const STRACE: Program = {
  title: 'strace',
  variable: 'POSTE_STRACE',
  names: ['strace'],
  places: [],
  install: 'apt-get install strace, on Linux',
};

/** Folders of programs that PATH may leave out. */
const FOLDERS = ['/usr/local/bin', '/opt/homebrew/bin', '/opt/local/bin', '/usr/bin', '/bin'];

/** A skipped test notes this, so that the end of the run can say it; the program and how to get it follow. */
export const NEEDS = 'needs ';

/**
 * The file of `program`, or undefined.
 *
 * @throws When its environment variable names no file that can be run: that is a mistake, not an absent program.
 */
export function findProgram(
  { title, variable, names, places }: Program,
  environment: NodeJS.ProcessEnv = process.env,
): string | undefined {
  const named = environment[variable];
  if (named !== undefined && named !== '') {
    if (isProgram(named)) return named;
    throw new Error(`${variable} names ${named}, which is no program that can be run; it should be ${title}`);
  }
  const path = (environment['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder));
  const folders = [...path, ...FOLDERS];
  return [...folders.flatMap((folder) => names.map((name) => join(folder, name))), ...places].find(isProgram);
}

/** The file of `program` for one test, which is skipped without it, and fails with CI=true. */
export function neededProgram(
  { skip }: Pick<TestContext, 'skip'>,
  program: Program,
  environment: NodeJS.ProcessEnv = process.env,
): string {
  const found = findProgram(program, environment);
  if (found !== undefined) return found;
  const need = `${NEEDS}${program.title} (${program.install}, or ${program.variable}=<its file>)`;
  if (environment['CI'] === 'true') throw new Error(`With CI=true nothing is skipped, and this test ${need}.`);
  return skip(need);
}

/** A utility that every POSIX system has, though not in the same folder. */
export function posixUtility(name: 'true' | 'false' | 'sleep'): string {
  return found(['/bin', '/usr/bin'].map((folder) => join(folder, name)).find(isProgram), `this system has no ${name}`);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
