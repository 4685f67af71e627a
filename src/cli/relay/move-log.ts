/** `poste relay cluster publish` and `withdraw`: move the log of a stopped relay into PostgreSQL, and back. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { softwareVersion } from '../../lib/package-root.ts';
import { systemClock, systemTimers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { countText } from '../../host/core/spans.ts';
import type { MoveOptions } from '../../relay/shared-log/move-log.ts';
import { type PublishReport, abortPublish, publishStore } from '../../relay/shared-log/publish.ts';
import { withdrawLog } from '../../relay/shared-log/withdraw.ts';
import { unusableStore } from '../../relay/store/open.ts';
import { StoreRefused } from '../../relay/store/refused.ts';
import { RELAY_KEY_FILE, readRelayKey } from '../../relay/store/relay-key.ts';
import { optionOf } from './settings.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatLines } from '../lib/format.ts';
import { confirm, requireConfirmation, terminalOf } from '../lib/input.ts';
import { commandLog } from '../lib/log.ts';
import { type Work, atWork, print } from '../lib/output.ts';
import { deployKey } from './relay-key.ts';
import { type SharedLogFlags, neededLog, withLogOptions } from './shared-log-options.ts';
import { newEpoch, relayCommand, type RelayFlags, requireIdle } from './relay-command.ts';

interface MoveFlags extends SharedLogFlags, RelayFlags {
  keyFile?: string;
  positionFile?: string;
  abort?: boolean;
  yes?: boolean;
}

const PUBLISH_NOTES = `
Stop the relay first. Epoch, sequence numbers, hash tree, receipts and waiting mail stay as they are; the folder becomes the
view of the first relay of the log, and its older records stay in it. The database serves nothing until the move is whole;
after it, poste relay serve without --log refuses the folder and says where its log is.

A command that was interrupted begins anew when it is given again, or is given up with --abort; the folder serves in either
case. A database that holds another log is refused.

Examples:
  $ poste relay cluster publish --log postgres://relay@db.example/mail --log-password-file log.password --store-dir /var/lib/poste
  $ poste relay cluster publish --log postgres://relay@db.example/mail --abort`;

export function clusterPublishCommand(context: CommandContext): Command {
  return withMoveOptions(context, relayCommand(context, 'publish'))
    .option('--abort', 'give up a move that was interrupted')
    .addHelpText('after', PUBLISH_NOTES)
    .action(async (flags: MoveFlags) => publish(context, flags));
}

async function publish(context: CommandContext, flags: MoveFlags): Promise<void> {
  if (flags.abort) {
    const isOwn = await withLog(context, flags, abortPublish);
    print(context, flags, { aborted: true, store_serves: isOwn }, () => abortText(flags, isOwn));
    return;
  }
  const moved = await withLog(context, flags, async (options) => {
    return { ...(await publishStore(options)), place: options.log.place };
  });
  const { logId, place, loaded, notices } = moved;
  const [items, damaged_items] = [loaded?.items ?? null, loaded?.damaged ?? null];
  const document = { log_id: logId, log: place, items, damaged_items, notices };
  print(context, flags, document, () => publishText(moved, place, flags));
}

function publishText({ logId, loaded, notices }: PublishReport, place: string, { storeDir }: MoveFlags): string {
  const { items = 0, damaged = 0 } = loaded ?? {};
  const waiting = `, with ${countText(items, 'item')} that ${items === 1 ? 'waits' : 'wait'}`;
  const lines = [
    ...notices,
    `The log is at ${place} as ${logId}${loaded ? waiting : ''}.`,
    ...(damaged > 0 ? [`${damaged} more were damaged in the store already: their senders push them again.`] : []),
    `Start the relay of ${storeDir} with --log, and others on other machines with the same key and the same settings.`,
  ];
  return formatLines(lines);
}

function abortText({ storeDir }: MoveFlags, isOwn: boolean): string {
  return isOwn
    ? formatLines([`The move was given up: start the relay of ${storeDir} without --log, as before.`])
    : `The move was given up: the log that the database held before serves again.\n`;
}

const WITHDRAW_NOTES = `
Stop the relay of this folder first; the command stops every other relay of the log. Epoch, sequence numbers, hash tree,
receipts and waiting mail stay as they are. Afterwards the folder holds the log: start its relay without --log. The other
relays refuse to start and say where the log went. Delete the database, which serves no more, when you have a backup of the
store. A command that was interrupted goes on when it is given again.

Examples:
  $ poste relay cluster withdraw --log postgres://relay@db.example/mail --log-password-file log.password --key-file relay.key --yes`;

export function clusterWithdrawCommand(context: CommandContext): Command {
  return withMoveOptions(context, relayCommand(context, 'withdraw'))
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', WITHDRAW_NOTES)
    .action(async (flags: MoveFlags) => withdraw(context, flags));
}

async function withdraw(context: CommandContext, flags: MoveFlags): Promise<void> {
  const { logId, isDone, notices } = await withLog(context, flags, withdrawLog);
  print(context, flags, { log_id: logId, was_done: isDone, notices }, () => {
    const went = `The log ${logId} ${isDone ? `went to ${flags.storeDir} before` : `is in ${flags.storeDir} now`}.`;
    return formatLines([...notices, went, 'Start its relay without --log.']);
  });
}

/** The options that these commands have alike. */
function withMoveOptions(context: CommandContext, command: Command): Command {
  return withLogOptions(context, command).addOption(optionOf('keyFile')).addOption(optionOf('positionFile'));
}

