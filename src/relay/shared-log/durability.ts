/**
 * The durability says what must have a batch before it is acknowledged: the standbys that the server names; the storage
 * beneath it, as a managed service promises; or this one server alone.
 */
export const DURABILITIES = ['standby', 'storage', 'single'] as const;
export type Durability = (typeof DURABILITIES)[number];

/**
 * Says why a batch on a server with these names of standbys may have no second copy; `undefined` when it has one, or
 * none is asked for. It may pass: a manager of servers such as Patroni writes such names for a while after a promotion.
 */
export function namesFault(durability: Durability, names: string): string | undefined {
  if (durability !== 'standby') return undefined;
  if (names.trim() === '')
    return (
      'the server of the log names no standby, so one copy would be all: set synchronous_standby_names there, or ' +
      'say --durability single (one copy) or --durability storage (the storage beneath is replicated)'
    );
  if (names.includes('*'))
    return 'synchronous_standby_names holds a *, so any program that connects may count as a copy: name the standbys';
  return undefined;
}
