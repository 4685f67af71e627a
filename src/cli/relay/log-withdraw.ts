/** `poste relay log withdraw`: moves a log from PostgreSQL into the store of one relay. */
import { Command } from 'commander';
import { type WithdrawReport, withdrawLog } from '../../relay/shared-log/withdraw.ts';
import type { CommandContext } from '../lib/context.ts';
import { jsonLine } from '../lib/format.ts';
import { type MoveFlags, withLog, withMoveOptions } from './move-log.ts';
import { withRelayConfig } from './relay-config.ts';

const NOTES = `
Stop the relay of this folder first; the command stops every other relay of the log. Epoch, sequence numbers, hash tree,
receipts and waiting mail stay as they are. Afterwards the folder holds the log itself: start its relay without --log. The
other relays refuse to start and say where the log went. What the database holds stays there as it was, and serves no
more: delete the database when you have a backup of the store.

A command that was interrupted goes on when it is given again.

Environment:
  MAIL_RELAY_LOG  the address of the log, instead of --log

Examples:
  $ poste relay log withdraw --log postgres://relay@db.example/mail --log-password-file log.password --key-file relay.key
  $ poste relay log withdraw --log postgres://postgres@127.0.0.1/mail --durability single --yes --json`;

export function relayLogWithdrawCommand(context: CommandContext): Command {
  return withRelayConfig(
    context,
    withMoveOptions(new Command('withdraw'))
      .option('--yes', 'do not ask for confirmation')
      .option('--json', 'print what was done as one JSON document')
      .addHelpText('after', NOTES)
      .action(async (flags: MoveFlags) => withdraw(context, flags)),
  );
}

async function withdraw(context: CommandContext, flags: MoveFlags): Promise<void> {
  const { logId, isDone, notices } = await withLog(context, flags, withdrawLog);
  const document = { log_id: logId, was_done: isDone, notices };
  context.stdout.write(flags.json ? jsonLine(document) : withdrawText({ logId, isDone, notices }, flags));
}

function withdrawText({ logId, isDone, notices }: WithdrawReport, { storeDir }: MoveFlags): string {
  const what = isDone ? `The log ${logId} went to ${storeDir} before.` : `The log ${logId} is in ${storeDir} now.`;
  return `${[...notices, what].join('\n')}\nStart its relay without --log.\n`;
}
