/** `poste relay backup <file>`: writes everything the relay holds into one file, whether the relay runs or not. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { BACKUP_BYTES_ABOUT } from '../../relay/operator/documents.ts';
import { BACKUP_KIND, type WrittenBackup, backupOf } from '../../relay/image/backup.ts';
import { rowKey } from '../../relay/core/rows.ts';
import { refusedIfDamaged, StoreRefused } from '../../relay/store/refused.ts';
import { documentOf } from '../../relay/replay/records.ts';
import { openOffline } from '../../relay/replay/offline.ts';
import type { CommandContext } from '../lib/context.ts';
import { ControlClient, ifRunning } from './control-client.ts';
import { backupPath, writeImageTo } from '../lib/backup-output.ts';
import { atWork, print } from '../lib/output.ts';
import { relayCommand, type RelayFlags } from './relay-command.ts';
import { formatBytes, formatFields } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { countText } from '../../host/core/spans.ts';
import { softwareVersion } from '../../lib/package-root.ts';

interface BackupFlags extends RelayFlags {
  force?: boolean;
}

const NOTES = `
You need not stop the relay: the backup holds everything that was accepted up to one moment. Poste writes it beside <file>,
checks it while it writes, and renames it when it is complete and on disk. Keep a copy of relay.key elsewhere: it is not in
the backup. Waiting items that the disk has altered are reported, and a restore drops them. Mail in the backup is sealed, but
names, sizes and times are not: keep it private.

Examples:
  $ poste relay backup /backups/relay-$(date +%F).backup --store-dir /var/lib/poste
  $ poste relay backup - | ssh elsewhere 'cat > relay.backup'`;

export function relayBackupCommand(context: CommandContext): Command {
  return relayCommand(context, 'backup')
    .argument('<file>', 'the file to write; - for standard output')
    .option('--force', 'replace an existing file')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: BackupFlags) => backup(context, file, flags));
}

async function backup(context: CommandContext, file: string, flags: BackupFlags): Promise<void> {
  const path = backupPath(context, file);
  await atWork(context, async (work) => {
    const source = new BackupSource(resolve(flags.storeDir), work.signal);
    const to = { path, force: flags.force, work, bytesAbout: () => source.bytesAbout };
    const written = await writeImageTo(context, source.chunks(), BACKUP_KIND, to);
    work.end();
    if (written.damagedItems > 0) context.stderr.write(warningOf(written, source));
    const stdout = path === null ? context.stderr : context.stdout;
    const text = (): string => textOf(screenOf(context, stdout), written, path, source);
    const { header, bytes, contentBytes, items, damagedItems, sha256 } = written;
    const { lsn, epoch, created_at, relay_pubkey } = header;
    const stored = { file: path, bytes, contentBytes, items, damagedItems, lsn, epoch, sha256 };
    const document = documentOf({ ...stored, created_at, relay_pubkey, online: source.isOnline });
    print({ stdout }, flags, document, text);
  });
}

/** Reads from the relay if it runs, or else from its store. It connects when the first chunk is read. */
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
    const running = await ifRunning(new ControlClient(this.#storeDir).stream('/v1/backup', this.#signal));
    this.isOnline = running !== undefined;
    if (running) this.bytesAbout = Number(running.headers[BACKUP_BYTES_ABOUT] ?? 0);
    for await (const chunk of running?.chunks ?? this.#stopped()) {
      this.#signal.throwIfAborted();
      yield chunk;
    }
  }

  async *#stopped(): AsyncGenerator<Buffer> {
    const offline = await openOffline(this.#storeDir);
    try {
      if (!offline.store.get('relay', rowKey.relay)) {
        throw new StoreRefused(
          'damaged',
          `the store at ${this.#storeDir} holds no relay row, so it cannot be backed up: run poste relay log verify to see why`,
        );
      }
      const snapshot = offline.store.snapshot();
      try {
        this.bytesAbout = await snapshot.bytesAbout();
        yield* backupOf(snapshot, { created_at: Date.now(), version: softwareVersion() });
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

function textOf(screen: Screen, written: WrittenBackup, path: string | null, { isOnline }: BackupSource): string {
  const { header, bytes, items, damagedItems, sha256 } = written;
  const rows = [
    ['file', path ?? 'standard output'],
    ['size', formatBytes(bytes)],
    ['taken', `${formatMoment(screen, header.created_at)}, from the ${isOnline ? 'running relay' : 'stopped store'}`],
    ['items', `${items} waiting${damagedItems > 0 ? `, ${damagedItems} of them damaged` : ''}`],
    ['log', countText(header.lsn, 'record')],
    ['epoch', header.epoch],
    ['relay', displayFingerprint(header.relay_pubkey as PublicKey)],
    ['sha256', sha256],
  ];
  return `The backup is complete.\n${formatFields(rows, 8)}`;
}

/** The backup is usable nevertheless: a restore drops the damaged items. */
function warningOf({ damagedItems }: WrittenBackup, { isOnline }: BackupSource): string {
  const then = isOnline
    ? 'the relay has dropped them, and their senders push them again'
    : 'the relay drops them when it reads them, and their senders push them again';
  const what = damagedItems === 1 ? 'one of the waiting items is' : `${damagedItems} of the waiting items are`;
  return `poste: ${what} missing or altered on the disk. A restore drops them; ${then}. Test the disk and the memory.\n`;
}
