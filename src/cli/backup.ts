/** `poste backup <file>`: everything this host holds as one file, whether its daemon runs or not. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import { CallFailed, DaemonClient } from '../host/local/client.ts';
import { loadIdentity } from '../host/office/identity.ts';
import { daemonSocketFault } from '../host/paths.ts';
import {
  type WrittenHostBackup,
  checkedHostBackup,
  writeHostBackup,
  writeHostBackupFile,
} from '../host/store/backup.ts';
import { openHostStore } from '../host/store/open.ts';
import { finishRestore } from '../host/store/restored.ts';
import { unwrittenFailure } from './backup-written.ts';
import { CommandFailed } from './exit.ts';
import { hostFailure, ownPaths } from './host-place.ts';
import { interruption } from './interruption.ts';
import { passed } from './stdout.ts';
import { bytesText, jsonLine, timeText } from './text.ts';
import { softwareVersion } from './version.ts';

interface BackupFlags {
  force?: boolean;
  json?: boolean;
}

/** As a file name it means standard output. */
const STDOUT = '-';

const NOTES = `
A running daemon goes on meanwhile: the backup shows one moment, and holds everything that was stored before it. It is
written beside <file> first, checked as it comes, and takes its name when it is whole and on disk, for you alone. It
holds the private keys of this host and every message as it can be read: keep it as you keep a key.

Examples:
  $ poste backup poste.backup
  $ poste backup /backups/poste-$(date +%F).backup
  $ poste backup - | gpg --encrypt --recipient me > poste.backup.gpg`;

export function backupCommand(): Command {
  return new Command('backup')
    .description('Write everything this host holds into one file.')
    .argument('<file>', 'the file to write; - writes to standard output')
    .option('--force', 'replace a file that is there')
    .option('--json', 'print what was written as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: BackupFlags) => backup(file, flags));
}

async function backup(file: string, flags: BackupFlags): Promise<void> {
  if (file === STDOUT && process.stdout.isTTY) {
    throw new CommandFailed('usage', 'USAGE', 'a backup is not for a terminal: name a file, or send it on by a pipe');
  }
  const interrupted = interruption();
  try {
    const path = file === STDOUT ? null : resolve(file);
    const source = chunksOf(interrupted.signal);
    const made =
      path === null
        ? await checkedHostBackup(passedOn(source, interrupted.signal))
        : await writeHostBackupFile(source, { path, replaces: flags.force === true });
    const output = path === null ? process.stderr : process.stdout;
    output.write(flags.json ? jsonLine(documentOf(made, path)) : textOf(made, path));
  } catch (error) {
    throw interrupted.failure() ?? hostFailure(unwrittenFailure(error));
  }
}

/** From the daemon while it runs, or from its store while it does not. */
async function* chunksOf(signal: AbortSignal): AsyncGenerator<Buffer> {
  const paths = ownPaths();
  let isRunning = false;
  if (daemonSocketFault(paths) === undefined) {
    try {
      for await (const chunk of new DaemonClient(paths.socket, paths.store).backup(signal)) {
        isRunning = true;
        yield chunk;
      }
      return;
    } catch (error) {
      // One that runs all the same holds its lock.
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

async function* passedOn(chunks: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    await passed(chunk, 'the backup', signal);
    yield chunk;
  }
}

function documentOf({ header, bytes, contentBytes, messages, sha256 }: WrittenHostBackup, path: string | null): object {
  const { host, host_pubkey, created_at } = header;
  return { file: path, bytes, content_bytes: contentBytes, messages, sha256, created_at, host, host_pubkey };
}

function textOf({ header, bytes, messages, sha256 }: WrittenHostBackup, path: string | null): string {
  const rows = [
    ['file', path ?? 'standard output'],
    ['size', bytesText(bytes)],
    ['host', header.host],
    ['taken', timeText(header.created_at)],
    ['messages', String(messages)],
    ['sha256', sha256],
  ];
  return `Backup is whole.\n${rows.map(([name = '', value = '']) => `  ${name.padEnd(8)} ${value}\n`).join('')}`;
}
