/** What a server must promise before a batch on it counts as stored. */
import { LogRefused } from './shared-log.ts';

/**
 * What must have a batch before it is acknowledged: the standbys that the server names; the storage beneath it, as a
 * managed service promises; or this one server alone.
 */
export const DURABILITIES = ['standby', 'storage', 'single'] as const;
export type Durability = (typeof DURABILITIES)[number];

/** Throws `LogRefused` for names of standbys that promise no second copy. */
export function refuseNames(durability: Durability, names: string): void {
  if (durability !== 'standby') return;
  if (names.trim() === '')
    throw new LogRefused(
      'the server of the log names no standby, so one copy would be all: set synchronous_standby_names there, or say --durability single (one copy) or --durability storage (the storage beneath is replicated)',
    );
  if (names.includes('*'))
    throw new LogRefused(
      'synchronous_standby_names holds a *, so any program that connects may count as a copy: name the standbys',
    );
}
