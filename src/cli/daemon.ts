/** `poste daemon`: keeps the mail of this host until it is told to stop. */
import { Command, Option } from 'commander';
import pino from 'pino';
import { LOG_LEVELS, type LogLevel } from '../host/config.ts';
import { type Daemon, DaemonRefused, startDaemon } from '../host/daemon.ts';
import { StoreFailed } from '../host/store/host-store.ts';
import { displayFingerprint } from '../protocol/public-key.ts';
import { installCommand, uninstallCommand } from './daemon-unit.ts';
import { CommandFailed } from './exit.ts';
import { hostFailure, ownConfig, ownPaths } from './host-place.ts';
import { stopSignal } from './stop-signal.ts';
import { jsonLine } from './text.ts';
import { softwareVersion } from './version.ts';

interface DaemonFlags {
  logLevel?: LogLevel;
  json?: boolean;
}

/** How long the answers of a failing daemon may take. */
const FAILED_STOP_MS = 3000;

const NOTES = `
Everything else that poste does for agents asks this process, over a socket that only you may open. It stops at SIGTERM
or ctrl-c when what was begun is done, within 25 seconds. Settings come from flags, then the environment, then
config.toml, whose comments explain them.

Environment:
  POSTE_HOME       one folder for everything; else the XDG folders
  POSTE_LOG_LEVEL  as --log-level

Examples:
  $ poste daemon
  $ poste daemon --json --log-level warn
  $ poste daemon install --dry-run`;

export function daemonCommand(): Command {
  return (
    new Command('daemon')
      .description('Keep the mail of this host, and carry it.')
      .addOption(new Option('--log-level <level>', 'what to log on stderr (default: info)').choices(LOG_LEVELS))
      .option('--json', 'print the start as one JSON document')
      .addHelpText('after', NOTES)
      // What stands behind install is a flag of install.
      .enablePositionalOptions()
      .addCommand(installCommand())
      .addCommand(uninstallCommand())
      .action(async (flags: DaemonFlags) => serve(flags))
  );
}

async function serve({ logLevel, json }: DaemonFlags): Promise<void> {
  // Before anybody can know that the daemon is ready, and end it.
  const signalled = stopSignal();
  const paths = ownPaths();
  let daemon: Daemon;
  let log: pino.Logger;
  try {
    const config = ownConfig(paths, logLevel === undefined ? {} : { logLevel });
    log = pino({ level: config.logLevel, base: null }, pino.destination({ dest: 2, sync: true }));
    daemon = await startDaemon({
      paths,
      config,
      version: softwareVersion(),
      log: (level, message, facts = {}) => log[level](facts, message),
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
  process.stdout.write(json ? jsonLine(start) : textOf(start));
  const ended = await Promise.race([daemon.failed, signalled]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'the store failed: nothing more is acknowledged');
    // Whoever waits is told; whatever still holds the process afterwards does not.
    await Promise.race([daemon.stop().catch(() => undefined), elapsed(FAILED_STOP_MS)]);
    throw storeFailed(ended);
  }
  log.info({ signal: ended }, 'stopping');
  await daemon.stop();
  log.info({}, 'stopped');
}

function startFailure(error: unknown): unknown {
  if (error instanceof StoreFailed) return storeFailed(error);
  if (!(error instanceof DaemonRefused)) return hostFailure(error);
  const code = error.fault === 'listening' ? 'DAEMON_LISTENING' : 'SOCKET_PATH_TOO_LONG';
  return new CommandFailed(error.fault === 'listening' ? 'conflict' : 'failure', code, error.message);
}

function storeFailed({ message }: StoreFailed): CommandFailed {
  return new CommandFailed(
    'failure',
    'STORE_FAILED',
    `${message}; free disk space or replace the disk, then start the daemon again`,
  );
}

function textOf(start: Readonly<Record<string, string | number>> & { host: string }): string {
  const lines = ['fingerprint', 'socket', 'store', 'config'].map((name) => `  ${name.padEnd(12)} ${start[name]}\n`);
  return `Poste ${softwareVersion()} keeps the mail of ${start.host}.\n${lines.join('')}`;
}

function elapsed(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms).unref();
  });
}
