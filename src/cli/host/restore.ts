/** `poste restore <file>`: replaces the store of this host by a backup. Rotated keys and ended pairings stay so. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import {
  type RestoreFault,
  type RestorePlan,
  RestoreRefused,
  type RestoreReport,
  restoreHost,
} from '../../host/restore.ts';
import { confirm, requireConfirmation, terminalOf } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { ownPaths } from '../lib/own-paths.ts';
import { jsonLine } from '../lib/format.ts';
import { formatTime, type Screen, screenOf } from '../lib/screen.ts';

interface RestoreFlags {
  force?: boolean;
  yes?: boolean;
  json?: boolean;
}

const NOTES = `
Stop the daemon first. Poste checks the whole backup before it replaces anything, and keeps the former store aside. It takes
keys and pairings from the former store, so that an old key or an unpaired host does not come back. Mail that waited to be
sent is sent again under its old id, and no host accepts it twice. Mail that was received or sent after the backup is not in
it: Poste shows how much that is before it asks, and mails it to owner.

Examples:
  $ poste restore poste.backup
  $ poste restore poste.backup --yes --json`;

export function restoreCommand(context: CommandContext): Command {
  return new Command('restore')
    .argument('<file>', 'a file that poste backup wrote')
    .option('--force', 'replace the store even if it cannot be read or belongs to another host')
    .option('--yes', 'do not ask for confirmation')
    .option('--json', 'print what was done as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: RestoreFlags) => restore(context, file, flags));
}

const EXIT_OF: Readonly<Record<RestoreFault, ExitName>> = {
  file: 'notFound',
  damaged: 'failure',
  newer: 'failure',
  running: 'conflict',
  'other-host': 'conflict',
  unreadable: 'failure',
};

async function restore(context: CommandContext, file: string, flags: RestoreFlags): Promise<void> {
  requireConfirmation(context, { yes: flags.yes, stake: 'a restore replaces the store' });
  try {
    const report = await restoreHost({
      file: resolve(file),
      paths: ownPaths(context),
      nowMs: Date.now(),
      force: flags.force === true,
      confirm: async (plan) => {
        if (flags.yes) return;
        context.stderr.write(
          `The backup of ${formatTime(screenOf(context, context.stderr), plan.backup.created_at)}\n${planText(plan)}`,
        );
        await confirm('Replace the store now?', terminalOf(context));
      },
    });
    context.stdout.write(flags.json ? jsonLine(documentOf(report)) : textOf(screenOf(context), report));
  } catch (error) {
    if (!(error instanceof RestoreRefused)) throw hostFailure(error);
    const code = `RESTORE_${error.fault.toUpperCase().replaceAll('-', '_')}`;
    throw new CommandFailed(EXIT_OF[error.fault], code, error.message);
  }
}

function documentOf({ backup, messages, replaced, receiptFloor, keptAside }: RestoreReport): object {
  return {
    backup,
    messages,
    replaced: replaced && {
      readable: replaced.isReadable,
      same_host: replaced.isSameHost,
      messages_since: replaced.messagesSince,
      outgoing_since: replaced.outgoingSince,
    },
    receipt_floor: receiptFloor,
    kept_aside: keptAside,
  };
}

function textOf(screen: Screen, report: RestoreReport): string {
  const kept = report.keptAside === null ? '' : `  the former store is kept as ${report.keptAside}\n`;
  return `Restored the backup of ${formatTime(screen, report.backup.created_at)}\n${planText(report)}${kept}`;
}

function planText({ backup, messages, replaced }: RestorePlan): string {
  return [`holds ${messages} messages of host ${backup.host}`, ...replacedLines(replaced)]
    .map((line) => `  ${line}\n`)
    .join('');
}

function replacedLines(replaced: RestorePlan['replaced']): string[] {
  if (!replaced) return ['there is no former store, so keys and pairings are those of the backup'];
  if (!replaced.isReadable) return ['the present store cannot be read: nothing is kept from it'];
  return [
    replaced.isSameHost
      ? 'keys and pairings are kept from the present store'
      : 'the present store belongs to another host: nothing is kept from it',
    `${replaced.messagesSince} messages are in the present store but not in the backup; ${replaced.outgoingSince} of them wait for another host`,
  ];
}
