/** How commands that open a store themselves say why they cannot. */
import type { Signer } from '../protocol/ed25519.ts';
import { type RefusedReason, StoreRefused } from '../relay/store/refused.ts';
import { relaySigner } from '../relay/store/relay-key.ts';
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

/** The deploy secret's key, when the environment gives one. Throws `CommandFailed`. */
export function signerOfSecret(): Signer | undefined {
  const secret = process.env['MAIL_RELAY_KEY'];
  if (!secret) return undefined;
  try {
    return relaySigner(secret, 'MAIL_RELAY_KEY');
  } catch (error) {
    throw error instanceof StoreRefused ? storeRefused(error) : error;
  }
}
