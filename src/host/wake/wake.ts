/** Puts together what wakes agents: doorbells, wake methods, sessions. */
import type { HostContext } from '../base/context.ts';
import type { WakeAgent } from '../agents/sessions.ts';
import type { SessionService } from '../api/handlers.ts';
import type { Timers } from '../../lib/clock.ts';
import { ClaudeSockets, Waiters } from './waiters.ts';
import { codexSocketMethod, codexTurn } from './codex-socket.ts';
import { tmuxMethod } from './terminal.ts';
import { tryCommand, type WakeMethodTable } from './wake-methods.ts';
import { Doorbells } from './doorbells.ts';
import { processFacts } from './processes.ts';
import { Rings } from './rings.ts';
import { createSessionService, SessionKeeper } from './session-service.ts';

interface Wake {
  sessions: SessionService;
  /** Operations that send call it. */
  wakeAgent: WakeAgent;
  /** Resolves when nothing is under way; then the store may be closed. */
  close(): Promise<void>;
}

export async function startWake(context: HostContext, timers: Timers): Promise<Wake> {
  const closing = new AbortController();
  const factsOf = processFacts;
  const waiters = new Waiters({ timers, randomBytes: context.randomBytes });
  const rings = new Rings(timers);
  const claudeSockets = new ClaudeSockets(waiters);
  const methods: WakeMethodTable = {
    hook: (session, _method, text, signal) => waiters.ring(session, text, signal),
    'claude-socket': claudeSockets.tryWake,
    'codex-socket': codexSocketMethod(tryCommand),
    command: tryCommand,
    tmux: tmuxMethod({ factsOf }),
  };
  const doorbells = new Doorbells({ context, timers, methods, rings, factsOf, turnOf: codexTurn });
  await doorbells.start();
  const keeper = new SessionKeeper({ context, timers, factsOf });
  return {
    sessions: createSessionService({ context, waiters, rings, claudeSockets, factsOf, signal: closing.signal }),
    wakeAgent: doorbells.wakeAgent,
    async close() {
      closing.abort();
      context.waits.close();
      await Promise.all([keeper.close(), doorbells.close()]);
    },
  };
}
