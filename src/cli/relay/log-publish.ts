/** `poste relay log publish`: moves the log of a stopped relay into PostgreSQL. */
import { Command } from 'commander';
import { type PublishReport, abortPublish, publishStore } from '../../relay/shared-log/publish.ts';
import { countText } from '../../host/core/spans.ts';
import type { CommandContext } from '../lib/context.ts';
import { jsonLine } from '../lib/format.ts';
import { type MoveFlags, withLog, withMoveOptions } from './move-log.ts';
import { withRelayConfig } from './relay-config.ts';

const NOTES = `
Stop the relay first. Epoch, sequence numbers, hash tree, receipts and waiting mail stay as they are; the folder becomes the
view of the first relay of the log, and its older records stay in it. Until the move is whole the database serves nothing
of it; after it, poste relay serve without --log refuses the folder and says where its log is.

A command that was interrupted begins anew when it is given again, or is given up with --abort; what is in the folder
serves in either case. The database must be empty: one that holds another log is refused.

Environment:
  MAIL_RELAY_LOG  the address of the log, instead of --log

Examples:
  $ poste relay log publish --log postgres://relay@db.example/mail --log-password-file log.password --store-dir /var/lib/poste
  $ poste relay log publish --log postgres://relay@db.example/mail --log-password-file log.password --abort
  $ poste relay log publish --log postgres://postgres@127.0.0.1/mail --durability single --json`;

export function relayLogPublishCommand(context: CommandContext): Command {
  return withRelayConfig(
    context,
    withMoveOptions(new Command('publish'))
      .option('--abort', 'give up a move that was interrupted')
      .option('--json', 'print what was done as one JSON document')
      .addHelpText('after', NOTES)
      .action(async (flags: MoveFlags) => publish(context, flags)),
  );
}

async function publish(context: CommandContext, flags: MoveFlags): Promise<void> {
  if (flags.abort) {
    const isOwn = await withLog(context, flags, abortPublish);
    context.stdout.write(flags.json ? jsonLine({ aborted: true, store_serves: isOwn }) : abortText(flags, isOwn));
    return;
  }
  const { report, place } = await withLog(context, flags, async (options) => {
    return { report: await publishStore(options), place: options.log.place };
  });
  context.stdout.write(flags.json ? jsonLine(publishDocument(report, place)) : publishText(report, place, flags));
}

function publishDocument({ logId, loaded, notices }: PublishReport, place: string): object {
  return { log_id: logId, log: place, items: loaded?.items ?? null, damaged_items: loaded?.damaged ?? null, notices };
}

function publishText({ logId, loaded, notices }: PublishReport, place: string, { storeDir }: MoveFlags): string {
  const lines = [
    ...notices,
    loaded
      ? `The log is at ${place} as ${logId}, with ${countText(loaded.items, 'item')} that ${loaded.items === 1 ? 'waits' : 'wait'}.`
      : `The log is at ${place} as ${logId}.`,
    ...(loaded && loaded.damaged > 0
      ? [`${loaded.damaged} more were damaged in the store already: their senders push them again.`]
      : []),
    `Start the relay of ${storeDir} with --log, and others on other machines with the same key and the same settings.`,
  ];
  return `${lines.join('\n')}\n`;
}

function abortText({ storeDir }: MoveFlags, isOwn: boolean): string {
  return isOwn
    ? `The move was given up: start the relay of ${storeDir} without --log, as before.\n`
    : `The move was given up: the log that the database held before serves again.\n`;
}
