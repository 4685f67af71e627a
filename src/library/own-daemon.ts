/** The daemon of this user, where the command `poste` finds it. */
import { DaemonClient } from '../host/api/client.ts';
import { ownPaths } from '../host/base/paths.ts';
import type { Environment } from '../lib/user-folders.ts';

/** By `POSTE_HOME`, `HOME` and the XDG variables of `environment`. Nothing is asked of the daemon yet. */
export function ownDaemon(environment: Environment = process.env): DaemonClient {
  const { socket, store } = ownPaths({ env: environment });
  return new DaemonClient(socket, store);
}
