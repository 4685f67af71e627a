/** What the commands share that move a relay's log into PostgreSQL and back. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { softwareVersion } from '../../lib/package-root.ts';
import { systemClock, systemRandom, systemTimers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../protocol/epoch.ts';
import { isRelayListening } from '../../relay/operator/socket.ts';
import type { MoveOptions } from '../../relay/shared-log/move-log.ts';
import type { SharedLogOptions } from '../../relay/shared-log/node-options.ts';
import { unusableStore } from '../../relay/store/open.ts';
import { StoreRefused, refuseUnusableFolder } from '../../relay/store/refused.ts';
import { RELAY_KEY_FILE, readRelayKey } from '../../relay/store/relay-key.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, interruption } from '../lib/exit.ts';
import { confirm, requireConfirmation, terminalOf } from '../lib/input.ts';
import { commandLog } from '../lib/log.ts';
import { ProgressLine } from '../lib/output.ts';
import { deployKey, keyFileOption } from './relay-key.ts';
import {
  type SharedLogFlags,
  durabilityOption,
  logFailure,
  logOption,
  logPasswordFileOption,
  sharedLogOf,
} from './shared-log-options.ts';
import { type StoreDirFlags, storeDirOption, storeRefused } from './store-dir.ts';

export interface MoveFlags extends SharedLogFlags, StoreDirFlags {
  keyFile?: string;
  positionFile?: string;
  abort?: boolean;
  yes?: boolean;
  json?: boolean;
}

/** The options that these commands have alike. */
export function withMoveOptions(command: Command): Command {
  return command
    .addOption(logOption())
    .addOption(logPasswordFileOption())
    .addOption(durabilityOption())
    .addOption(storeDirOption('the store folder of the stopped relay'))
    .addOption(keyFileOption())
    .option('--position-file <file>', 'the position file, as for relay serve (default: position in the store folder)');
}

/** Does `work` with what the flags name, and ends as a command does. Nothing runs on the folder meanwhile. */
export async function withLog<T>(
  context: CommandContext,
  flags: MoveFlags,
  work: (options: MoveOptions) => Promise<T>,
): Promise<T> {
  const folder = resolve(flags.storeDir);
  const progress = new ProgressLine(context.stderr);
  const interrupted = interruption(context);
  const shared = await neededLog(context, flags);
  const { signal } = interrupted;
  // A statement may wait in the server for a standby: nothing else ends it.
  const clients = [shared.log];
  signal.addEventListener('abort', () => clients.forEach((log) => void log.close()));
  try {
    refuseUnusableFolder(folder);
    if (await isRelayListening(folder))
      throw new StoreRefused('locked', `a relay is using the store at ${folder}: stop it first`);
    return await work({
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
      newEpoch: () => epochFromRandom(systemRandom(EPOCH_RANDOM_BYTES)),
      version: softwareVersion(),
      logger: commandLog(context, 'error'),
      signal,
      confirm: async (stake) => {
        progress.end();
        requireConfirmation(context, { yes: flags.yes, stake });
        if (flags.yes) return;
        context.stderr.write(`${stake}.\n`);
        await confirm('Go on?', terminalOf(context));
      },
      step: async (step) => progress.say(`${step} ...`),
    });
  } catch (error) {
    progress.end();
    if (signal.aborted)
      throw new CommandFailed(
        'interrupted',
        'INTERRUPTED',
        'the command was interrupted: give it again, and it goes on with what it began',
      );
    if (error instanceof CommandFailed) throw error;
    const refused = unusableStore(error, folder);
    throw refused instanceof StoreRefused ? storeRefused(refused) : logFailure(refused);
  } finally {
    progress.end();
    for (const log of clients) await log.close();
  }
}

/** Throws `CommandFailed` when neither the flags nor the environment name a log. */
export async function neededLog(context: CommandContext, flags: SharedLogFlags): Promise<SharedLogOptions> {
  const shared = await sharedLogOf(context, flags);
  if (shared) return shared;
  throw new CommandFailed('usage', 'USAGE', 'name the database of the log with --log, or in MAIL_RELAY_LOG');
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
