/** Ways to wake that cannot work now, as far as that shows without waking anybody. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import type { SessionRow, WakeMethod } from '../core/rows.ts';
import { runBounded } from './run-bounded.ts';

const TMUX_MS = 1000;

/** As clauses, one for each way. */
export async function wakeFaults(sessions: readonly SessionRow[], signal: AbortSignal): Promise<string[]> {
  const looked = sessions.flatMap(({ wake }) => wake).map((method) => faultOf(method, signal));
  return (await Promise.all(looked)).filter((fault) => fault !== undefined);
}

async function faultOf(method: WakeMethod, signal: AbortSignal): Promise<string | undefined> {
  switch (method.type) {
    case 'hook':
      return undefined;
    case 'command': {
      const [program = ''] = method.argv;
      return (await canRun(program)) ? undefined : `its wake command ${program} cannot be run`;
    }
    case 'tmux': {
      const { socket, pane } = method;
      const at = socket === null ? [] : ['-S', socket];
      const asked = [...at, 'display-message', '-p', '-t', pane, '#{pane_dead}'];
      const { code, stdout } = await runBounded('tmux', asked, { timeoutMs: TMUX_MS, signal });
      return code === 0 && stdout.trim() === '0' ? undefined : `its tmux pane ${pane} is not there`;
    }
  }
}

async function canRun(program: string): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
