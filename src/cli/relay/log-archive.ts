/** `poste relay log archive <file>`: log records as one file, before they are pruned or after all of them were kept. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { ARCHIVE_KIND, type WrittenArchive, writeArchive } from '../../relay/image/archive.ts';
import { documentOf } from '../../relay/replay/records.ts';
import type { OfflineStore } from '../../relay/replay/offline.ts';
import { type AuditedStoreFlags, inAuditedStore, prunedClause, withAuditedStore } from './audited-store.ts';
import { writeImageTo } from '../lib/backup-output.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { print } from '../lib/output.ts';
import { formatBytes, formatFields } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { wholeNumber } from '../lib/values.ts';
import { softwareVersion } from '../../lib/package-root.ts';

interface ArchiveFlags extends AuditedStoreFlags {
  from?: number;
  through?: number;
  force?: boolean;
}

const NOTES = `
Every record that is kept, or those from --from up to --through. Nothing is deleted: relay serve --log-keep-days prunes the
log, and --log-archive-dir archives what goes. poste relay log show, trace and verify look into an archive with --archive.
While the relay runs, archive the log of a backup.

Examples:
  $ poste relay log archive old.archive --backup poste.backup --through 250000`;

export function relayLogArchiveCommand(context: CommandContext): Command {
  return withAuditedStore(relayCommand(context, 'archive'))
    .argument('<file>', 'the file to write')
    .addOption(new Option('--from <lsn>', 'begin at this log record').argParser(wholeNumber(1)))
    .addOption(new Option('--through <lsn>', 'end with this log record').argParser(wholeNumber(1)))
    .option('--force', 'replace an existing file')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: ArchiveFlags) => archive(context, file, flags));
}

async function archive(context: CommandContext, file: string, flags: ArchiveFlags): Promise<void> {
  const path = resolve(file);
  await inAuditedStore(context, flags, async (offline, work) => {
    const stretch = stretchOf(flags, offline);
    const relay_pubkey = offline.store.get('relay', '')?.relayPubkey;
    if (!relay_pubkey)
      throw new CommandFailed(
        'failure',
        'STORE_DAMAGED',
        'the store holds no relay row, so the key of its relay is unknown',
      );
    const stamp = { relay_pubkey, created_at: Date.now(), version: softwareVersion() };
    const to = { path, force: flags.force, work };
    const written = await writeImageTo(context, writeArchive(offline.level, stretch, stamp), ARCHIVE_KIND, to);
    work.end();
    const { bytes, contentBytes, records, header } = written;
    const { first_lsn, last_lsn, first_time, last_time } = header;
    const stored = { file: path, bytes, contentBytes, records, first_lsn, last_lsn, first_time, last_time };
    const document = documentOf({ ...stored, relay_pubkey: header.relay_pubkey });
    print(context, flags, document, () => textOf(screenOf(context), written, path));
  });
}

/** The range that the flags ask for. Throws `CommandFailed`. */
function stretchOf({ from, through }: ArchiveFlags, offline: OfflineStore): { firstLsn: number; lastLsn: number } {
  const { firstLsn, lastLsn } = offline.store;
  if (lastLsn === 0) throw new CommandFailed('failure', 'STORE_DAMAGED', 'the log is empty: restore a backup');
  for (const [flag, lsn = 0] of [
    ['--through', through],
    ['--from', from],
  ] as const) {
    const message = `the log ends at record ${lastLsn}: give a ${flag} up to there`;
    if (lsn > lastLsn) throw new CommandFailed('notFound', 'BEYOND_THE_LOG', message);
  }
  const stretch = { firstLsn: from ?? firstLsn, lastLsn: through ?? lastLsn };
  if (stretch.firstLsn < firstLsn || stretch.lastLsn < firstLsn)
    throw new CommandFailed(
      'notFound',
      'PRUNED',
      `${prunedClause(offline)}: earlier records are in archives of the log, and in older backups (--backup)`,
    );
  if (stretch.firstLsn <= stretch.lastLsn) return stretch;
  throw new CommandFailed('usage', 'USAGE', '--from must not be after --through');
}

function textOf(screen: Screen, { header, records, bytes }: WrittenArchive, file: string): string {
  const rows = [
    ['file', file],
    ['size', formatBytes(bytes)],
    ['records', `${records}, from ${header.first_lsn} to ${header.last_lsn}`],
    ['written', `${formatMoment(screen, header.first_time)} to ${formatMoment(screen, header.last_time)}`],
    ['relay', displayFingerprint(header.relay_pubkey as PublicKey)],
  ];
  return `The archive is complete.\n${formatFields(rows, 8)}`;
}
