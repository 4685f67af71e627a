/** The relay that an operator's command means, by `--store-dir` and `--config`. */
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { systemRandom } from '../../lib/clock.ts';
import { EPOCH_RANDOM_BYTES, type Epoch, epochFromRandom } from '../../protocol/epoch.ts';
import { isRelayListening } from '../../relay/operator/socket.ts';
import { StoreRefused, refuseUnusableFolder } from '../../relay/store/refused.ts';
import type { CommandContext } from '../lib/context.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { configFileOf, type SettingName, STORE_DIR_DEFAULT } from './settings.ts';

export interface RelayFlags {
  storeDir: string;
  json?: boolean;
}

/**
 * A command of an operator. It takes from the config file the settings that it has in common with `poste relay serve`, so
 * that nobody repeats as flags what stands in the file.
 */
export function relayCommand(context: CommandContext, name: string): Command {
  const command = new Command(name)
    .option('--store-dir <dir>', 'the store folder of the relay', STORE_DIR_DEFAULT)
    .option(
      '--config <file>',
      "take the relay's settings from this file, as relay serve does (default: relay.toml in the config folder, unless --store-dir is given)",
    )
    .option(...JSON_FLAG);
  return command.hook('preAction', () => takeSettings(context, command));
}

/** Which relay is meant, its key and its log. */
const SHARED = [
  'storeDir',
  'keyFile',
  'positionFile',
  'log',
  'logPasswordFile',
  'durability',
] as const satisfies readonly SettingName[];

async function takeSettings(context: CommandContext, command: Command): Promise<void> {
  const isGiven = (name: string): boolean => command.getOptionValueSource(name) === 'cli';
  // Another store has another key, and a backup needs none of it.
  const isOther = ['storeDir', 'backup', 'archive'].some(isGiven);
  if (!isGiven('config') && (isOther || !existsSync(configFileOf(context, command)))) return;
  // It loads what a relay needs, which a short command does without.
  const { settingInFile } = await import('./serve-config.ts');
  const inFile = settingInFile(context, command);
  for (const name of SHARED) {
    // The environment wins over the file, and says the same in another way.
    if (name === 'keyFile' && context.env['MAIL_RELAY_KEY']) continue;
    if (isGiven(name) || !command.options.some((option) => option.attributeName() === name)) continue;
    const value = inFile(name);
    if (value !== undefined) command.setOptionValueWithSource(name, value, 'config');
  }
}

/** Throws `StoreRefused` for a folder that is in use, or cannot be used. */
export async function requireIdle(folder: string): Promise<void> {
  refuseUnusableFolder(folder);
  if (await isRelayListening(folder))
    throw new StoreRefused('locked', `a relay is using the store at ${folder}: stop it first`);
}

export function newEpoch(): Epoch {
  return epochFromRandom(systemRandom(EPOCH_RANDOM_BYTES));
}