/** Moves the log that the flags name, and ends as a command does. Nothing runs on the folder meanwhile. */
function withLog<T>(context: CommandContext, flags: MoveFlags, move: (options: MoveOptions) => Promise<T>): Promise<T> {
  return atWork(context, (work) => moveLog(context, flags, work, move), INTERRUPTED);
}

const INTERRUPTED = 'the command was interrupted: give it again, and it ends what it began';

async function moveLog<T>(
  context: CommandContext,
  flags: MoveFlags,
  work: Work,
  move: (options: MoveOptions) => Promise<T>,
): Promise<T> {
  const folder = resolve(flags.storeDir);
  const shared = await neededLog(context, flags);
  const { signal } = work;
  // A statement may wait in the server for a standby: nothing else ends it.
  const clients = [shared.log];
  signal.addEventListener('abort', () => clients.forEach((log) => void log.close()));
  try {
    await requireIdle(folder);
    return await move({
      log: shared.log,
      newLog: async () => {
        const { log } = await neededLog(context, flags);
        clients.push(log);
        if (signal.aborted) await log.close();
        return log;
      },
      durability: shared.durability,
      folder,
      ...(flags.positionFile !== undefined && { positionFile: resolve(flags.positionFile) }),
      signer: await signerOf(context, flags, folder),
      clock: systemClock,
      timers: systemTimers,
      newEpoch,
      version: softwareVersion(),
      logger: commandLog(context, 'error'),
      signal,
      confirm: async (stake) => {
        work.end();
        requireConfirmation(context, { yes: flags.yes, stake });
        if (flags.yes) return;
        context.stderr.write(formatLines([`${stake}.`]));
        await confirm('Go on?', terminalOf(context));
      },
      step: async (step) => work.say(`${step} ...`),
    });
  } catch (error) {
    throw error instanceof CommandFailed ? error : unusableStore(error, folder);
  } finally {
    work.end();
    for (const log of clients) await log.close();
  }
}

async function signerOf(context: CommandContext, { keyFile }: MoveFlags, folder: string): Promise<Signer> {
  const signer = (await deployKey(context, keyFile))?.signer ?? (await readRelayKey(folder));
  if (signer) return signer;
  if (!existsSync(folder))
    throw new StoreRefused(
      'missing',
      `there is no store folder at ${folder}: name it with --store-dir, or the key of the relay with --key-file for a folder that is to be made`,
    );
  throw new StoreRefused(
    'missing-key',
    `there is no ${RELAY_KEY_FILE} in ${folder}: name the key of the relay with --key-file, or set MAIL_RELAY_KEY`,
  );
}
