/** The daemon of this user, where the command `poste` finds it. */
import { homedir } from 'node:os';
import { getuid } from 'node:process';
import { DaemonClient } from '../host/api/client.ts';
import { hostPaths, ownsFolder } from '../host/base/paths.ts';

/** By `POSTE_HOME` and the XDG variables of `environment`. Nothing is asked of the daemon yet. */
export function ownDaemon(environment: Readonly<Record<string, string | undefined>> = process.env): DaemonClient {
  const { socket, store } = hostPaths({
    environment,
    homeFolder: environment['HOME'] ?? homedir(),
    workingFolder: process.cwd(),
    userId: getuid?.(),
    owns: ownsFolder,
  });
  return new DaemonClient(socket, store);
}
