/** `poste relay restore <file>`: makes a backup the store that serves, without undoing what may not be undone. */
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../protocol/epoch.ts';
import { printable } from '../protocol/printable.ts';
import { displayFingerprint } from '../protocol/public-key.ts';
import { processClock, processRandom } from '../relay/ambient-process.ts';
import { isRelayListening } from '../relay/control/socket.ts';
import { type RestoreReport, restoreRelay } from '../relay/restore.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { confirm, isInteractive } from './confirm.ts';
import { deployKey, keyFileOption } from './deploy-key.ts';
import { CommandFailed } from './exit.ts';
import { interruption } from './interruption.ts';
import { ProgressLine } from './progress.ts';
import { type StoreDirFlags, storeDirOption } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';
import { jsonLine, timeText } from './text.ts';

interface RestoreFlags extends StoreDirFlags {
  positionFile?: string;
  keyFile?: string;
  dryRun?: boolean;
  force?: boolean;
  yes?: boolean;
  json?: boolean;
}

const NOTES = `
The relay must be stopped, and relay.key or MAIL_RELAY_KEY must be that of the backup. The whole backup is checked
before anything is replaced, and the store that was there is kept aside. What a step back must not undo is taken over
from it: revocations, deny entries, key rotations, newer sender lists and encryption keys, used invites, and how far
the sequence numbers had come. Hosts that enrolled after the backup have to enrol again. A new epoch begins: senders
push again what was not confirmed, and receivers pull from the beginning.

A restore or a rebuild that was interrupted before is finished first, by a dry run too. A dry run works on a copy in the
folder for temporary files (TMPDIR), which needs room for the backup unpacked.

Examples:
  $ poste relay restore relay.backup --dry-run
  $ poste relay restore relay.backup --store-dir /var/lib/poste
  $ poste relay restore relay.backup --yes --json`;

