/** Wakes a session by a program of its choice: proof is that it ends with 0. */
import type { Rung } from './rung.ts';
import { runBounded } from './run-bounded.ts';

export const COMMAND_MS = 10_000;

/** Run without a shell; the text is the last argument. */
export const commandRung: Rung<'command'> = async (_session, { argv }, text, signal) => {
  const [program, ...args] = argv;
  if (program === undefined) return 'unavailable';
  const { code } = await runBounded(program, [...args, text], { timeoutMs: COMMAND_MS, signal });
  return code === 0 ? 'heard' : 'unheard';
};
