/** Everything that wakes: put together for the daemon, and closed as one. */
import type { Office } from '../office/office.ts';
import type { Ring } from '../office/ring.ts';
import type { SessionDesk } from '../office/session-desk.ts';
import type { Timers } from '../office/timers.ts';
import { commandRung } from './command-rung.ts';
import { Doorbells } from './doorbells.ts';
import { HookWaiters } from './hook-waiters.ts';
import { processFacts } from './processes.ts';
import { sessionDesk } from './session-desk.ts';
import { SessionKeeper } from './session-keeper.ts';
import { tmuxRung } from './tmux-rung.ts';

export interface Wake {
  desk: SessionDesk;
  /** For whoever sends. */
  ring: Ring;
  /** Resolves when nothing is under way; the store may be closed then. */
  close(): Promise<void>;
}

export async function startWake(office: Office, timers: Timers): Promise<Wake> {
  const closing = new AbortController();
  const waiters = new HookWaiters({ timers, randomBytes: (count) => office.randomBytes(count) });
  const rungs = { hook: waiters.rung, command: commandRung, tmux: tmuxRung({ factsOf: processFacts }) };
  const doorbells = new Doorbells({ office, timers, rungs });
  await doorbells.start();
  const keeper = new SessionKeeper({ office, timers, factsOf: processFacts });
  return {
    desk: sessionDesk({ office, waiters, factsOf: processFacts, signal: closing.signal }),
    ring: doorbells.ring,
    async close() {
      closing.abort();
      await Promise.all([keeper.close(), doorbells.close()]);
    },
  };
}
