/**
 * The images of a relay: `poste relay backup` writes everything that it holds into one file, whether it runs or not;
 * `restore` replaces the store by such a file; `log archive` writes records of the log into one.
 */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { onlyOf } from '../../lib/caught.ts';
import { countText } from '../../host/core/spans.ts';
import { systemClock } from '../../lib/clock.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { rowKey } from '../../relay/core/rows.ts';
import { ARCHIVE_KIND, type WrittenArchive, writeArchive } from '../../relay/image/archive.ts';
import { BACKUP_KIND, type WrittenBackup, backupOf } from '../../relay/image/backup.ts';
import { type RestoreReport, restoreRelay } from '../../relay/image/restore.ts';
import { BACKUP_BYTES_ABOUT } from '../../relay/operator/documents.ts';
import { type OfflineStore, openOffline } from '../../relay/replay/offline.ts';
import { documentOf } from '../../relay/replay/records.ts';
import { StoreRefused, refusedIfDamaged } from '../../relay/store/refused.ts';
import { backupPath, writeImageTo } from '../lib/backup-output.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { formatBytes, formatFields, formatLines } from '../lib/format.ts';
import { confirmation, requireReadable } from '../lib/input.ts';
import { atWork, print } from '../lib/output.ts';
import { type Screen, formatMoment, screenOf } from '../lib/screen.ts';
import { wholeNumber, withoutUndefined } from '../lib/values.ts';
import { inAuditedStore, prunedClause, withAuditedStore } from './audited-store.ts';
import { ControlClient, ifRunning } from './control-client.ts';
import { deployKey, newEpoch, relayCommand, requireIdle, withKeyOptions } from './relay-command.ts';

const BACKUP_NOTES = `
You need not stop the relay: the backup holds everything that was accepted up to one moment. Poste writes it beside
<file>, checks it while it writes, and renames it when it is complete and on disk. Keep a copy of relay.key elsewhere:
it is not in the backup. Waiting items that the disk has altered are reported, and a restore drops them. Mail in the
backup is sealed, but names, sizes and times are not: keep it private.

Examples:
  $ poste relay backup /backups/relay-$(date +%F).backup --store-dir /var/lib/poste
  $ poste relay backup - | ssh elsewhere 'cat > relay.backup'`;

