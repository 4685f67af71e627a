/** Which relay an operator's command means, by `--store-dir` and `--config`, and how it ends when the store cannot be opened. */
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import type { RefusedReason, StoreRefused } from '../../relay/store/refused.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';
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

const REFUSED_EXIT: Readonly<Record<RefusedReason, ExitName>> = {
  locked: 'conflict',
  missing: 'notFound',
  'missing-key-file': 'notFound',
  'foreign-key': 'refused',
  'missing-key': 'refused',
  'unreadable-key': 'refused',
  'newer-schema': 'refused',
  view: 'refused',
  'not-allowed': 'refused',
  damaged: 'failure',
  unusable: 'failure',
};

export function storeRefused({ reason, message }: StoreRefused): CommandFailed {
  return new CommandFailed(REFUSED_EXIT[reason], `STORE_${reason.toUpperCase().replaceAll('-', '_')}`, message);
}
