/** `poste daemon`: keeps and delivers the mail of this host until a signal stops it. */
import { storeRemedy } from '../../lib/file-fault.ts';
import { Command, Option } from 'commander';
import { LOG_LEVELS, type LogLevel } from '../../host/base/config.ts';
import { type Daemon, DaemonRefused, startDaemon } from '../../host/daemon.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { StoreFailed } from '../../host/store/host-store.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { CommandContext } from '../lib/context.ts';
import { logsCommand, restartCommand, stopCommand } from './daemon-control.ts';
import { installCommand, uninstallCommand } from './daemon-service.ts';
import { CommandFailed, stopSignal } from '../lib/exit.ts';
import { hostFailure, ownConfig } from '../lib/host-paths.ts';
import { commandLog, endLog } from '../lib/log.ts';
import { announce } from '../lib/output.ts';
import { formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { softwareVersion } from '../../lib/package-root.ts';

interface DaemonFlags {
  logLevel?: LogLevel;
  json?: boolean;
}

/** How long a daemon whose store failed may take to answer its callers. */
const FAILED_STOP_MS = 3000;

const NOTES = `
The other commands and the agents talk to this process over a socket that only you can open. At SIGTERM or ctrl-c it
finishes what it has begun, and stops within 25 seconds. Settings come from flags, then the environment, then config.toml,
whose comments explain them.

Environment:
  POSTE_HOME       one folder for everything; else the XDG folders
  POSTE_LOG_LEVEL  as --log-level

Examples:
  $ poste daemon
  $ poste daemon --json --log-level warn
  $ poste daemon restart
  $ poste daemon install --dry-run`;

export function daemonCommand(context: CommandContext): Command {
  return (
    new Command('daemon')
      .addOption(new Option('--log-level <level>', 'what to log on stderr (default: info)').choices(LOG_LEVELS))
      .option(...JSON_FLAG)
      .addHelpText('after', NOTES)
      // Flags after `install` belong to install.
      .enablePositionalOptions()
      .addCommand(stopCommand(context))
      .addCommand(restartCommand(context))
      .addCommand(logsCommand(context))
      .addCommand(installCommand(context))
      .addCommand(uninstallCommand(context))
      .action(async (flags: DaemonFlags) => serve(context, flags))
  );
}

async function serve(context: CommandContext, { logLevel, json }: DaemonFlags): Promise<void> {
  // Installed before the daemon reports that it is ready: a caller may stop it at once.
  const signalled = stopSignal(context);
  const paths = ownPaths(context);
  let daemon: Daemon;
  let log: ReturnType<typeof commandLog>;
  try {
    const config = ownConfig(context, paths, logLevel === undefined ? {} : { logLevel });
    log = commandLog(context, config.logLevel);
    daemon = await startDaemon({
      paths,
      config,
      version: softwareVersion(),
      log: (level, message, facts = {}) => log[level](facts, message),
      linesLost: log.linesLost,
    });
  } catch (error) {
    throw startFailure(error);
  }
  const { hostName, signer } = daemon.identity();
  const start = {
    host: hostName,
    host_pubkey: signer.publicKey,
    fingerprint: displayFingerprint(signer.publicKey),
    socket: paths.socket,
    store: paths.store,
    config: paths.configFile,
    pid: process.pid,
  };
  announce(context, json ? jsonLine(start) : textOf(start));
  const ended = await Promise.race([daemon.failed, signalled]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'the store failed: nothing more is acknowledged');
    // The process that waits has its answer; what still holds this process does not keep it waiting.
    await Promise.race([daemon.stop().catch(() => undefined), elapsed(FAILED_STOP_MS)]);
    throw storeFailed(ended);
  }
  log.info({ signal: ended }, 'stopping');
  await daemon.stop();
  log.info({}, 'stopped');
  endLog(context);
}

function startFailure(error: unknown): unknown {
  if (error instanceof StoreFailed) return storeFailed(error);
  if (!(error instanceof DaemonRefused)) return hostFailure(error);
  const code = error.fault === 'listening' ? 'DAEMON_LISTENING' : 'SOCKET_PATH_TOO_LONG';
  return new CommandFailed(error.fault === 'listening' ? 'conflict' : 'failure', code, error.message);
}

function storeFailed({ message, cause }: StoreFailed): CommandFailed {
  return new CommandFailed('failure', 'STORE_FAILED', `${message}: ${storeRemedy(cause)}, and start the daemon again`);
}

function textOf(start: Readonly<Record<string, string | number>> & { host: string }): string {
  const fields = ['fingerprint', 'socket', 'store', 'config'].map((name) => [name, String(start[name])]);
  return `Poste ${softwareVersion()} keeps the mail of ${start.host}.\n${formatFields(fields, 12)}`;
}

function elapsed(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms).unref();
  });
}
