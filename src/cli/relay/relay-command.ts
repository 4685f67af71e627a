/**
 * The relay that an operator's command means, by `--store-dir` and `--config`, and its key where a deployment keeps it,
 * outside the store folder: in MAIL_RELAY_KEY, or in a file that `--key-file` or MAIL_RELAY_KEY_FILE names, as a
 * systemd credential or a mounted secret. A key is never on a command line, which every user of the machine may read,
 * and no sentence holds any of it.
 */
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { systemRandom } from '../../lib/clock.ts';
import { type Epoch, randomEpoch } from '../../protocol/names.ts';
import { isRelayListening } from '../../relay/operator/socket.ts';
import { refuseUnusableFolder, StoreRefused } from '../../relay/store/refused.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { configFileOf, optionOf, type ServeFlags, type SettingName, STORE_DIR_DEFAULT } from './settings.ts';
import { resolve } from 'node:path';
import type { Signer } from '../../protocol/ed25519.ts';
import { generateRelayKey, openToAll, readKeyFile, relaySigner } from '../../relay/store/relay-key.ts';
import { usageFailure } from '../lib/exit.ts';

export interface RelayFlags {
  storeDir: string;
  json?: boolean;
}

/**
 * A command of an operator. It takes from the config file the settings that it has in common with `poste relay serve`,
 * so that nobody repeats as flags what stands in the file.
 */
export function relayCommand(context: CommandContext, name: string): CommandDraft<[], RelayFlags> {
  const config =
    "take the relay's settings from this file, as relay serve does (default: relay.toml in the config folder, " +
    'unless --store-dir is given)';
  const draft = new CommandDraft(context, name)
    .option('--store-dir <dir>', 'the store folder of the relay', { byDefault: STORE_DIR_DEFAULT })
    .option('--config <file>', config)
    .option(...JSON_FLAG);
  draft.command.hook('preAction', (self) => takeSettings(context, self));
  return draft;
}

/** The flags that name the key and the position of a relay that has them elsewhere. */
export function withKeyOptions<Flags extends object>(draft: CommandDraft<[], Flags>) {
  return draft.takes<Pick<ServeFlags, 'keyFile' | 'positionFile'>>(optionOf('keyFile'), optionOf('positionFile'));
}

/** The settings that say which relay is meant, its key and its log. */
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
  return randomEpoch(systemRandom);
}

export interface DeployKey {
  signer: Signer;
  place: string;
  /** A sentence for the operator when others can read it too. */
  notices: string[];
}

/** Undefined when the deployment sets no key. Throws `StoreRefused` or `CommandFailed`. */
export async function deployKey({ env }: CommandContext, keyFile: string | undefined): Promise<DeployKey | undefined> {
  const secret = env['MAIL_RELAY_KEY'];
  const named = keyFile ?? env['MAIL_RELAY_KEY_FILE'];
  if (secret && named) {
    const message = 'MAIL_RELAY_KEY and a key file are both set: set only one of them';
    throw usageFailure(message);
  }
  if (secret) return { signer: relaySigner(secret, 'MAIL_RELAY_KEY'), place: 'MAIL_RELAY_KEY', notices: [] };
  if (!named) return undefined;
  const path = resolve(named);
  const signer = await readKeyFile(path);
  if (!signer)
    throw new StoreRefused('missing-key-file', `there is no key file at ${path}: name the key file of this relay`);
  const open = `Every user of this machine may open the key file ${path}: remove that permission (chmod o= ${path}).`;
  return { signer, place: path, notices: (await openToAll(path)) === undefined ? [] : [open] };
}

export function keygenCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'keygen')
    .notes('\nExample:\n  $ poste relay keygen > relay.key && chmod 600 relay.key')
    .action(() => context.stdout.write(`${generateRelayKey()}\n`));
}
