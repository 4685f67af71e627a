/** Makes the parts of a daemon's operations, for tests that ask for few of them. */
import type { RelayReach, RelayTransports } from '../../src/host/outbox/peer-work.ts';
import type { StatusResult } from '../../src/host/contract/daemon.ts';

/** The owner's page, which nobody opened. */
const unopened: StatusResult['page'] = { url: null, problem: null };
export const UNOPENED = { page: unopened };

/** What the first relay knows of a peer. */
export function reachOver(relays: RelayTransports): RelayReach {
  return { factsFor: (peer) => relays.all[0]?.factsFor(peer) ?? null };
}

/** Parts of which every one that is asked answers as `unasked` does. No relay carries anything. */
export function unaskedParts(unasked: () => Promise<never>) {
  return {
    health: { status: unasked, doctor: unasked, trace: unasked },
    pairing: {
      invitation: { acceptor: unasked, confirm: unasked, decline: unasked },
      invite: unasked,
      accept: unasked,
      freshenDirectories: () => Promise.resolve(),
    },
    relay: {
      set: unasked,
      unset: unasked,
      add: unasked,
      list: unasked,
      remove: unasked,
      prefer: unasked,
      status: unasked,
    },
    relayMove: { begin: unasked, status: unasked, cancel: unasked },
    reach: { factsFor: () => null },
    web: { link: unasked },
    sessions: {
      register: unasked,
      heartbeat: unasked,
      end: unasked,
      wait: unasked,
      heard: unasked,
      usedTool: unasked,
      endGone: () => Promise.resolve(),
      list: unasked,
    },
  };
}
