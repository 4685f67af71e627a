/**
 * `--config` of an operator's command: it takes from the file the settings that it has in common with `poste relay serve`, so
 * that nobody repeats as flags what stands in the file.
 */
import { existsSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { CommandContext } from '../lib/context.ts';
import type { ServeFlags } from './serve-settings.ts';
import { configFileOf } from './store-dir.ts';

/** Which relay is meant, its key and its log. */
const SHARED = [
  'storeDir',
  'keyFile',
  'positionFile',
  'log',
  'logPasswordFile',
  'durability',
] as const satisfies readonly (keyof ServeFlags)[];

/** The command with `--config`, and with what the file says where no flag says otherwise. It has its other options already. */
export function withRelayConfig(context: CommandContext, command: Command): Command {
  return command
    .addOption(
      new Option(
        '--config <file>',
        "take the relay's settings from this file, as relay serve does (default: relay.toml in the config folder, unless --store-dir is given)",
      ),
    )
    .hook('preAction', () => takeSettings(context, command));
}

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
