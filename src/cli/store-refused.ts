/** A store that cannot be opened or read, as the end of a command. */
import { type RefusedReason, StoreRefused } from '../relay/store/refused.ts';
import { CommandFailed, type ExitName } from './exit.ts';

const REFUSED_EXIT: Readonly<Record<RefusedReason, ExitName>> = {
  locked: 'conflict',
  missing: 'notFound',
  'foreign-key': 'refused',
  'missing-key': 'refused',
  'unreadable-key': 'refused',
  'newer-schema': 'refused',
  damaged: 'failure',
  unusable: 'failure',
};

export function refused({ reason, message }: StoreRefused): CommandFailed {
  return new CommandFailed(REFUSED_EXIT[reason], `STORE_${reason.toUpperCase().replaceAll('-', '_')}`, message);
}
