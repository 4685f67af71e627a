/**
 * Wakes a session by typing into its terminal: text, a pause, Enter, by `tmux send-keys`.
 *
 * Only while the pane shows the session's own program, alive and in the foreground: a shell that is left behind in a
 * pane would take the text for a command. Whatever cannot be made sure is no reason to type.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { ProcessMark, SessionRow } from '../core/rows.ts';
import type { FactsOf } from './processes.ts';
import type { Rung, RungOutcome } from './rung.ts';
import { runBounded } from './run-bounded.ts';

/** Programs that read pasted text as a whole take an Enter that comes with it for part of the text. */
export const ENTER_PAUSE_MS = 200;
const TMUX_MS = 1000;
/** How far above a program the pane's first process may be. */
const ANCESTORS_MAX = 32;

export interface TmuxParts {
  factsOf: FactsOf;
  /** The name or path of tmux. */
  program?: string;
}

export function tmuxRung({ factsOf, program = 'tmux' }: TmuxParts): Rung<'tmux'> {
  return async (session, { socket, pane }, text, signal): Promise<RungOutcome> => {
    const at = socket === null ? [] : ['-S', socket];
    const tmux = (...args: string[]): ReturnType<typeof runBounded> =>
      runBounded(program, [...at, ...args], { timeoutMs: TMUX_MS, signal });
    const isShown = async (): Promise<boolean> => {
      const format = '#{pane_dead} #{pane_in_mode} #{pane_pid}';
      const { code, stdout } = await tmux('display-message', '-p', '-t', pane, format);
      const [, panePid] = /^0 0 ([0-9]+)\s*$/.exec(stdout) ?? [];
      return code === 0 && panePid !== undefined && isInForeground(session, Number(panePid), factsOf, signal);
    };
    if (!(await isShown())) return 'unavailable';
    const typed = await tmux('send-keys', '-t', pane, '-l', '--', text);
    if (typed.code !== 0) return 'unheard';
    try {
      await elapsed(ENTER_PAUSE_MS, undefined, { signal });
    } catch {
      return 'unheard';
    }
    if (!(await isShown())) return 'unheard';
    const entered = await tmux('send-keys', '-t', pane, 'Enter');
    return entered.code === 0 ? 'heard' : 'unheard';
  };
}

async function isInForeground(
  { process }: SessionRow,
  panePid: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  if (process === null) return false;
  const facts = await factsOf(process.pid, signal);
  if (facts?.mark.startedAt !== process.startedAt || facts.group !== facts.foregroundGroup) return false;
  return descendsFrom(process, panePid, factsOf, signal);
}

async function descendsFrom(
  { pid }: ProcessMark,
  ancestor: number,
  factsOf: FactsOf,
  signal: AbortSignal,
): Promise<boolean> {
  let at = pid;
  for (let steps = 0; steps < ANCESTORS_MAX && at > 1; steps++) {
    if (at === ancestor) return true;
    at = (await factsOf(at, signal))?.parentPid ?? 0;
  }
  return false;
}
