import type { RelayStatusResult } from './relays.ts';

/** The state of a relay of this host, as a predicate: the relay works. */
export const RELAY_STATE_TEXTS: Readonly<Record<RelayStatusResult['state'], string>> = {
  unset: 'not set',
  'key-changed': 'not used: it shows another key',
  connecting: 'connecting',
  ready: 'works',
  failing: 'does not work',
  'two-histories': 'shows two histories',
};
