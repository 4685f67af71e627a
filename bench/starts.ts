/**
 * Measures how long a command of `poste` takes beside a Node.js that does nothing: every hook of an agent waits for it,
 * and the first turn of an agent for its tools.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { posteHome } from '../test/support/poste-home.ts';
import type { Environment } from '../test/support/poste-process.ts';
import { withOwnEnd } from '../test/support/test-end.ts';
import { ofBuild } from './build.ts';
import { quantile, inRounds } from './figures.ts';
import type { Figure } from './report.ts';

const STARTS = 15;
const EVENT = JSON.stringify({ session_id: 'bench', hook_event_name: 'UserPromptSubmit', cwd: '/', prompt: 'go' });
const AGENT = 'bench';
const CLIENT = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: AGENT, version: '0' } };
/** A client that leaves when it knows the tools. */
const LISTING = [
  { id: 0, method: 'initialize', params: CLIENT },
  { method: 'notifications/initialized' },
  { id: 1, method: 'tools/list' },
].map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

export function starts(rounds: number): Promise<Figure[]> {
  return withOwnEnd(async () => {
    const home = await posteHome('bench');
    await home.daemonProcess();
    await home.json('agent', 'add', AGENT);
    return beside(rounds, home.environment, {
      node: ['-e', '0'],
      version: poste('--version'),
      help: poste('--help'),
      hook: poste('hooks', 'run', 'claude-code', '--agent', AGENT),
      mcp: poste('mcp', '--agent', AGENT, '--start'),
      inbox: poste('inbox', '--as', AGENT, '--json'),
    });
  });
}

function poste(...args: string[]): string[] {
  return [ofBuild('dist/cli/main.js'), ...args];
}

type Command = 'node' | 'version' | 'help' | 'hook' | 'mcp' | 'inbox';

/** Standard input; it ends then. */
const INPUT: Readonly<Partial<Record<Command, string>>> = { hook: EVENT, mcp: LISTING.join('') };

/** By turns, so that what the machine does beside falls on all of them. */
async function beside(
  rounds: number,
  environment: Environment,
  commands: Record<Command, readonly string[]>,
): Promise<Figure[]> {
  const of = await inRounds(rounds, async () => {
    const ms: Record<Command, number[]> = { node: [], version: [], help: [], hook: [], mcp: [], inbox: [] };
    for (let start = 0; start < STARTS; start++)
      for (const command of Object.keys(commands) as Command[])
        ms[command].push(await took(commands[command], environment, INPUT[command]));
    const median = (command: Command): number => quantile(ms[command], 0.5);
    const medians = (Object.keys(ms) as Command[]).map((command) => [command, median(command)]);
    return Object.fromEntries(medians) as Record<Command, number>;
  });
  const node = of('node');
  const toNode = (command: Command): number[] => of(command).map((ms, round) => ms / (node[round] ?? Number.NaN));
  const title = {
    version: '--version',
    help: '--help',
    hook: 'a hook, with a daemon',
    mcp: 'mcp, until the tools are listed',
    inbox: 'inbox, with a daemon',
  };
  return [
    { name: 'bare node', unit: 'ms', better: 'less', values: node },
    ...(['version', 'help', 'hook', 'mcp', 'inbox'] as const).flatMap((command): Figure[] => [
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

async function took(args: readonly string[], environment: Environment, input = ''): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...environment },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  // A program that reads nothing may have ended.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${args.slice(1).join(' ')} ended with exit code ${code}`);
  return performance.now() - startedMs;
}
