/** The folders of the user that this process runs as. Each is asked for when it is needed, and never at an import. */
import { isAbsolute, join } from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Nothing says which folder is the user's home. Its message has the remedy, and its code names the failure. */
export class HomeUnknown extends Error {
  readonly code = 'HOME_UNKNOWN';
}

/** An absolute HOME, else what the system has of this user. Throws `HomeUnknown`. */
export function homeFolder(environment: Environment): string {
  const home = absolute(environment['HOME']) ?? absolute(userEntry()?.homedir);
  if (home !== undefined) return home;
  const user = process.getuid === undefined ? 'this user' : `the user with id ${process.getuid()}`;
  throw new HomeUnknown(
    `HOME is no absolute path, and the system knows no home folder of ${user}: set HOME to a folder of yours`,
  );
}

/** The folder that a variable of the XDG Base Directory Specification names; it says to ignore a relative path. */
export function xdgFolder(
  environment: Environment,
  variable: 'XDG_CONFIG_HOME' | 'XDG_DATA_HOME' | 'XDG_STATE_HOME' | 'XDG_RUNTIME_DIR',
): string | undefined {
  return absolute(environment[variable]);
}

/** Returns where programs keep their settings, by the same specification. Throws `HomeUnknown`. */
export function configFolder(environment: Environment): string {
  return xdgFolder(environment, 'XDG_CONFIG_HOME') ?? join(homeFolder(environment), '.config');
}

/** Returns what the system has of this user; `undefined` where it does not know the user, as in some containers. */
export function userEntry(): { username: string; homedir: string } | undefined {
  try {
    // Hooks load this file, and an import of `node:os` would cost each of them.
    return process.getBuiltinModule('node:os').userInfo();
  } catch {
    return undefined;
  }
}

function absolute(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) ? path : undefined;
}
