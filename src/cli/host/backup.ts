/** `poste backup <file>`: writes everything this host holds into one file, whether its daemon runs or not. */
import { Command } from 'commander';
import { CallFailed, DaemonClient } from '../../host/api/client.ts';
import { loadIdentity } from '../../host/peers/identity.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { HOST_BACKUP, type WrittenHostBackup, writeHostBackup } from '../../host/store/backup.ts';
import { openHostStore } from '../../host/store/open.ts';
import { finishRestore } from '../../host/store/restored.ts';
import { backupPath, writeImageTo } from '../lib/backup-output.ts';
import type { CommandContext } from '../lib/context.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { atWork } from '../lib/output.ts';
import { formatBytes, formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { softwareVersion } from '../../lib/package-root.ts';

interface BackupFlags {
  force?: boolean;
  json?: boolean;
}

const NOTES = `
You need not stop the daemon: the backup holds everything that was stored up to one moment. Poste writes it beside <file>,
checks it while it writes, and renames it when it is complete and on disk. Only you can read it. It holds the private keys
of this host and every message in plain text: protect it as you protect a key.

Examples:
  $ poste backup poste.backup
  $ poste backup /backups/poste-$(date +%F).backup
  $ poste backup - | gpg --encrypt --recipient me > poste.backup.gpg`;

export function backupCommand(context: CommandContext): Command {
  return new Command('backup')
    .argument('<file>', 'the file to write; - for standard output')
    .option('--force', 'replace an existing file')
    .option(...JSON_FLAG)
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: BackupFlags) => backup(context, file, flags));
}

async function backup(context: CommandContext, file: string, flags: BackupFlags): Promise<void> {
  const path = backupPath(context, file);
  const output = path === null ? context.stderr : context.stdout;
  try {
    const made = await atWork(context, (work) => {
      const to = { path, force: flags.force, work };
      return writeImageTo(context, chunksOf(context, work.signal), HOST_BACKUP, to);
    });
    output.write(flags.json ? jsonLine(documentOf(made, path)) : textOf(screenOf(context, output), made, path));
  } catch (error) {
    throw hostFailure(error);
  }
}

/** From the daemon if it runs, or else from its store. */
async function* chunksOf(context: CommandContext, signal: AbortSignal): AsyncGenerator<Buffer> {
  const paths = ownPaths(context);
  let isRunning = false;
  if (daemonSocketFault(paths) === undefined) {
    try {
      for await (const chunk of new DaemonClient(paths.socket, paths.store).backup(signal)) {
        isRunning = true;
        yield chunk;
      }
      return;
    } catch (error) {
      // A process that runs but does not answer holds the lock of the store.
      if (isRunning || !(error instanceof CallFailed) || error.code !== 'DAEMON_NOT_RUNNING') throw error;
    }
  }
  await finishRestore(paths.store);
  const store = await openHostStore(paths.store, () => undefined);
  try {
    const { hostName: host, signer } = await loadIdentity(store);
    const stamp = { host, host_pubkey: signer.publicKey, created_at: Date.now(), version: softwareVersion() };
    for await (const chunk of writeHostBackup(store, stamp)) {
      signal.throwIfAborted();
      yield chunk;
    }
  } finally {
    await store.close();
  }
}

function documentOf({ header, bytes, contentBytes, messages, sha256 }: WrittenHostBackup, path: string | null): object {
  const { host, host_pubkey, created_at } = header;
  return { file: path, bytes, content_bytes: contentBytes, messages, sha256, created_at, host, host_pubkey };
}

function textOf(screen: Screen, { header, bytes, messages, sha256 }: WrittenHostBackup, path: string | null): string {
  const rows = [
    ['file', path ?? 'standard output'],
    ['size', formatBytes(bytes)],
    ['host', header.host],
    ['taken', formatMoment(screen, header.created_at)],
    ['messages', String(messages)],
    ['sha256', sha256],
  ];
  return `The backup is complete.\n${formatFields(rows, 8)}`;
}
