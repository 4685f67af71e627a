/**
 * `poste hooks run`: the hook of an agent's program. It runs at every prompt, so `main.ts` comes here without the rest
 * of the command line, and nothing is loaded that a hook does not need.
 */
import { readFileSync } from 'node:fs';
import { DaemonClient } from '../../host/api/client.ts';
import { DEFAULT_AGENT, HOOK_PROGRAMS, type HookProgramName, PROGRAM_OF } from '../../host/hooks/programs.ts';
import { runHook } from '../../host/hooks/run-hook.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { chosenAgent, readProjectAgents } from '../../host/base/project-agents.ts';
import { attempt } from '../../lib/caught.ts';
import { isAgentName } from '../../protocol/names.ts';
import type { CommandContext } from '../lib/context.ts';
import { findProgram } from '../lib/find-program.ts';

interface HookRun {
  program: HookProgramName;
  /** The agent of all sessions. */
  agent: string | undefined;
  /** The agent where neither POSTE_AGENT nor the project names one. */
  defaultAgent: string | undefined;
  /** This is the hook that waits, at an event that has another one. */
  waits: boolean;
}

/**
 * The call of a hook as `poste hooks install` writes it into settings (hooks/settings.ts). `undefined` for any other
 * command line: that one is for the parser of the command line.
 */
export function hookRunOf(argv: readonly string[]): HookRun | undefined {
  const [group, command, name, ...flags] = argv;
  const program = HOOK_PROGRAMS.find((known) => known === name);
  if (group !== 'hooks' || command !== 'run' || program === undefined) return undefined;
  const run: HookRun = { program, agent: undefined, defaultAgent: undefined, waits: false };
  for (let at = 0; at < flags.length; at++) {
    const value = flags[at + 1];
    if (flags[at] === '--wait') {
      run.waits = true;
    } else if (flags[at] === '--agent' && value !== undefined && isAgentName(value)) {
      run.agent = value;
      at++;
    } else if (flags[at] === DEFAULT_AGENT && value !== undefined && isAgentName(value)) {
      run.defaultAgent = value;
      at++;
    } else {
      return undefined;
    }
  }
  return run;
}

/** The largest input of a hook: it may hold a long prompt. */
export const HOOK_INPUT_BYTES_MAX = 16 << 20;
const PARENT_EVERY_MS = 1000;

/** The beginning of standard input, or all of it. */
export interface BegunInput {
  bytes: Buffer;
  isWhole: boolean;
}

/** Standard input as text: empty when it is a terminal, or too long. The stream is made only for what is unread. */
export async function hookInput(context: Pick<CommandContext, 'stdin'>, begun: BegunInput): Promise<string> {
  const chunks: Buffer[] = [begun.bytes];
  let bytes = begun.bytes.length;
  if (!begun.isWhole) {
    const { stdin } = context;
    if (stdin.isTTY) return '';
    for await (const chunk of stdin as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > HOOK_INPUT_BYTES_MAX) return '';
      chunks.push(chunk);
    }
  }
  return bytes > HOOK_INPUT_BYTES_MAX ? '' : Buffer.concat(chunks).toString('utf8');
}

/** The words that /proc has; no other system tells them apart. */
function commandLineOf(pid: number): string[] {
  return attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')) ?? [];
}

const NOTHING_READ: BegunInput = { bytes: Buffer.alloc(0), isWhole: false };

export async function runAsHook(
  context: CommandContext,
  { program, agent, defaultAgent, waits }: HookRun,
  begun: BegunInput = NOTHING_READ,
): Promise<void> {
  // There is no daemon without a home folder, and a hook says nothing of that: it never blocks its agent.
  const paths = attempt(() => ownPaths(context));
  if (!paths) return;
  const pid = process.ppid;
  const gone = new AbortController();
  const watch = setInterval(() => {
    if (process.ppid !== pid) gone.abort();
  }, PARENT_EVERY_MS);
  const { exitCode, stdout, stderr } = await runHook({
    program: PROGRAM_OF[program],
    input: await hookInput(context, begun),
    agentIn(given) {
      const folder = (): string => given ?? process.cwd();
      const choice = { given: agent, environment: context.env, program, folder, byDefault: defaultAgent };
      const name = chosenAgent(choice, () => readProjectAgents(paths.dataFolder));
      return name !== undefined && isAgentName(name) ? name : undefined;
    },
    client: new DaemonClient(paths.socket, paths.store),
    pid,
    waits,
    pause: async (ms, signal) => {
      const { setTimeout: elapsed } = await import('node:timers/promises');
      await elapsed(ms, undefined, { signal });
    },
    surroundings: {
      environment: context.env,
      findProgram: (wanted) => findProgram(wanted, context.env['PATH']),
      commandLine: () => commandLineOf(pid),
    },
    gone: gone.signal,
  });
  clearInterval(watch);
  // Each of the two streams is made when it is asked for, which takes a while.
  if (stdout !== '') context.stdout.write(stdout);
  if (stderr !== '') context.stderr.write(stderr);
  context.exitCode = exitCode;
}
