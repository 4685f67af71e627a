/** The end of a command that cannot use this user's host. */
import { ConfigRefused } from '../../lib/config-file.ts';
import { HostStoreRefused, type HostStoreFault } from '../../host/store/open.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import { callFailure } from './daemon-call.ts';
import { CommandFailed, type ExitName } from './exit.ts';

const STORE_EXIT: Readonly<Record<HostStoreFault, ExitName>> = {
  absent: 'notFound',
  exists: 'conflict',
  locked: 'conflict',
  newer: 'failure',
  damaged: 'failure',
  unusable: 'failure',
};

/** The failure of the command when the host cannot be used; every other error unchanged. */
export function hostFailure(error: unknown): unknown {
  if (error instanceof HostStoreRefused) {
    return new CommandFailed(STORE_EXIT[error.fault], `STORE_${error.fault.toUpperCase()}`, error.message);
  }
  if (error instanceof ConfigRefused) return new CommandFailed('usage', 'BAD_CONFIG', error.message);
  if (error instanceof SocketUnavailable) return new CommandFailed('failure', 'SOCKET_UNAVAILABLE', error.message);
  return callFailure(error);
}
