/** How commands that open a store themselves say why they cannot. */
import type { RefusedReason, StoreRefused } from '../relay/store/refused.ts';
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

/** How a command ends when the store cannot be opened. */
export function storeRefused({ reason, message }: StoreRefused): CommandFailed {
  return new CommandFailed(REFUSED_EXIT[reason], `STORE_${reason.toUpperCase().replaceAll('-', '_')}`, message);
}
