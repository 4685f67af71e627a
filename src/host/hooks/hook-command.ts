/**
 * The command line of a hook, as it stands in a program's settings.
 *
 * Any shell may run it. It replaces the shell, so that the hook's parent is the agent's program; and when Poste is not
 * there any more it does nothing: a hook that fails would wake its agent again and again.
 */
import { shellWord } from '../../protocol/shell-word.ts';
import type { HookProgramName } from './hook-program.ts';

/** DO NOT CHANGE what comes before the programs: hooks that were installed are known by it. */
const GUARD = `/bin/sh -c '[ -x "$1" ] && [ -f "$2" ] || exit 0; exec "$@"' poste-hook `;

export interface HookCommand {
  program: HookProgramName;
  /** Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The agent whose sessions these are; without it the environment of a session says so. */
  agent?: string | undefined;
  /** Where the host lies, when it is not where it is by default. */
  home?: string | undefined;
}

export function hookCommand({ program, node, main, agent, home }: HookCommand): string {
  const words = [node, main, 'hooks', 'run', program, ...(agent === undefined ? [] : ['--agent', agent])];
  const environment = home === undefined ? '' : `env ${shellWord(`POSTE_HOME=${home}`)} `;
  return `exec ${environment}${GUARD}${words.map(shellWord).join(' ')}`;
}

/** Whether Poste made it, whatever version and wherever it lay. */
export function isHookCommand(command: string, program: HookProgramName): boolean {
  const [before, words] = command.split(GUARD);
  return before?.startsWith('exec ') === true && words?.includes(` hooks run ${program}`) === true;
}
