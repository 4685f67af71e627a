/** `poste relay restore <file>`: replaces the store by a backup. Revocations and the like since then stay in force. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { systemClock } from '../../lib/clock.ts';
import { type RestoreReport, restoreRelay } from '../../relay/image/restore.ts';
import { confirm, requireConfirmation, terminalOf, requireReadable } from '../lib/input.ts';
import { optionOf } from './settings.ts';
import type { CommandContext } from '../lib/context.ts';
import { atWork, print } from '../lib/output.ts';
import { deployKey, newEpoch, relayCommand, type RelayFlags, requireIdle } from './relay-command.ts';
import { withoutUndefined } from '../lib/values.ts';
import { formatLines } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';

interface RestoreFlags extends RelayFlags {
  positionFile?: string;
  keyFile?: string;
  dryRun?: boolean;
  force?: boolean;
  yes?: boolean;
}

const NOTES = `
Stop the relay first. relay.key or MAIL_RELAY_KEY must be the key of the backup. Poste checks the whole backup before it
replaces anything, and keeps the former store aside. From that it preserves what a restore must not undo: revocations, deny
entries, key rotations, newer sender lists and encryption keys, used invites, and the highest sequence numbers. Hosts that
enrolled after the backup must enrol again. A new epoch begins: senders push again what was not confirmed, and receivers pull
from the beginning.

A restore or rebuild that was interrupted is finished first, even with --dry-run. A dry run works on a copy in the folder for
temporary files (TMPDIR), which needs space for the unpacked backup.

Examples:
  $ poste relay restore relay.backup --dry-run
  $ poste relay restore relay.backup --yes --json`;

export function relayRestoreCommand(context: CommandContext): Command {
  return relayCommand(context, 'restore')
    .argument('<file>', 'a file that poste relay backup wrote')
    .addOption(optionOf('keyFile'))
    .addOption(optionOf('positionFile'))
    .addOption(new Option('--dry-run', 'show what would change, and change nothing').conflicts('yes'))
    .option('--force', 'restore even if the former store is damaged, so that not all of it can be preserved')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: RestoreFlags) => restore(context, file, flags));
}

async function restore(context: CommandContext, file: string, flags: RestoreFlags): Promise<void> {
  const isRehearsal = flags.dryRun === true;
  requireReadable(resolve(file));
  if (!isRehearsal) {
    const advice = ', or try --dry-run first';
    requireConfirmation(context, { yes: flags.yes, stake: 'a restore replaces the store', advice });
  }
  const folder = resolve(flags.storeDir);
  await atWork(context, async (work) => {
    const key = await deployKey(context, flags.keyFile);
    // A dry run copies the store without taking its lock.
    await requireIdle(folder);
    const report = await restoreRelay({
      file: resolve(file),
      folder,
      ...withoutUndefined({ positionFile: flags.positionFile, signer: key?.signer }),
      nowMs: systemClock.nowMs(),
      newEpoch,
      isRehearsal,
      acceptsUnreadable: flags.force === true,
      signal: work.signal,
      step: async (step) => work.say(`${step} ...`),
      confirm: async (plan) => {
        work.end();
        if (flags.yes) return;
        context.stderr.write(textOf(screenOf(context, context.stderr), plan, 'A restore'));
        await confirm('Replace the store now?', terminalOf(context));
      },
    });
    work.end();
    print(context, flags, documentOf(report, isRehearsal), () => {
      const text = textOf(screenOf(context), report, isRehearsal ? 'A restore' : 'The restore');
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

function documentOf(report: RestoreReport, isRehearsal: boolean): object {
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

function textOf(screen: Screen, report: RestoreReport, subject: 'A restore' | 'The restore'): string {
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
