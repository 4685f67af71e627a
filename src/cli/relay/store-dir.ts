/** `--store-dir`: which store a command means, and how the command ends when it cannot be opened. */
import { Option } from 'commander';
import type { RefusedReason, StoreRefused } from '../../relay/store/refused.ts';
import { CommandFailed, type ExitName } from '../lib/exit.ts';

export const STORE_DIR_DEFAULT = './poste-relay';

export interface StoreDirFlags {
  storeDir: string;
}

export function storeDirOption(what = 'the store folder of the running relay'): Option {
  return new Option('--store-dir <dir>', what).default(STORE_DIR_DEFAULT);
}

const REFUSED_EXIT: Readonly<Record<RefusedReason, ExitName>> = {
  locked: 'conflict',
  missing: 'notFound',
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