export function relayRestoreCommand(): Command {
  return new Command('restore')
    .description('Make a backup the store that serves, with what must not be undone.')
    .argument('<file>', 'a file that poste relay backup wrote')
    .addOption(storeDirOption())
    .addOption(keyFileOption())
    .option('--position-file <file>', 'as relay serve has it (default: position in the store folder)')
    .addOption(new Option('--dry-run', 'say what would change, and change nothing').conflicts('yes'))
    .option('--force', 'restore also when the store that is there is damaged, and not all of it can be taken over')
    .option('--yes', 'do not ask')
    .option('--json', 'print what was done as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: RestoreFlags) => restore(file, flags));
}

async function restore(file: string, flags: RestoreFlags): Promise<void> {
  const terminal = { input: process.stdin, output: process.stderr };
  const isRehearsal = flags.dryRun === true;
  if (!isRehearsal && !flags.yes && !isInteractive(terminal)) {
    throw new CommandFailed(
      'usage',
      'NOT_CONFIRMED',
      'there is no terminal to ask on, and a restore replaces the store: say --yes if it is meant, or --dry-run first',
    );
  }
  const folder = resolve(flags.storeDir);
  const progress = new ProgressLine(process.stderr);
  const interrupted = interruption();
  try {
    const key = await deployKey(flags.keyFile);
    // A rehearsal copies the store without its lock.
    if (await isRelayListening(folder)) {
      throw new StoreRefused('locked', `a relay is using the store at ${folder}: stop it, and restore then`);
    }
    const report = await restoreRelay({
      file: resolve(file),
      folder,
      ...(flags.positionFile !== undefined && { positionFile: resolve(flags.positionFile) }),
      ...(key && { signer: key.signer }),
      nowMs: processClock.nowMs(),
      newEpoch: () => epochFromRandom(processRandom(EPOCH_RANDOM_BYTES)),
      isRehearsal,
      goesOnUnread: flags.force === true,
      signal: interrupted.signal,
      step: (step) => {
        progress.say(`${step} ...`);
        return Promise.resolve();
      },
      confirm: async (plan) => {
        progress.end();
        if (flags.yes) return;
        process.stderr.write(textOf(plan, 'A restore'));
        await confirm('Replace the store now?', terminal);
      },
    });
    progress.end();
    process.stdout.write(
      flags.json
        ? jsonLine(documentOf(report, isRehearsal))
        : textOf(report, isRehearsal ? 'A restore' : 'The restore'),
    );
  } catch (error) {
    progress.end();
    throw error instanceof StoreRefused ? storeRefused(error) : (interrupted.failure() ?? error);
  }
}

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
    // A dry run begins none that anybody will see.
    epoch: isRehearsal ? null : epoch,
    lsn,
    items,
    carried: {
      revoked: carried.revoked,
      rotated: carried.rotated,
      moved_items: carried.movedItems,
      deny_entries: carried.denied,
      invites_closed: carried.invites,
      lapsed: carried.lapsed,
      sender_lists: carried.senderLists,
      enc_keys: carried.encKeys,
      seq_floors: carried.seqFloors,
      lost_items: carried.lost,
    },
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

function textOf(report: RestoreReport, subject: 'A restore' | 'The restore'): string {
  const { backup, replaced, keptAside, unreadable, damagedTables, epoch, items, carried, missing } = report;
  const isDone = subject === 'The restore';
  const lines = [
    `${subject} of the backup of ${timeText(backup.created_at)} (${backup.lsn} log records, epoch ${backup.epoch})`,
    ...(isDone ? [`began the epoch ${epoch}`] : ['would begin a new epoch']),
    `${items} items wait in it${carried.lost > 0 ? `; ${carried.lost} more are damaged in the backup, and are to be pushed again` : ''}`,
    gapLine(report),
    ...(keptAside === null ? [] : [`the store that was there ${isDone ? 'is' : 'would be'} kept as ${keptAside}`]),
    ...(replaced && damagedTables > 0
      ? [`${damagedTables} of its table files are damaged, and what they said is not taken over: ${REVOKE_AGAIN}`]
      : []),
    ...(unreadable > 0 ? [`${unreadable} of its rows could not be read, and what they said is not taken over`] : []),
    `taken over: ${carriedText(report)}`,
    ...missingLines(missing),
  ];
  return `${lines.join('\n  ')}\n`;
}

const REVOKE_AGAIN = 'revoke again whom you have revoked since, and expect every invite to be closed';

function gapLine({ replaced, keptAside, damagedTables, backup }: RestoreReport): string {
  if (!replaced) {
    const why = keptAside === null ? 'there is no store' : 'the store that was there cannot be read';
    return `${why} to take anything over from: ${REVOKE_AGAIN}`;
  }
  if (damagedTables > 0) return `the store that was there had gone at least to log record ${replaced.lsn}`;
  if (!replaced.continuesBackup) return 'the store that was there is of another history than the backup';
  return `the store that was there had gone ${replaced.lsn - backup.lsn} log records further`;
}

function carriedText({ carried, replaced }: RestoreReport): string {
  const parts: [number, string][] = [
    [carried.revoked, 'revocations'],
    [carried.rotated, 'key rotations'],
    [carried.movedItems, 'items moved to new keys'],
    [carried.denied, 'deny entries'],
    [carried.invites, 'invites closed'],
    [carried.lapsed, 'lapsed enrolments'],
    [carried.senderLists, 'sender lists'],
    [carried.encKeys, 'encryption keys'],
    [carried.seqFloors, 'sequence number floors'],
  ];
  const said = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  if (said.length > 0) return said.join(', ');
  return replaced ? 'nothing, as nothing was to be' : 'nothing';
}

function missingLines(missing: RestoreReport['missing']): string[] {
  if (missing === null) return [];
  if (missing.length === 0) return ['nothing waits in the store that was there that the backup does not know'];
  const total = missing.reduce((sum, { items }) => sum + items, 0);
  const listed = missing.slice(0, LISTED_SENDERS).map(({ senderPubkey, hostName, items }) => {
    const name = hostName === '' ? '' : `${printable(hostName)} `;
    return `  ${items} by ${name}${displayFingerprint(senderPubkey)}`;
  });
  const rest = missing.length > LISTED_SENDERS ? [`  and by ${missing.length - LISTED_SENDERS} others`] : [];
  return [`${total} items are to be pushed again, as the backup does not know them:`, ...listed, ...rest];
}
