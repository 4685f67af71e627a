/** `poste relay backup <file>`: everything the relay holds as one file, whether it runs or not. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import { type PublicKey, displayFingerprint } from '../protocol/public-key.ts';
import { BACKUP_BYTES_ABOUT } from '../relay/control/documents.ts';
import { type WrittenBackup, checkedBackup, writeBackupFile } from '../relay/store/backup-file.ts';
import { rowKey } from '../relay/core/rows.ts';
import { refusedIfDamaged } from '../relay/store/damage.ts';
import { openOffline } from '../relay/store/offline.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { ControlClient } from './control-client.ts';
import { unwrittenFailure } from './backup-written.ts';
import { CommandFailed } from './exit.ts';
import { interruption } from './interruption.ts';
import { ProgressLine } from './progress.ts';
import { type StoreDirFlags, storeDirOption } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';
import { passed } from './stdout.ts';
import { bytesText, jsonLine, timeText } from './text.ts';
import { softwareVersion } from './version.ts';

interface BackupFlags extends StoreDirFlags {
  force?: boolean;
  json?: boolean;
}

/** As a file name it means standard output. */
const STDOUT = '-';

const NOTES = `
A running relay goes on meanwhile: the backup shows one moment, and holds everything that was accepted before it. It is
written beside <file> first, checked as it comes, and takes its name when it is whole and on disk. It holds no private
key: keep relay.key somewhere else. The bytes of what waits are compared with their hashes: items that the disk altered are
said, and are not restored. What waits in it is sealed, but names, sizes and times are not: keep it private.

Examples:
  $ poste relay backup relay.backup
  $ poste relay backup /backups/relay-$(date +%F).backup --store-dir /var/lib/poste
  $ poste relay backup - | ssh elsewhere 'cat > relay.backup'`;

export function relayBackupCommand(): Command {
  return new Command('backup')
    .description('Write everything the relay holds into one file.')
    .argument('<file>', 'the file to write; - writes to standard output')
    .addOption(storeDirOption())
    .option('--force', 'replace a file that is there')
    .option('--json', 'print what was written as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: BackupFlags) => backup(file, flags));
}

async function backup(file: string, flags: BackupFlags): Promise<void> {
  if (file === STDOUT && process.stdout.isTTY) {
    throw new CommandFailed('usage', 'USAGE', 'a backup is not for a terminal: name a file, or send it on by a pipe');
  }
  const progress = new ProgressLine(process.stderr);
  const interrupted = interruption();
  const source = new BackupSource(resolve(flags.storeDir), interrupted.signal);
  const told = (bytes: number): void => progress.bytes('backup', bytes, source.bytesAbout);
  try {
    const written =
      file === STDOUT
        ? await checkedBackup(passedOn(source.chunks(), interrupted.signal), told)
        : await writeBackupFile(source.chunks(), {
            path: resolve(file),
            replaces: flags.force === true,
            progress: told,
          });
    progress.end();
    const output = file === STDOUT ? process.stderr : process.stdout;
    const path = file === STDOUT ? null : resolve(file);
    if (written.damagedItems > 0) process.stderr.write(warningOf(written, source));
    output.write(flags.json ? jsonLine(documentOf(written, path, source)) : textOf(written, path, source));
  } catch (error) {
    progress.end();
    throw interrupted.failure() ?? failureOf(error);
  }
}

/** The relay while it runs, or its store while it does not. Asked when the first piece is wanted. */
class BackupSource {
  bytesAbout = 0;
  isOnline = true;
  readonly #storeDir: string;
  readonly #signal: AbortSignal;

  constructor(storeDir: string, signal: AbortSignal) {
    this.#storeDir = storeDir;
    this.#signal = signal;
  }

  async *chunks(): AsyncGenerator<Buffer> {
    const running = await this.#running();
    this.isOnline = running !== undefined;
    for await (const chunk of running ?? this.#stopped()) {
      this.#signal.throwIfAborted();
      yield chunk;
    }
  }

  /** `undefined` when no relay answers. */
  async #running(): Promise<AsyncGenerator<Buffer> | undefined> {
    try {
      const { headers, chunks } = await new ControlClient(this.#storeDir).stream('/v1/backup', this.#signal);
      this.bytesAbout = Number(headers[BACKUP_BYTES_ABOUT] ?? 0);
      return chunks;
    } catch (error) {
      // One that runs all the same holds its lock.
      const { code } = error as CommandFailed;
      if (code !== 'RELAY_NOT_RUNNING' && code !== 'SOCKET_PATH_TOO_LONG') throw error;
      return undefined;
    }
  }

  async *#stopped(): AsyncGenerator<Buffer> {
    const offline = await openOffline(this.#storeDir);
    try {
      if (!offline.store.get('relay', rowKey.relay)) {
        throw new StoreRefused(
          'damaged',
          `the store at ${this.#storeDir} holds no relay row, so nothing of it can be a backup: poste relay log verify tells more`,
        );
      }
      const snapshot = offline.store.snapshot();
      try {
        this.bytesAbout = await snapshot.bytesAbout();
        yield* snapshot.chunks({ created_at: Date.now(), version: softwareVersion() });
      } finally {
        await snapshot.close();
      }
    } catch (error) {
      throw refusedIfDamaged(error, this.#storeDir);
    } finally {
      await offline.close();
    }
  }
}

async function* passedOn(chunks: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    await passed(chunk, 'the backup', signal);
    yield chunk;
  }
}

function documentOf(written: WrittenBackup, path: string | null, { isOnline }: BackupSource): object {
  const { header, bytes, contentBytes, items, damagedItems, sha256 } = written;
  return {
    file: path,
    bytes,
    content_bytes: contentBytes,
    items,
    damaged_items: damagedItems,
    lsn: header.lsn,
    epoch: header.epoch,
    sha256,
    created_at: header.created_at,
    relay_pubkey: header.relay_pubkey,
    online: isOnline,
  };
}

function textOf(written: WrittenBackup, path: string | null, { isOnline }: BackupSource): string {
  const { header, bytes, items, damagedItems, sha256 } = written;
  const rows = [
    ['file', path ?? 'standard output'],
    ['size', bytesText(bytes)],
    ['taken', `${timeText(header.created_at)}, from the ${isOnline ? 'running relay' : 'stopped store'}`],
    ['items', `${items} waiting${damagedItems > 0 ? `, ${damagedItems} of them damaged` : ''}`],
    ['log', `${header.lsn} records`],
    ['epoch', header.epoch],
    ['relay', displayFingerprint(header.relay_pubkey as PublicKey)],
    ['sha256', sha256],
  ];
  return `Backup is whole.\n${rows.map(([name = '', value = '']) => `  ${name.padEnd(8)} ${value}\n`).join('')}`;
}

/** It is a backup all the same: a restore drops what is damaged. */
function warningOf({ damagedItems }: WrittenBackup, { isOnline }: BackupSource): string {
  const then = isOnline
    ? 'the relay has dropped them, and their senders push them again'
    : 'the relay drops them when it comes by them, and their senders push them again';
  return `Warning: ${damagedItems} of the items that wait are missing or altered on the disk. A restore drops them; ${then}. Test the disk and the memory.\n`;
}

function failureOf(error: unknown): unknown {
  return error instanceof StoreRefused ? storeRefused(error) : unwrittenFailure(error);
}