export function backupCommand(context: CommandContext): Command {
  return relayCommand(context, 'backup')
    .argument('<file>', 'the file to write; - for standard output')
    .option('--force', 'replace an existing file')
    .notes(BACKUP_NOTES)
    .action(async (file, flags) => {
      const path = backupPath(context, file);
      await atWork(context, async (work) => {
        const source = new BackupSource(resolve(flags.storeDir), work.signal);
        const to = { path, force: flags.force, work, bytesAbout: () => source.bytesAbout };
        const written = await writeImageTo(context, source.chunks(), BACKUP_KIND, to);
        work.end();
        if (written.damagedItems > 0) context.stderr.write(warningOf(written, source));
        const stdout = path === null ? context.stderr : context.stdout;
        const text = (): string => backupText(screenOf(context, stdout), written, path, source);
        const { header, bytes, contentBytes, items, damagedItems, sha256 } = written;
        const { lsn, epoch, created_at, relay_pubkey } = header;
        const stored = { file: path, bytes, contentBytes, items, damagedItems, lsn, epoch, sha256 };
        const document = documentOf({ ...stored, created_at, relay_pubkey, online: source.isOnline });
        print({ stdout }, flags, document, text);
      });
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
    for await (const chunk of running?.chunks ?? this.#ofStoppedStore()) {
      this.#signal.throwIfAborted();
      yield chunk;
    }
  }

  async *#ofStoppedStore(): AsyncGenerator<Buffer> {
    const offline = await openOffline(this.#storeDir);
    try {
      if (!offline.store.get('relay', rowKey.relay)) {
        throw new StoreRefused(
          'damaged',
          `the store at ${this.#storeDir} holds no relay row, so it cannot be backed up: run poste relay log ` +
            'verify to see why',
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

function backupText(screen: Screen, written: WrittenBackup, path: string | null, { isOnline }: BackupSource): string {
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
  const rest = `A restore drops them; ${then}. Test the disk and the memory.`;
  return `poste: ${what} missing or altered on the disk. ${rest}\n`;
}

const RESTORE_NOTES = `
Stop the relay first. relay.key or MAIL_RELAY_KEY must be the key of the backup. Poste checks the whole backup before
it replaces anything, and keeps the former store aside. From that it preserves what a restore must not undo:
revocations, deny entries, key rotations, newer sender lists and encryption keys, used invites, and the highest
sequence numbers. Hosts that enrolled after the backup must enrol again. A new epoch begins: senders push again what
was not confirmed, and receivers pull from the beginning.

A restore or rebuild that was interrupted is finished first, even with --dry-run. A dry run works on a copy in the
folder for temporary files (TMPDIR), which needs space for the unpacked backup.

Examples:
  $ poste relay restore relay.backup --dry-run
  $ poste relay restore relay.backup --yes --json`;

export function restoreCommand(context: CommandContext): Command {
  return withKeyOptions(relayCommand(context, 'restore'))
    .argument('<file>', 'a file that poste relay backup wrote')
    .option('--dry-run', 'show what would change, and change nothing', { conflicts: ['yes'] })
    .option('--force', 'restore even if the former store is damaged, so that not all of it can be preserved')
    .option('--yes', 'do not ask for confirmation')
    .notes(RESTORE_NOTES)
    .action(async (file, flags) => {
      const { dryRun: isRehearsal = false, force: acceptsUnreadable = false, yes, keyFile, positionFile } = flags;
      requireReadable(resolve(file));
      const stake = { stake: 'a restore replaces the store', advice: ', or try --dry-run first' };
      const ask = confirmation(context, { yes: yes || isRehearsal, ...stake });
      const folder = resolve(flags.storeDir);
      const done = await atWork(context, async (work) => {
        const key = await deployKey(context, keyFile);
        // A dry run copies the store without taking its lock.
        await requireIdle(folder);
        const restored = restoreRelay({
          file: resolve(file),
          folder,
          ...withoutUndefined({ positionFile, signer: key?.signer }),
          nowMs: systemClock.nowMs(),
          newEpoch,
          isRehearsal,
          acceptsUnreadable,
          signal: work.signal,
          step: async (step) => work.say(`${step} ...`),
          confirm: async (plan) => {
            work.end();
            const shown = restoreText(screenOf(context, context.stderr), plan, 'A restore');
            await ask('Replace the store now?', shown);
          },
        });
        // It may say that the restore has happened: then a signal must not make the command say that nothing was done.
        return restored.catch(onlyOf(StoreRefused, (refused) => refused));
      });
      if (done instanceof StoreRefused) throw done;
      print(context, flags, restoreDocument(done, isRehearsal), () => {
        const text = restoreText(screenOf(context), done, isRehearsal ? 'A restore' : 'The restore');
        return isRehearsal ? `${text}This was a dry run: the store is as it was.\n` : text;
      });
    });
}

/** Each figure of what a restore preserves, with its member in the document and its words; lost items have a line. */
const PRESERVED: readonly [figure: keyof RestoreReport['carried'], member: string, one?: string, many?: string][] = [
  ['revoked', 'revoked', 'revocation'],
  ['rotated', 'rotated', 'key rotation'],
  ['movedItems', 'moved_items', 'item moved to a new key', 'items moved to new keys'],
  ['denied', 'deny_entries', 'deny entry', 'deny entries'],
  ['invites', 'invites_closed', 'invite closed', 'invites closed'],
  ['lapsed', 'lapsed', 'lapsed enrolment'],
  ['senderLists', 'sender_lists', 'sender list'],
  ['encKeys', 'enc_keys', 'encryption key'],
  ['seqFloors', 'seq_floors', 'sequence number floor'],
  ['lost', 'lost_items'],
];

function restoreDocument(report: RestoreReport, isRehearsal: boolean): object {
  const { backup, replaced, keptAside, unreadable, damagedTables, epoch, lsn, items, carried, missing } = report;
  return {
    dry_run: isRehearsal,
    backup,
    replaced: replaced && {
      epoch: replaced.epoch,
      lsn: replaced.lsn,
      continues_backup: replaced.continuesBackup,
      unreadable_rows: unreadable,
      damaged_tables: damagedTables,
    },
    kept_aside: keptAside,
    // Nobody will see the epoch of a dry run.
    epoch: isRehearsal ? null : epoch,
    lsn,
    items,
    carried: Object.fromEntries(PRESERVED.map(([figure, member]) => [member, carried[figure]])),
    missing:
      missing?.map(({ senderPubkey, hostName, items: count }) => ({
        host: hostName,
        host_pubkey: senderPubkey,
        items: count,
      })) ?? null,
  };
}

/** Senders that are listed by name. */
const LISTED_SENDERS = 20;

function restoreText(screen: Screen, report: RestoreReport, subject: 'A restore' | 'The restore'): string {
  const { backup, replaced, keptAside, unreadable, damagedTables, epoch, items, carried, missing } = report;
  const isDone = subject === 'The restore';
  const more = `; ${countText(carried.lost, 'more is', 'more are')} damaged in the backup, and must be pushed again`;
  const tables = countText(damagedTables, 'table file of it is', 'table files of it are');
  const rows = countText(unreadable, 'row of it could not be read, and is', 'rows of it could not be read, and are');
  const lines = [
    `${subject} of the backup of ${formatMoment(screen, backup.created_at)} ` +
      `(${countText(backup.lsn, 'log record')}, epoch ${backup.epoch})`,
    `of the relay ${displayFingerprint(backup.relay_pubkey as PublicKey)}, written by Poste ${backup.version}`,
    isDone ? `began the epoch ${epoch}` : 'would begin a new epoch',
    `${countText(items, 'item waits', 'items wait')} in it${carried.lost > 0 ? more : ''}`,
    gapLine(report),
    keptAside !== null && `the former store ${isDone ? 'is' : 'would be'} kept as ${keptAside}`,
    replaced && damagedTables > 0 && `${tables} damaged, and their contents are not preserved: ${REVOKE_AGAIN}`,
    unreadable > 0 && `${rows} not preserved`,
    `preserved: ${preservedText(report)}`,
    ...missingLines(missing),
  ].filter((line) => typeof line === 'string');
  return formatLines(lines.map((line, at) => (at === 0 ? line : `  ${line}`)));
}

const REVOKE_AGAIN = 'revoke again the hosts that you revoked since, and expect every invite to be closed';

function gapLine({ replaced, keptAside, damagedTables, backup }: RestoreReport): string {
  if (!replaced) {
    const why = keptAside === null ? 'there is no store' : 'the former store cannot be read';
    return `${why}, so nothing is preserved: ${REVOKE_AGAIN}`;
  }
  if (damagedTables > 0) return `the former store reached at least log record ${replaced.lsn}`;
  if (!replaced.continuesBackup) return 'the former store has another history than the backup';
  return `the former store was ${countText(replaced.lsn - backup.lsn, 'log record')} ahead`;
}

function preservedText({ carried, replaced }: RestoreReport): string {
  const parts = PRESERVED.flatMap(([figure, , one, many]) => {
    return one === undefined || carried[figure] === 0 ? [] : [countText(carried[figure], one, many)];
  });
  return parts.join(', ') || (replaced ? 'nothing to preserve' : 'nothing');
}

/** The items that senders must push again, by sender; `null` where the former store could not be compared. */
function missingLines(missing: RestoreReport['missing']): string[] {
  if (missing === null) return [];
  if (missing.length === 0) return ['every item that waits in the former store is in the backup'];
  const total = missing.reduce((sum, { items }) => sum + items, 0);
  const listed = missing.slice(0, LISTED_SENDERS).map(({ senderPubkey, hostName, items }) => {
    const name = hostName === '' ? '' : `${hostName} `;
    return `  ${items} by ${name}${displayFingerprint(senderPubkey)}`;
  });
  const rest =
    missing.length > LISTED_SENDERS ? [`  and by ${countText(missing.length - LISTED_SENDERS, 'other')}`] : [];
  const again = countText(total, 'item is', 'items are');
  return [
    `${again} to be pushed again, as the backup does not know ${total === 1 ? 'it' : 'them'}:`,
    ...listed,
    ...rest,
  ];
}

const ARCHIVE_NOTES = `
Every record that is kept, or those from --from up to --through. Nothing is deleted: relay serve --log-keep-days
prunes the log, and --log-archive-dir archives what goes. poste relay log show, trace and verify look into an archive
with --archive. While the relay runs, archive the log of a backup.

Examples:
  $ poste relay log archive old.archive --backup poste.backup --through 250000`;

export function archiveCommand(context: CommandContext): Command {
  return withAuditedStore(relayCommand(context, 'archive'))
    .argument('<file>', 'the file to write')
    .option('--from <lsn>', 'begin at this log record', wholeNumber(1))
    .option('--through <lsn>', 'end with this log record', wholeNumber(1))
    .option('--force', 'replace an existing file')
    .notes(ARCHIVE_NOTES)
    .action(async (file, flags) => {
      const path = resolve(file);
      await inAuditedStore(context, flags, async (offline, work) => {
        const stretch = stretchOf(flags, offline);
        const relay_pubkey = offline.store.get('relay', '')?.relayPubkey;
        const unknown = 'the store holds no relay row, so the key of its relay is unknown';
        if (!relay_pubkey) throw new CommandFailed('failure', 'STORE_DAMAGED', unknown);
        const stamp = { relay_pubkey, created_at: Date.now(), version: softwareVersion() };
        const to = { path, force: flags.force, work };
        const written = await writeImageTo(context, writeArchive(offline.level, stretch, stamp), ARCHIVE_KIND, to);
        work.end();
        const { bytes, contentBytes, records, header } = written;
        const { first_lsn, last_lsn, first_time, last_time } = header;
        const stored = { file: path, bytes, contentBytes, records, first_lsn, last_lsn, first_time, last_time };
        const document = documentOf({ ...stored, relay_pubkey: header.relay_pubkey });
        print(context, flags, document, () => archiveText(screenOf(context), written, path));
      });
    });
}

/** The range that the flags ask for. Throws `CommandFailed`. */
function stretchOf(
  { from, through }: { from?: number; through?: number },
  offline: OfflineStore,
): { firstLsn: number; lastLsn: number } {
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
  const elsewhere = 'earlier records are in archives of the log, and in older backups (--backup)';
  if (stretch.firstLsn < firstLsn || stretch.lastLsn < firstLsn)
    throw new CommandFailed('notFound', 'PRUNED', `${prunedClause(offline)}: ${elsewhere}`);
  if (stretch.firstLsn <= stretch.lastLsn) return stretch;
  throw usageFailure('--from must not be after --through');
}

function archiveText(screen: Screen, { header, records, bytes }: WrittenArchive, file: string): string {
  const rows = [
    ['file', file],
    ['size', formatBytes(bytes)],
    ['records', `${records}, from ${header.first_lsn} to ${header.last_lsn}`],
    ['written', `${formatMoment(screen, header.first_time)} to ${formatMoment(screen, header.last_time)}`],
    ['relay', displayFingerprint(header.relay_pubkey as PublicKey)],
  ];
  return `The archive is complete.\n${formatFields(rows, 8)}`;
}
