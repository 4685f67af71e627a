/** `--store-dir` and `--config`: which relay a command means, and how the command ends when its store cannot be opened. */
import { dirname, join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import type { RefusedReason, StoreRefused } from '../../relay/store/refused.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';
import { ownPaths } from '../../host/base/paths.ts';

export const STORE_DIR_DEFAULT = './poste-relay';

export interface StoreDirFlags {
  storeDir: string;
}

export function storeDirOption(): Option {
  return new Option('--store-dir <dir>', 'the store folder of the relay').default(STORE_DIR_DEFAULT);
}

/** Where the config file is when no flag names one: beside that of a host. */
function usualFile(context: CommandContext): string {
  return join(dirname(ownPaths(context).configFile), 'relay.toml');
}

/** The config file that the command uses. */
export function configFileOf(context: CommandContext, command: Command): string {
  const { config } = command.opts<{ config?: string }>();
  return config === undefined ? usualFile(context) : resolve(config);
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
