/** `poste restore <file>`: makes a backup the store of this host, without undoing what may not be undone. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import {
  type RestoreFault,
  type RestorePlan,
  RestoreRefused,
  type RestoreReport,
  restoreHost,
} from '../host/restore.ts';
import { confirm, isInteractive } from './confirm.ts';
import { CommandFailed, type ExitName } from './exit.ts';
import { hostFailure, ownPaths } from './host-place.ts';
import { jsonLine, timeText } from './text.ts';

interface RestoreFlags {
  force?: boolean;
  yes?: boolean;
  json?: boolean;
}

const NOTES = `
The daemon must be stopped. The whole backup is checked before anything is replaced, and the store that was there is
kept aside. Keys and pairings are taken over from it, so that a key that was given up, or a host that was unpaired,
does not come back. What waited to go out is sent again under its old id, which nobody takes twice. What came or was
sent since the backup is not in it: how much that is you are told before, and by mail to owner.

Examples:
  $ poste restore poste.backup
  $ poste restore poste.backup --yes --json`;

export function restoreCommand(): Command {
  return new Command('restore')
    .description('Make a backup the store of this host.')
    .argument('<file>', 'a file that poste backup wrote')
    .option('--force', "restore also over a store that cannot be read, or that is another host's")
    .option('--yes', 'do not ask')
    .option('--json', 'print what was done as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (file: string, flags: RestoreFlags) => restore(file, flags));
}

const EXIT_OF: Readonly<Record<RestoreFault, ExitName>> = {
  file: 'notFound',
  damaged: 'failure',
  newer: 'failure',
  running: 'conflict',
  'other-host': 'conflict',
  unreadable: 'failure',
};

async function restore(file: string, flags: RestoreFlags): Promise<void> {
  const terminal = { input: process.stdin, output: process.stderr };
  if (!flags.yes && !isInteractive(terminal)) {
    throw new CommandFailed(
      'usage',
      'NOT_CONFIRMED',
      'there is no terminal to ask on, and a restore replaces the store: say --yes if it is meant',
    );
  }
  try {
    const report = await restoreHost({
      file: resolve(file),
      paths: ownPaths(),
      nowMs: Date.now(),
      force: flags.force === true,
      confirm: async (plan) => {
        if (flags.yes) return;
        process.stderr.write(`The backup of ${timeText(plan.backup.created_at)}\n${planText(plan)}`);
        await confirm('Replace the store now?', terminal);
      },
    });
    process.stdout.write(flags.json ? jsonLine(documentOf(report)) : textOf(report));
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

function textOf(report: RestoreReport): string {
  const kept = report.keptAside === null ? '' : `  the store that was there is kept as ${report.keptAside}\n`;
  return `Restored the backup of ${timeText(report.backup.created_at)}\n${planText(report)}${kept}`;
}

function planText({ backup, messages, replaced }: RestorePlan): string {
  return [`holds ${messages} messages of host ${backup.host}`, ...replacedLines(replaced)]
    .map((line) => `  ${line}\n`)
    .join('');
}

function replacedLines(replaced: RestorePlan['replaced']): string[] {
  if (!replaced) return ['there is no store to take keys and pairings over from'];
  if (!replaced.isReadable) return ['the store that is there cannot be read: nothing is taken over from it'];
  return [
    replaced.isSameHost
      ? 'keys and pairings are taken over from the store that is there'
      : "the store that is there is another host's: nothing is taken over from it",
    `${replaced.messagesSince} messages are in the store that is there and not in the backup; ${replaced.outgoingSince} of them wait to go to another host`,
  ];
}
