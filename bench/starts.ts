/** How long a command of `poste` takes beside a Node.js that does nothing: what every hook of an agent waits for. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quantile } from './figures.ts';
import type { Figure } from './report.ts';
import { inRounds } from './rounds.ts';

const PROGRAM = new URL('../dist/cli/main.js', import.meta.url).pathname;
const STARTS = 15;
const EVENT = JSON.stringify({ session_id: 'bench', hook_event_name: 'UserPromptSubmit', cwd: '/', prompt: 'go' });
const AGENT = 'bench';

interface Environment {
  PATH: string | undefined;
  POSTE_HOME: string;
}

export async function starts(rounds: number): Promise<Figure[]> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const environment = { PATH: process.env['PATH'], POSTE_HOME: join(folder, 'poste') };
  try {
    await took(poste('init', '--host', 'bench', '--json'), environment);
    const daemon = spawn(process.execPath, poste('daemon', '--json', '--log-level', 'error'), {
      env: environment,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const end = (): void => void daemon.kill('SIGKILL');
    process.once('exit', end);
    try {
      await once(daemon.stdout, 'data');
      await took(poste('agent', 'add', AGENT, '--json'), environment);
      return await beside(rounds, environment, {
        node: ['-e', '0'],
        version: poste('--version'),
        help: poste('--help'),
        hook: poste('hooks', 'run', 'claude-code', '--agent', AGENT),
        inbox: poste('inbox', '--as', AGENT, '--json'),
      });
    } finally {
      const exited = once(daemon, 'exit');
      daemon.kill('SIGTERM');
      await exited;
      process.off('exit', end);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function poste(...args: string[]): string[] {
  return [PROGRAM, ...args];
}

type Command = 'node' | 'version' | 'help' | 'hook' | 'inbox';

/** By turns, so that what the machine does beside falls on all of them. */
async function beside(
  rounds: number,
  environment: Environment,
  commands: Record<Command, readonly string[]>,
): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const ms: Record<Command, number[]> = { node: [], version: [], help: [], hook: [], inbox: [] };
    for (let start = 0; start < STARTS; start++)
      for (const command of Object.keys(commands) as Command[])
        ms[command].push(await took(commands[command], environment));
    const median = (command: Command): number => quantile(ms[command], 0.5);
    return {
      node: median('node'),
      version: median('version'),
      help: median('help'),
      hook: median('hook'),
      inbox: median('inbox'),
    };
  });
  const node = of('node');
  const toNode = (command: Command): number[] => of(command).map((ms, round) => ms / (node[round] ?? Number.NaN));
  const title = { version: '--version', help: '--help', hook: 'a hook, with a daemon', inbox: 'inbox, with a daemon' };
  return [
    { name: 'bare node', unit: 'ms', better: 'less', values: node },
    ...(['version', 'help', 'hook', 'inbox'] as const).flatMap((command): Figure[] => [
      { name: `poste ${title[command]}`, unit: 'ms', better: 'less', values: of(command) },
      {
        name: `poste ${title[command]} / node`,
        unit: 'ratio',
        better: 'less',
        values: toNode(command),
        goal: 1.5,
      },
    ]),
  ];
}

async function took(args: readonly string[], environment: Environment): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { env: { ...environment }, stdio: ['pipe', 'ignore', 'inherit'] });
  // A program that reads nothing may have ended.
  child.stdin.on('error', () => undefined);
  child.stdin.end(EVENT);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${args.slice(1).join(' ')} ended with exit code ${code}`);
  return performance.now() - startedMs;
}
