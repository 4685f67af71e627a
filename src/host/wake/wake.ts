/** Puts together what wakes agents: doorbells, wake methods, sessions. */
import type { HostContext } from '../context.ts';
import type { WakeAgent } from '../agents/sessions.ts';
import type { SessionService } from '../api/handlers.ts';
import type { Timers } from '../../lib/clock.ts';
import { tmuxMethod, tryCommand } from './wake-methods.ts';
import { Doorbells } from './doorbells.ts';
import { HookWaiters } from './hook-waiters.ts';
import { processFacts } from './processes.ts';
import { createSessionService, SessionKeeper } from './session-service.ts';

export interface Wake {
  sessions: SessionService;
  /** For operations that send. */
  wakeAgent: WakeAgent;
  /** Resolves when nothing is under way; then the store may be closed. */
  close(): Promise<void>;
}

export async function startWake(context: HostContext, timers: Timers): Promise<Wake> {
  const closing = new AbortController();
  const waiters = new HookWaiters({ timers, randomBytes: (count) => context.randomBytes(count) });
  const methods = { hook: waiters.tryHook, command: tryCommand, tmux: tmuxMethod({ factsOf: processFacts }) };
  const doorbells = new Doorbells({ context, timers, methods });
  await doorbells.start();
  const keeper = new SessionKeeper({ context, timers, factsOf: processFacts });
  return {
    sessions: createSessionService({ context, waiters, factsOf: processFacts, signal: closing.signal }),
    wakeAgent: doorbells.wakeAgent,
    async close() {
      closing.abort();
      await Promise.all([keeper.close(), doorbells.close()]);
    },
  };
}
