/** The daemon of this user, where the command `poste` finds it. */
import { DaemonClient } from '../host/api/client.ts';
import { ownPaths } from '../host/base/paths.ts';
import type { Environment } from '../lib/user-folders.ts';

/** Finds it by `POSTE_HOME`, `HOME` and the XDG variables of `environment`. Asks it nothing yet. */
export function ownDaemon(environment: Environment = process.env): DaemonClient {
  const { socket, store } = ownPaths({ env: environment });
  return new DaemonClient(socket, store);
}
